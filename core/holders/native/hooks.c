/*
 * Hooks and metadata: Python objects that PyTorch's C++ objects own through small intermediate
 * objects.
 */
#include "holders/native/hooks.h"

#include <string.h>

#include "base/cleanup.h"
#include "holders/graph/graph.h"
#include "holders/heap/heap.h"
#include "holders/native/object.h"
#include "torch/names.h"

enum {
	MAX_WORDS = 256, /* bytes of an object that are searched for them */
	MAX_HOOKS = 4096,
};

/* PyFunctionPreHook and similar classes, one of which has hooks of several kinds
 * (torch/csrc/autograd/python_hook.h). */
static bool is_hook(const struct gm_class *class)
{
	static const char scope[] = GM_TORCH_AUTOGRAD_SCOPE;
	return class && strncmp(class->linkage_name, scope, sizeof(scope) - 1) == 0 &&
	       strstr(class->linkage_name, "PyFunction") &&
	       (strstr(class->linkage_name, "HookE") || strstr(class->linkage_name, "HooksE"));
}

static void refer_hook(struct gm_holders *graph, uint32_t from, uint64_t hook)
{
	uint64_t dict = hook + gm_torch_layout_of(graph->torch)->hooks.dict;
	if (dict == hook || gm_map_find(&graph->typed_words, dict))
		return; /* unknown in this version; or part of a std::vector and also found directly
		         */
	const struct gm_class *class = gm_graph_class_at(graph, hook);
	if (is_hook(class))
		gm_graph_refer_python_by(graph, from, dict, GM_REF_HOOK,
		        strstr(class->linkage_name, "PostAcc") ? GM_HOOK_AFTER_ACCUMULATION : 0);
}

static void refer_vector_of_hooks(
        struct gm_holders *graph, uint32_t from, uint64_t first, uint64_t last)
{
	uint64_t hook;
	for (size_t i = 0; i < MAX_HOOKS && first < last; i++, first += 8) {
		if (!gm_image_try_u64(graph->image, first, &hook))
			return;
		refer_hook(graph, from, hook);
	}
}

static void refer_metadata(struct gm_holders *graph, uint32_t from, uint64_t metadata)
{
	uint64_t field = metadata + gm_torch_layout_of(graph->torch)->hooks.metadata_dict, dict;
	if (field != metadata && gm_image_try_u64(graph->image, field, &dict) &&
	        gm_python_is_instance(graph->python, dict, "dict"))
		gm_graph_refer_python(graph, from, field, GM_REF_METADATA);
}

void gm_graph_refer_hooks(struct gm_holders *graph, uint32_t from, uint64_t address, size_t size)
{
	uint64_t words[MAX_WORDS];
	if (!graph->python || size > sizeof(words) ||
	        !gm_image_try_read(graph->image, address, words, size))
		return;
	for (size_t i = 1; i < size / 8; i++) {
		if (i + 1 < size / 8 && words[i] == address + 8 * (i + 2) && words[i + 1] >> 32 &&
		        (uint32_t)words[i + 1] <= words[i + 1] >> 32)
			break; /* Node::input_metadata_, a SmallVector after all hooks. Its spare
			          capacity was never initialized and contains words of earlier
			          objects. */
		if (words[i] < 0x10000 || (words[i] & 7) || words[i] >= UINT64_C(1) << 47)
			continue;
		if (i + 2 < size / 8 && words[i] < words[i + 1] &&
		        gm_is_vector(graph, &words[i], 8)) {
			refer_vector_of_hooks(graph, from, words[i], words[i + 1]);
			continue;
		}
		const struct gm_class *class = gm_graph_class_at(graph, words[i]);
		if (!class || class->kind != GM_CLASS_OTHER)
			continue;
		if (strcmp(class->linkage_name, GM_TORCH_METADATA_CLASS) == 0)
			refer_metadata(graph, from, words[i]);
		else
			refer_hook(graph, from, words[i]);
	}
}
