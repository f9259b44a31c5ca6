#include "view/view.h"

#include "base/cleanup.h"
#include "model/categories.h"
#include "view/column.h"
#include "view/device.h"
#include "view/head.h"
#include "view/other.h"
#include "view/page.h"
#include "view/tables.h"

/* What is drawn first stands first: the page can show it while the blocks are unpacked. */
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

struct gm_error *gm_view_write(struct gm_context *context, const char *other, FILE *out,
        struct gm_view_account *ret_account)
{
	struct gm_model *model;
	struct gm_view_columns *columns;
	struct gm_view_tables *tables;
	gm_try(gm_context_model(context, &model));
	struct gm_view_account account = {.events = gm_log_event_count(gm_model_log(model))};
	gm_try(gm_view_columns_create(out, &columns));
	struct gm_error *error = gm_view_tables_create(model, &tables);
	if (!error) {
		fwrite(gm_view_page_begin, 1, gm_view_page_begin_size, out);
		error = write_columns(context, other, model, columns, tables, &account);
		fwrite(gm_view_page_end, 1, gm_view_page_end_size, out);
		gm_view_tables_destroy(tables);
	}
	gm_view_columns_destroy(columns);
	if (!error)
		*ret_account = account;
	return error;
}
