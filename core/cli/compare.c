#include "cli/compare.h"

#include <string.h>

#include "base/cleanup.h"
#include "ask/diff.h"
#include "render/diff.h"

struct gm_error *gm_parse_group_by(const char *text, enum gm_group_by *ret_by)
{
	static const struct {
		const char *name;
		enum gm_group_by by;
	} names[] = {{"line", GM_BY_LINE}, {"stack", GM_BY_STACK}, {"phase", GM_BY_PHASE},
	        {"category", GM_BY_CATEGORY}, {"operator", GM_BY_OPERATOR},
	        {"module", GM_BY_MODULE}, {"label", GM_BY_LABEL}, {"shape", GM_BY_SHAPE},
	        {"dtype", GM_BY_DTYPE}};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (strcmp(names[i].name, text) == 0) {
			*ret_by = names[i].by;
			return NULL;
		}
	}
	return gm_error_create(GM_USAGE,
	        "--by: '%s' is not a valid group: use line, stack, phase, category, operator, "
	        "module, label, shape or dtype",
	        text);
}

struct gm_error *gm_compare_files(const struct gm_context *context,
        const struct gm_arguments *arguments, const struct gm_compare_options *options,
        const struct gm_compare_view *view, FILE *out, bool *ret_equal)
{
	struct gm_compare compare;
	gm_try(gm_ask_compare(context, arguments->positional, (size_t)arguments->positional_count,
	        options, &compare));
	const struct gm_style style = {context->columns, context->colors};
	struct gm_error *error = arguments->json
	                                 ? gm_render_compare_json(&compare, out)
	                                 : gm_render_compare_text(&compare, view, &style, out);
	if (ret_equal)
		*ret_equal = compare.equal;
	gm_compare_deinit(&compare);
	return error;
}
