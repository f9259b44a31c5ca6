#include "render/groups.h"

#include <inttypes.h>

#include "render/group_text.h"
#include "render/json.h"
#include "render/text.h"
#include "ask/recording/driven.h"
#include "ask/recording/place.h"

void gm_table_site(struct gm_table *table, const struct gm_shown_site *site, const char *space,
        const char *note)
{
	char work[2 * sizeof(site->node)] = "", caller[512] = "";
	FILE *out = fmemopen(work, sizeof(work), "w");
	if (out) {
		gm_put_node(site, out);
		fclose(out);
	}
	if (site->caller.code)
		snprintf(caller, sizeof(caller), " ← %s:%u", gm_place_base_name(site->caller.file),
		        site->caller.line);
	if (!site->place.code)
		gm_table_cell(table, "%s%s%s", work, space, note);
	else
		gm_table_cell(table, "%s:%u in %s%s%s%s%s%s", gm_place_base_name(site->place.file),
		        site->place.line, site->place.function, work[0] ? ": " : "", work, caller,
		        space, note);
}

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
		if (group->site && group->site->caller.code)
			gm_table_site(table, group->site, "", "");
		else
			gm_table_cell(
			        table, "%s", gm_text_path(gm_text_group(group->kind, group->key)));
	}
	return gm_table_finish(table, style, out) ? NULL : &gm_error_no_memory;
}

void gm_json_set_site(json_t *object, const struct gm_shown_site *site)
{
	if (site->place.code)
		json_object_set_new(object, "site",
		        gm_json_place(site->place.file, site->place.line, site->place.function));
	if (site->caller.code)
		json_object_set_new(object, "called_by",
		        gm_json_place(site->caller.file, site->caller.line, site->caller.function));
	if (site->node[0])
		json_object_set_new(object, "node", gm_json_string(site->node));
	if (site->operator_name[0])
		json_object_set_new(object, "operator", gm_json_string(site->operator_name));
}

json_t *gm_json_groups(const struct gm_group *groups, size_t count)
{
	json_t *all = json_array();
	for (size_t i = 0; i < count; i++) {
		json_t *one = json_pack("{s:o, s:I, s:I}", "key",
		        gm_json_string(gm_text_group(groups[i].kind, groups[i].key)), "bytes",
		        (json_int_t)groups[i].bytes, "blocks", (json_int_t)groups[i].blocks);
		if (groups[i].site)
			gm_json_set_site(one, groups[i].site);
		json_array_append_new(all, one);
	}
	return all;
}
