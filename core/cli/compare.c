#include "cli/compare.h"

#include "base/cleanup.h"
#include "base/nearest_word.h"
#include "ask/diff.h"
#include "render/diff.h"

struct gm_error *gm_parse_group_by(const char *text, enum gm_group_by *ret_by)
{
	static const char *const names[] = {"line", "stack", "phase", "category", "operator",
	        "module", "label", "shape", "dtype", NULL};
	static const enum gm_group_by values[] = {GM_BY_LINE, GM_BY_STACK, GM_BY_PHASE,
	        GM_BY_CATEGORY, GM_BY_OPERATOR, GM_BY_MODULE, GM_BY_LABEL, GM_BY_SHAPE,
	        GM_BY_DTYPE};
	size_t index;
	gm_try(gm_word_choose("--by", text, names, &index));
	*ret_by = values[index];
	return NULL;
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
