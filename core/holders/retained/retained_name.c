#include "holders/retained/retained_name.h"

#include <stdlib.h>
#include <string.h>

void gm_retained_name_deinit(struct gm_retained_name *name)
{
	gm_retained_names_free(name->members, name->member_count);
	gm_retained_names_free(name->graphs, name->graph_count);
	free(name->name);
	free(name->of);
	gm_native_owner_release(name->native);
	*name = (struct gm_retained_name){0};
}

void gm_retained_names_free(struct gm_retained_name *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		gm_retained_name_deinit(&names[i]);
	free(names);
}

static bool copy_names(const struct gm_retained_name *from, size_t count,
        struct gm_retained_name **ret_names, size_t *ret_count)
{
	*ret_names = count ? calloc(count, sizeof(**ret_names)) : NULL;
	bool whole = *ret_names || !count;
	for (size_t i = 0; whole && i < count; i++, *ret_count += whole)
		whole = gm_retained_name_copy(&from[i], &(*ret_names)[i]);
	return whole;
}

bool gm_retained_name_copy(const struct gm_retained_name *from, struct gm_retained_name *ret_name)
{
	struct gm_retained_name made = {.form = from->form,
	        .name = from->name ? strdup(from->name) : NULL,
	        .of = from->of ? strdup(from->of) : NULL,
	        .native = gm_native_owner_share(from->native),
	        .count = from->count,
	        .more = from->more};
	bool whole = (made.name || !from->name) && (made.of || !from->of);
	whole = whole &&
	        copy_names(from->members, from->member_count, &made.members, &made.member_count) &&
	        copy_names(from->graphs, from->graph_count, &made.graphs, &made.graph_count);
	if (whole)
		*ret_name = made;
	else
		gm_retained_name_deinit(&made);
	return whole;
}

/* Nodes without text come before those with text. Numbers in text are compared as numbers:
 * "layers.9" comes before "layers.10". */
static int compare_texts(const char *left, const char *right)
{
	if (!left || !right)
		return (left != NULL) - (right != NULL);
	return strverscmp(left, right);
}

static int compare_names(
        const struct gm_retained_name *left, const struct gm_retained_name *right, bool counted)
{
	int order;
	if (left->form != right->form)
		return left->form < right->form ? -1 : 1;
	if ((order = gm_native_owner_compare(left->native, right->native)) ||
	        (order = compare_texts(left->name, right->name)) ||
	        (order = compare_texts(left->of, right->of)) ||
	        (order = gm_retained_names_compare(left->members, left->member_count,
	                 right->members, right->member_count, counted)))
		return order;
	if (counted && left->count != right->count)
		return left->count < right->count ? -1 : 1;
	return (int)left->more - (int)right->more;
}

int gm_retained_names_compare(const struct gm_retained_name *left, size_t left_count,
        const struct gm_retained_name *right, size_t right_count, bool counted)
{
	for (size_t i = 0; i < left_count && i < right_count; i++) {
		int order = compare_names(&left[i], &right[i], counted);
		if (order)
			return order;
	}
	return (left_count > right_count) - (left_count < right_count);
}

bool gm_retained_form_is_root(enum gm_retained_form form)
{
	switch (form) {
	case GM_NAME_OPERAND:
	case GM_NAME_CLOSURE_VARIABLE:
	case GM_NAME_NATIVE:
	case GM_NAME_GARBAGE:
	case GM_NAME_CYCLES:
	case GM_NAME_GLOBAL:
	case GM_NAME_LOCAL:
	case GM_NAME_MISSING:
	case GM_NAME_RUNNING:
	case GM_NAME_THREAD:
		return true;
	default:
		return false;
	}
}

static const char *const form_names[GM_NAME_FORM_COUNT] = {
        [GM_NAME_ATTRIBUTE] = "attribute",
        [GM_NAME_GRAD] = "grad",
        [GM_NAME_ITEMS] = "items",
        [GM_NAME_VALUES] = "values",
        [GM_NAME_KEYS] = "keys",
        [GM_NAME_KEY] = "key",
        [GM_NAME_OPERAND] = "operand",
        [GM_NAME_VIEW_BASE] = "view_base",
        [GM_NAME_NO_TENSOR] = "no_tensor",
        [GM_NAME_BUFFERS] = "buffers",
        [GM_NAME_STATES] = "states",
        [GM_NAME_CLOSURE_VARIABLE] = "closure_variable",
        [GM_NAME_NATIVE] = "native",
        [GM_NAME_RUNNING] = "running",
        [GM_NAME_GARBAGE] = "garbage",
        [GM_NAME_CYCLES] = "cycles",
        [GM_NAME_GLOBAL] = "global",
        [GM_NAME_HOOKS] = "hooks",
        [GM_NAME_ITSELF] = "itself",
        [GM_NAME_GRAPH_LEAVES] = "graph_leaves",
        [GM_NAME_LOCAL] = "local",
        [GM_NAME_KEPT_LOCAL] = "kept_local",
        [GM_NAME_PART] = "part",
        [GM_NAME_MODULE_PART] = "module_part",
        [GM_NAME_PARAMETERS] = "parameters",
        [GM_NAME_MISSING] = "missing",
        [GM_NAME_SAVED] = "saved",
        [GM_NAME_SHARED] = "shared",
        [GM_NAME_THREAD] = "thread",
        [GM_NAME_TRACEBACK] = "traceback",
};

const char *gm_retained_form_name(enum gm_retained_form form)
{
	return form_names[form];
}

bool gm_retained_form_find(const char *name, enum gm_retained_form *ret_form)
{
	for (size_t i = 0; i < GM_NAME_FORM_COUNT; i++)
		if (strcmp(form_names[i], name) == 0) {
			*ret_form = (enum gm_retained_form)i;
			return true;
		}
	return false;
}
