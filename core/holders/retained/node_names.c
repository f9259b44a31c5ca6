/* Names for the nodes of `retained`'s tree: parts of variables, modules with their paths, sharers.
 * */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holders/describe/names.h"
#include "base/strings.h"
#include "holders/retained/builder.h"
#include "holders/retained/variables.h"

/* "layers.3.mlp": a submodule with the modules above it. */
static char *module_path(struct gm_retained_builder *builder, uint32_t number)
{
	const char *names[GM_RETAINED_DEPTH];
	size_t count = 0, length = 1;
	for (uint32_t at = number; at != 0 && count < GM_RETAINED_DEPTH;
	        at = builder->nodes.items[at].parent) {
		const struct gm_step *step = &builder->nodes.items[at].step;
		if (step->part != GM_PART_MODULE && step->part != GM_PART_PARAMETER &&
		        step->part != GM_PART_BUFFER)
			break;
		names[count++] = gm_strings_at(&builder->reach->strings, step->name);
		length += strlen(names[count - 1]) + 1;
	}
	char *text = malloc(length), *at = text;
	if (!text)
		return NULL;
	*at = 0;
	while (count-- > 0)
		at += sprintf(at, "%s%s", names[count], count ? "." : "");
	return text;
}

static struct gm_retained_name plain_name(enum gm_retained_form form, uint32_t count)
{
	return (struct gm_retained_name){.form = form, .count = count};
}

/* `items`: the items of a container. */
static struct gm_retained_name element_name(
        struct gm_retained_builder *builder, struct gm_step step, uint32_t items)
{
	struct gm_retained_name made = {.form = GM_NAME_PART};
	switch (step.part) {
	case GM_PART_ITEM:
		return plain_name(GM_NAME_ITEMS, items ? items : 1);
	case GM_PART_STATE:
		return plain_name(GM_NAME_STATES, 0);
	case GM_PART_GRAD:
	case GM_PART_GRADS:
		return plain_name(GM_NAME_GRAD, 0);
	case GM_PART_PARAMETERS:
		return plain_name(GM_NAME_PARAMETERS, 0);
	case GM_PART_BUFFERS:
		return plain_name(GM_NAME_BUFFERS, 0);
	case GM_PART_GRAPH:
		return plain_name(GM_NAME_GRAPH_LEAVES, 0);
	case GM_PART_SAVED_GROUP:
		return plain_name(GM_NAME_SAVED, 0);
	case GM_PART_HOOK:
		return plain_name(GM_NAME_HOOKS, 0);
	case GM_PART_VIEW:
		return plain_name(GM_NAME_VIEW_BASE, 0);
	case GM_PART_UNKNOWN:
		return plain_name(GM_NAME_NO_TENSOR, 0);
	case GM_PART_TRACEBACK:
		return plain_name(GM_NAME_TRACEBACK, 0);
	case GM_PART_VARIABLE:
	case GM_PART_LOCAL:
		if (!step.name || !gm_reach_label_name(builder->reach, step.name, &made))
			builder->no_memory = true;
		return made;
	case GM_PART_DICT_KEY:
		return plain_name(GM_NAME_KEYS, items ? items : 1);
	case GM_PART_KEY:
		if (!step.name)
			return plain_name(GM_NAME_VALUES, items ? items : 1);
		made.form = GM_NAME_KEY;
		break;
	case GM_PART_ATTRIBUTE:
		made.form = GM_NAME_ATTRIBUTE;
		break;
	default:
		break;
	}
	if (step.name && step.part != GM_PART_SHARED) {
		made.name = strdup(gm_strings_at(&builder->reach->strings, step.name));
		builder->no_memory |= !made.name;
	}
	return made;
}

/* How little a name tells the program's author: the program's own variables come first, then
 * globals of modules, those of a package before those of its parts. */
static unsigned distance_of(const struct gm_retained_name *name)
{
	unsigned parts = 0;
	switch (name->form) {
	case GM_NAME_LOCAL:
	case GM_NAME_CLOSURE_VARIABLE:
		return 0;
	case GM_NAME_GLOBAL:
		if (!name->of)
			return 0;
		for (const char *dot = name->of; (dot = strchr(dot, '.')); dot++)
			parts++;
		return 1 + parts + (strncmp(name->name ? name->name : "", "__", 2) == 0 ? 100 : 0);
	default:
		return 1000;
	}
}

static int by_name(const void *a, const void *b)
{
	const struct gm_retained_name *left = a, *right = b;
	unsigned left_distance = distance_of(left), right_distance = distance_of(right);
	if (left_distance != right_distance)
		return left_distance < right_distance ? -1 : 1;
	if (left->form != right->form)
		return left->form < right->form ? -1 : 1;
	int order = gm_native_owner_compare(left->native, right->native);
	if (order)
		return order;
	order = strcmp(left->name ? left->name : "", right->name ? right->name : "");
	return order ? order : strcmp(left->of ? left->of : "", right->of ? right->of : "");
}

/* Names of a set's members; those that are not variables come last. */
static struct gm_retained_name *set_names(
        struct gm_retained_builder *builder, uint32_t set, size_t *ret_count)
{
	const struct gm_sharing *sharing = builder->sharing;
	const struct gm_sharers *sharers = &sharing->sets.items[set];
	struct gm_retained_name *names = calloc((size_t)sharers->count + 1, sizeof(*names));
	struct gm_retained_name last[2];
	size_t count = 0, others = 0;
	builder->no_memory |= !names;
	for (uint32_t i = 0; i < sharers->count && names; i++) {
		uint32_t member = sharing->members.items[sharers->first + i];
		struct gm_retained_name name =
		        element_name(builder, gm_sharing_member(sharing, set, i), 0);
		bool other = member == sharing->running || member == sharing->missing;
		if (other && others < 2)
			last[others++] = name;
		else
			names[count++] = name;
	}
	if (count)
		qsort(names, count, sizeof(*names), by_name);
	for (size_t i = 0; i < others; i++)
		names[count++] = last[i];
	*ret_count = count;
	return names;
}

static struct gm_retained_name shared_name(struct gm_retained_builder *builder, uint32_t set)
{
	const struct gm_sharers *sharers = &builder->sharing->sets.items[set];
	struct gm_retained_name made = {.form = GM_NAME_SHARED, .more = sharers->more};
	made.members = set_names(builder, set, &made.member_count);
	if (sharers->graphs)
		made.graphs = set_names(builder, sharers->graphs, &made.graph_count);
	return made;
}

struct gm_retained_name gm_retained_node_name(struct gm_retained_builder *builder, uint32_t number)
{
	const struct gm_retained_building *node = &builder->nodes.items[number];
	switch (node->step.part) {
	case GM_PART_MODULE:
	case GM_PART_PARAMETER:
	case GM_PART_BUFFER: {
		struct gm_retained_name made = {
		        .form = GM_NAME_MODULE_PART, .name = module_path(builder, number)};
		builder->no_memory |= !made.name;
		return made;
	}
	case GM_PART_SHARED:
		return shared_name(builder, node->step.name);
	default:
		return element_name(builder, node->step, node->items);
	}
}
