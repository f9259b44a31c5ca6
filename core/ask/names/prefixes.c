#include "ask/names/prefixes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 256, FRAMES_MAX = 256 };

static void offer(struct gm_name_walk *walk, uint64_t object, const char *name)
{
	for (size_t i = 0; i < walk->roots.count; i++) {
		struct gm_name_root *root = &walk->roots.items[i];
		if (root->module != object || root->prefix || name[0] == '_')
			continue;
		root->prefix = strndup(name, GM_LOG_NAME_MAX / 4);
		walk->no_memory = walk->no_memory || !root->prefix;
	}
}

static bool see_global(void *context, uint64_t key, uint64_t value, const char *name)
{
	if (name)
		offer(context, value, name);
	return true;
}

static bool see_module(void *context, const char *name, uint64_t module, uint64_t dict)
{
	struct gm_name_walk *walk = context;
	if (strcmp(name, "__main__") == 0)
		gm_zero_pairs(walk->reading, dict, see_global, walk);
	return true;
}

static bool see_local(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	if (kind == GM_EDGE_LOCAL && name && strcmp(name, "self") != 0)
		offer(context, target, name);
	return true;
}

/* Outermost frames first: a function of the program itself, not the functions it has called. */
static void see_frames(struct gm_name_walk *walk)
{
	struct gm_python *python = walk->reading->python;
	struct gm_python_thread *threads = calloc(THREADS_MAX, sizeof(*threads));
	struct gm_python_frame *frames = calloc(FRAMES_MAX, sizeof(*frames));
	size_t count = 0;
	if (!threads || !frames)
		walk->no_memory = true;
	else
		gm_error_destroy(gm_python_threads(python, threads, THREADS_MAX, &count));
	for (size_t i = 0; i < count; i++)
		for (size_t k = gm_python_thread_stack(python, &threads[i], frames, FRAMES_MAX);
		        k > 0; k--)
			gm_python_frame_references(python, &frames[k - 1], see_local, walk);
	free(threads);
	free(frames);
}

/* Equal prefixes are numbered. */
static void make_unique(struct gm_name_walk *walk)
{
	for (size_t i = 0; i < walk->roots.count; i++) {
		struct gm_name_root *root = &walk->roots.items[i];
		unsigned before = 0;
		char *longer = NULL;
		for (size_t k = 0; k < i && root->prefix && root->named; k++) {
			const struct gm_name_root *other = &walk->roots.items[k];
			before += other->named && other->prefix &&
			          strncmp(other->prefix, root->prefix, strlen(root->prefix)) == 0 &&
			          strchr("#", other->prefix[strlen(root->prefix)]);
		}
		if (!before)
			continue;
		if (asprintf(&longer, "%s#%u", root->prefix, before + 1) < 0) {
			walk->no_memory = true;
			return;
		}
		free(root->prefix);
		root->prefix = longer;
	}
}

void gm_name_walk_prefixes(struct gm_name_walk *walk)
{
	size_t trained = 0, with_parameters = 0, named = 0;
	for (size_t i = 0; i < walk->roots.count; i++) {
		trained += walk->roots.items[i].trained;
		with_parameters += walk->roots.items[i].parameters > 0;
		named += walk->roots.items[i].named;
	}
	if (named < 2)
		return;
	gm_error_destroy(gm_python_modules(walk->reading->python, see_module, walk));
	see_frames(walk);
	for (size_t i = 0; i < walk->roots.count && !walk->no_memory; i++) {
		struct gm_name_root *root = &walk->roots.items[i];
		bool alone = trained == 1
		                     ? root->trained
		                     : trained == 0 && with_parameters == 1 && root->parameters > 0;
		if (alone || !root->named) {
			free(root->prefix);
			root->prefix = NULL;
		} else if (!root->prefix) {
			root->prefix = gm_zero_class(walk->reading, root->module);
		}
	}
	make_unique(walk);
}
