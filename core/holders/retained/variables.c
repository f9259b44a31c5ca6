/*
 * Names of variables: locals of frames, globals of modules, references of threads. Of several names
 * for one object the best comes first: a name in the program's own code before one in a library,
 * one in an outer function before one in a function that it called.
 */
#include "holders/retained/variables.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/packages.h"
#include "base/search.h"
#include "holders/retained/reach.h"
#include "holders/describe/names.h"
#include "base/strings.h"

enum { /* ranks, which are also the distance of a variable from the root */
	RANK_GLOBAL = 0,
	RANK_LOCAL = 1,
	RANK_SELF = 3,
	RANK_OTHER_GLOBAL = 4,
	RANK_LIBRARY = 6,
	RANK_OPERAND = 7,
	RANK_THREAD = 7,
};

enum { CELL_OF_ANOTHER = 0x80 /* CO_FAST_FREE */ };

static const struct gm_edge *edge_of(const struct gm_reach *reach, const struct gm_reach_name *name)
{
	return &reach->graph->edges.items[name->edge];
}

static const struct gm_python_frame *frame_of(
        const struct gm_reach *reach, const struct gm_reach_name *name)
{
	const struct gm_vertex *root = &reach->graph->vertices.items[edge_of(reach, name)->from];
	return root->kind == GM_VERTEX_FRAME ? &reach->graph->frames.items[root->detail].frame
	                                     : NULL;
}

static const char *module_of(const struct gm_reach *reach, const struct gm_reach_name *name)
{
	const struct gm_vertex *root = &reach->graph->vertices.items[edge_of(reach, name)->from];
	return root->flags & GM_VERTEX_ROOT_MODULE ? reach->graph->modules.items[root->detail].name
	                                           : NULL;
}

/* --- the names of globals --------------------------------------------------------------------- */

struct naming {
	struct gm_reach *reach;
	const uint32_t *sorted; /* names in this module, by the address of their value */
	size_t count;
};

static uint64_t target_of(const struct gm_reach *reach, const struct gm_reach_name *name)
{
	return reach->graph->vertices.items[edge_of(reach, name)->to].address;
}

static bool name_global(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct naming *naming = context;
	struct gm_reach *reach = naming->reach;
	if (kind != GM_EDGE_KEY || !name)
		return true;
	size_t low = gm_partition_point(naming->count, middle,
	        target_of(reach, &reach->names.items[naming->sorted[middle]]) < target);
	for (; low < naming->count; low++) {
		struct gm_reach_name *at = &reach->names.items[naming->sorted[low]];
		if (target_of(reach, at) != target)
			break;
		if (at->name)
			continue;
		at->name = gm_strings_add(&reach->strings, name);
		break;
	}
	return true;
}

static int by_root_and_target(const void *a, const void *b, void *context)
{
	const struct gm_reach *reach = context;
	const struct gm_reach_name *left = &reach->names.items[*(const uint32_t *)a];
	const struct gm_reach_name *right = &reach->names.items[*(const uint32_t *)b];
	const struct gm_edge *left_edge = edge_of(reach, left), *right_edge = edge_of(reach, right);
	if (left_edge->from != right_edge->from)
		return left_edge->from < right_edge->from ? -1 : 1;
	uint64_t left_target = target_of(reach, left), right_target = target_of(reach, right);
	return left_target < right_target ? -1 : left_target > right_target;
}

static void name_globals(struct gm_reach *reach)
{
	size_t count = reach->names.count;
	_cleanup_free_ uint32_t *sorted = malloc((count + 1) * sizeof(*sorted));
	if (!sorted) {
		reach->no_memory = true;
		return;
	}
	for (size_t i = 0; i < count; i++)
		sorted[i] = (uint32_t)i;
	if (count)
		qsort_r(sorted, count, sizeof(*sorted), by_root_and_target, reach);
	for (size_t i = 0; i < count;) {
		const struct gm_reach_name *name = &reach->names.items[sorted[i]];
		uint32_t root = edge_of(reach, name)->from;
		size_t end = i + 1;
		while (end < count &&
		        edge_of(reach, &reach->names.items[sorted[end]])->from == root)
			end++;
		if (module_of(reach, name)) {
			struct naming naming = {reach, sorted + i, end - i};
			gm_python_references(reach->graph->python,
			        reach->graph->vertices.items[root].address, name_global, &naming);
		}
		i = end;
	}
}

/* --- ranks ------------------------------------------------------------------------------------ */

static bool is_package_file(const char *file)
{
	size_t rest;
	return file && gm_packages_part(file, strlen(file), &rest);
}

