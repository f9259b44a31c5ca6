#include "view/view.h"

#include <sys/stat.h>

#include "base/cleanup.h"
#include "model/categories.h"
#include "view/column.h"
#include "view/device.h"
#include "view/head.h"
#include "view/other.h"
#include "view/page.h"
#include "view/sources.h"
#include "view/tables.h"

/* The data that are drawn first come first: the page can show them while the blocks are
 * decompressed. */
static struct gm_error *write_columns(struct gm_context *context, const char *other,
        struct gm_model *model, struct gm_view_columns *columns, struct gm_view_tables *tables,
        struct gm_view_account *account)
{
	const struct gm_categories *categories;
	gm_try(gm_model_categories(model, &categories));
	gm_try(gm_view_head(context, model, columns));
	for (size_t i = 0; i < gm_model_device_count(model); i++)
		if (gm_model_device(model, i)->events)
			gm_try(gm_view_device_levels(model, i, categories, columns));
	if (other)
		gm_try(gm_view_other(context, other, columns));
	for (size_t i = 0; i < gm_model_device_count(model); i++) {
		uint64_t blocks;
		if (!gm_model_device(model, i)->events)
			continue;
		gm_try(gm_view_device_blocks(model, i, categories, tables, columns, &blocks));
		gm_try(gm_view_device_segments(model, i, columns));
		gm_view_device_before(model, i, columns);
		account->blocks += blocks;
		account->devices++;
	}
	return gm_view_tables_write(tables, columns);
}

static void destroy_sources(struct gm_view_sources **sources)
{
	gm_view_sources_destroy(*sources);
}

/* Files that have not changed since the first event are the ones that ran; if no times are known,
 * since the recording was written. */
static struct gm_error *open_sources(
        const struct gm_model *model, struct gm_view_sources **ret_sources)
{
	const struct gm_log *log = gm_model_log(model);
	struct gm_event first = {0};
	struct stat status;
	if (gm_log_event_count(log))
		gm_log_event(log, 0, &first);
	uint64_t until = first.time_ns;
	if (!until && stat(gm_log_path(log), &status) == 0)
		until = (uint64_t)status.st_mtim.tv_sec * 1000000000;
	return gm_view_sources_create(until, ret_sources);
}

static struct gm_error *write_page(struct gm_context *context,
        const struct gm_view_options *options, struct gm_model *model,
        struct gm_view_columns *columns, FILE *out, struct gm_view_account *account)
{
	_cleanup_(destroy_sources) struct gm_view_sources *sources = NULL;
	struct gm_view_tables *tables;
	if (options->sources)
		gm_try(open_sources(model, &sources));
	gm_try(gm_view_tables_create(model, sources, &tables));
	fwrite(gm_view_page_begin, 1, gm_view_page_begin_size, out);
	struct gm_error *error =
	        write_columns(context, options->other, model, columns, tables, account);
	fwrite(gm_view_page_end, 1, gm_view_page_end_size, out);
	gm_view_tables_destroy(tables);
	return error;
}

struct gm_error *gm_view_write(struct gm_context *context, const struct gm_view_options *options,
        FILE *out, struct gm_view_account *ret_account)
{
	struct gm_model *model;
	struct gm_view_columns *columns;
	gm_try(gm_context_model(context, &model));
	struct gm_view_account account = {.events = gm_log_event_count(gm_model_log(model))};
	gm_try(gm_view_columns_create(out, &columns));
	struct gm_error *error = write_page(context, options, model, columns, out, &account);
	gm_view_columns_destroy(columns);
	if (!error)
		*ret_account = account;
	return error;
}
