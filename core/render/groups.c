#include "render/groups.h"

#include <inttypes.h>

#include "render/json.h"

struct gm_error *gm_render_groups(const struct gm_group *groups, size_t count, const char *what,
        const struct gm_style *style, FILE *out)
{
	const char *const heads[] = {"size", "bytes", "blocks", what};
	struct gm_table *table = gm_table_create(heads, "rrrl");
	for (size_t i = 0; i < count; i++) {
		const struct gm_group *group = &groups[i];
		char size[GM_SIZE_TEXT], exact[GM_SIZE_GROUPED];
		gm_table_cell(table, "%s", gm_text_size(group->bytes, size));
		gm_table_cell(table, "%s", gm_text_grouped(group->bytes, exact));
		gm_table_cell(table, "%" PRIu64, group->blocks);
		gm_table_cell(table, "%s", gm_text_path(group->key));
	}
	return gm_table_finish(table, style, out) ? NULL : &gm_error_no_memory;
}

json_t *gm_json_groups(const struct gm_group *groups, size_t count)
{
	json_t *all = json_array();
	for (size_t i = 0; i < count; i++)
		json_array_append_new(
		        all, json_pack("{s:o, s:I, s:I}", "key", gm_json_string(groups[i].key),
		                     "bytes", (json_int_t)groups[i].bytes, "blocks",
		                     (json_int_t)groups[i].blocks));
	return all;
}