static bool is_library_file(const char *file)
{
	return file && gm_file_is_library(file);
}

/* For each frame: does it run a library's code? The interpreter's own modules (threading, runpy)
 * start programs. */
static bool *find_nested(const struct gm_holders *graph)
{
	bool *nested = calloc(graph->frames.count + 1, sizeof(*nested));
	bool library = false;
	for (size_t i = graph->frames.count; nested && i-- > 0;) {
		const struct gm_frame_root *root = &graph->frames.items[i];
		if (i + 1 == graph->frames.count ||
		        graph->frames.items[i + 1].thread != root->thread)
			library = false;
		nested[i] = library;
		library |= is_package_file(root->frame.code->file);
	}
	return nested;
}

static void rank(struct gm_reach *reach, struct gm_reach_name *name)
{
	const struct gm_edge *edge = edge_of(reach, name);
	const struct gm_python_frame *frame = frame_of(reach, name);
	const char *module = module_of(reach, name);
	if (module) {
		name->rank = strcmp(module, "__main__") == 0 ? RANK_GLOBAL : RANK_OTHER_GLOBAL;
		return;
	}
	name->order = UINT32_MAX - reach->graph->vertices.items[edge->from].detail;
	if (!frame || edge->kind != GM_REF_LOCAL) {
		name->rank = RANK_THREAD;
		return;
	}
	if (edge->extra >= frame->code->local_count) {
		name->rank = RANK_OPERAND;
		return;
	}
	const char *local = frame->code->local_names[edge->extra];
	name->name = gm_strings_add(&reach->strings, local);
	name->rank = is_library_file(frame->code->file) ? RANK_LIBRARY
	             : strcmp(local, "self") == 0       ? RANK_SELF
	                                                : RANK_LOCAL;
}

static int by_rank(const void *a, const void *b)
{
	const struct gm_reach_name *left = a, *right = b;
	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	if (left->order != right->order)
		return left->order < right->order ? -1 : 1;
	return left->edge < right->edge ? -1 : left->edge > right->edge;
}

void gm_reach_name_variables(struct gm_reach *reach)
{
	_cleanup_free_ bool *nested = find_nested(reach->graph);
	if (!nested) {
		reach->no_memory = true;
		return;
	}
	if (reach->graph->python)
		name_globals(reach);
	for (size_t i = 0; i < reach->names.count; i++)
		rank(reach, &reach->names.items[i]);
	for (size_t i = 0; i < reach->variables.count; i++) {
		struct gm_variable *variable = &reach->variables.items[i];
		if (variable->name_count == 0)
			continue;
		struct gm_reach_name *names = &reach->names.items[variable->first_name];
		qsort(names, variable->name_count, sizeof(*names), by_rank);
		const struct gm_vertex *root =
		        &reach->graph->vertices.items[edge_of(reach, &names[0])->from];
		variable->running = names[0].rank == RANK_LIBRARY ||
		                    names[0].rank == RANK_OPERAND ||
		                    (root->kind == GM_VERTEX_FRAME && nested[root->detail]);
	}
	for (uint32_t e = reach->first[0]; e < reach->first[1]; e++) {
		const struct gm_variable *variable =
		        gm_reach_variable_at(reach, reach->edges.items[e].to);
		uint8_t length = RANK_THREAD;
		if (variable && variable->running)
			length = RANK_LIBRARY;
		else if (variable && variable->name_count)
			length = reach->names.items[variable->first_name].rank;
		reach->edges.items[e].length = length;
	}
}

const struct gm_variable *gm_reach_variable_at(const struct gm_reach *reach, uint32_t vertex)
{
	size_t low = gm_partition_point(
	        reach->variables.count, middle, reach->variables.items[middle].vertex < vertex);
	return low < reach->variables.count && reach->variables.items[low].vertex == vertex
	               ? &reach->variables.items[low]
	               : NULL;
}

bool gm_reach_is_self(const struct gm_reach *reach, const struct gm_variable *variable)
{
	return variable->name_count && reach->names.items[variable->first_name].rank == RANK_SELF;
}

/* --- labels ----------------------------------------------------------------------------------- */

static uint32_t add_label(struct gm_reach *reach, struct gm_reach_label made)
{
	uint64_t hash = gm_hash_bytes(&made, sizeof(made), 0) | 1;
	for (;; hash += 2) { /* other labels with the same hash come next */
		bool is_new;
		uint64_t *slot = gm_map_put(&reach->by_label, hash, &is_new);
		if (slot && !is_new && *slot) {
			if (memcmp(&reach->labels.items[*slot - 1], &made, sizeof(made)) == 0)
				return (uint32_t)*slot;
			continue;
		}
		if (!slot || !gm_array_push(&reach->labels, made)) {
			reach->no_memory = true;
			return 0;
		}
		*slot = reach->labels.count;
		return (uint32_t)*slot;
	}
}

