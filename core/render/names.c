#include "render/names.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "render/json.h"

enum { LISTED = 256 };

const char *gm_text_names(const struct gm_model *model, size_t block, char text[GM_NAMES_TEXT])
{
	struct gm_block_name first;
	size_t count = gm_model_names(model, block, &first, 1);
	text[0] = '\0';
	if (count == 1)
		snprintf(text, GM_NAMES_TEXT, "%s", first.name);
	else if (count > 1)
		snprintf(text, GM_NAMES_TEXT, "%s and %zu more", first.name, count - 1);
	return text;
}

void gm_json_set_names(json_t *value, const struct gm_model *model, size_t block)
{
	if (!gm_model_has_names(model))
		return;
	_cleanup_free_ struct gm_block_name *names = calloc(LISTED, sizeof(*names));
	size_t count = names ? gm_model_names(model, block, names, LISTED) : 0;
	json_t *all = json_array();
	for (size_t i = 0; i < count && i < LISTED; i++)
		json_array_append_new(all,
		        json_pack("{s:o, s:s, s:I, s:I}", "name", gm_json_string(names[i].name),
		                "kind", gm_named_kind_name(names[i].kind), "offset",
		                (json_int_t)names[i].offset, "bytes", (json_int_t)names[i].size));
	json_object_set_new(value, "name", count ? gm_json_string(names[0].name) : json_null());
	json_object_set_new(value, "names", all);
	json_object_set_new(value, "name_count", json_integer((json_int_t)count));
}