uint32_t gm_reach_label(
        struct gm_reach *reach, enum gm_retained_form form, const char *name, const char *of)
{
	struct gm_reach_label made = {
	        form, gm_strings_add(&reach->strings, name), gm_strings_add(&reach->strings, of)};
	if ((name && !made.name) || (of && !made.of)) {
		reach->no_memory = true;
		return 0;
	}
	return add_label(reach, made);
}

/* There are few owners of different parts, so they are searched one by one. */
uint32_t gm_reach_native_label(struct gm_reach *reach, struct gm_native_owner *owner)
{
	uint32_t number = 0;
	while (number < reach->owners.count &&
	        gm_native_owner_compare(reach->owners.items[number], owner) != 0)
		number++;
	if (number == reach->owners.count) {
		if (!owner || !gm_array_push(&reach->owners, owner)) {
			reach->no_memory = true;
			return 0;
		}
		gm_native_owner_share(owner);
	}
	return add_label(reach, (struct gm_reach_label){GM_NAME_NATIVE, number + 1, 0});
}

uint32_t gm_reach_name_label(struct gm_reach *reach, const struct gm_reach_name *name)
{
	const struct gm_edge *edge = edge_of(reach, name);
	const struct gm_python_frame *frame = frame_of(reach, name);
	const char *module = module_of(reach, name);
	/* adding strings does not move existing ones */
	const char *of = name->name ? gm_strings_at(&reach->strings, name->name) : NULL;
	if (module)
		return gm_reach_label(
		        reach, GM_NAME_GLOBAL, of, strcmp(module, "__main__") == 0 ? NULL : module);
	if (frame && edge->kind == GM_REF_LOCAL && !of)
		return gm_reach_label(reach, GM_NAME_OPERAND, NULL, frame->code->name);
	if (frame && edge->kind == GM_REF_LOCAL)
		return gm_reach_label(reach,
		        frame->code->local_kinds[edge->extra] & CELL_OF_ANOTHER
		                ? GM_NAME_CLOSURE_VARIABLE
		                : GM_NAME_LOCAL,
		        of, frame->code->name);
	return gm_reach_label(reach, GM_NAME_THREAD,
	        frame || edge->kind == GM_REF_THREAD ? reach->graph->thread_names.items[edge->extra]
	                                             : NULL,
	        frame ? frame->code->name : NULL);
}

bool gm_reach_label_name(
        const struct gm_reach *reach, uint32_t label, struct gm_retained_name *ret_name)
{
	const struct gm_reach_label *from = &reach->labels.items[label - 1];
	struct gm_retained_name made = {.form = (enum gm_retained_form)from->form};
	if (made.form == GM_NAME_NATIVE) {
		made.native = gm_native_owner_share(reach->owners.items[from->name - 1]);
		*ret_name = made;
		return true;
	}
	if (from->name)
		made.name = strdup(gm_strings_at(&reach->strings, from->name));
	if (from->of)
		made.of = strdup(gm_strings_at(&reach->strings, from->of));
	bool whole = (made.name || !from->name) && (made.of || !from->of);
	if (whole)
		*ret_name = made;
	else
		gm_retained_name_deinit(&made);
	return whole;
}

char *gm_reach_name_place(const struct gm_reach *reach, const struct gm_reach_name *name)
{
	char *text;
	const struct gm_python_frame *frame = frame_of(reach, name);
	if (!frame || !frame->code->file ||
	        asprintf(&text, "%s:%u", gm_base_name(frame->code->file), frame->line) < 0)
		return NULL;
	return text;
}

uint32_t gm_reach_variable_label(struct gm_reach *reach, const struct gm_variable *variable)
{
	switch (variable->kind) {
	case GM_VARIABLE_NAMED:
		return gm_reach_name_label(reach, &reach->names.items[variable->first_name]);
	case GM_VARIABLE_MISSING:
		return gm_reach_label(reach, GM_NAME_MISSING, NULL, NULL);
	case GM_VARIABLE_GARBAGE:
		return gm_reach_label(reach, GM_NAME_GARBAGE, NULL, NULL);
	case GM_VARIABLE_CYCLES:
		return gm_reach_label(reach, GM_NAME_CYCLES, NULL, NULL);
	default:
		return variable->label;
	}
}
