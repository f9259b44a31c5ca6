#include "torch/statics.h"

#include "torch/internal.h"
#include "torch/torch.h"

enum { MAX_ENTRIES = 1 << 20, MAX_NAMES = 3 };

/* 2.8 to 2.11; 2.4 to 2.7 */
static const char *const cublas_names[MAX_NAMES] = {
        "_ZZN2at4cuda33cublas_handle_stream_to_workspaceEvE8instance",
        "_ZZN2at4cuda12_GLOBAL__N_133cublas_handle_stream_to_workspaceEvE8instance",
};
/* 2.9 to 2.11: before, the memory is requested at each call */
static const char *const cublaslt_names[MAX_NAMES] = {
        "_ZZN2at4cuda35cublaslt_handle_stream_to_workspaceEvE8instance",
};
/* 2.4 to 2.11 */
static const char *const sent_names[MAX_NAMES] = {
        "_ZN5torch12_GLOBAL__N_124cuda_ipc_global_entitiesE",
};
/* 2.10, 2.11; 2.4 to 2.9 */
static const char *const autocast_names[MAX_NAMES] = {
        "_ZZN2at8autocast12_GLOBAL__N_116get_cached_castsEvE12cached_casts",
        "_ZZN2at8autocast12_GLOBAL__N_1L16get_cached_castsEvE12cached_casts",
        "_ZN2at8autocast12_GLOBAL__N_112cached_castsE",
};

/* The first of these variables that the library has, at most MAX_NAMES; 0: none. They are local:
 * whether they are static or in an anonymous namespace depends on the version. */
static uint64_t find(struct gm_torch *torch, const char *library, const char *const *names)
{
	const struct gm_module *module = gm_symbols_find_module(torch->symbols, library);
	const uint64_t *known = gm_map_find(&torch->statics, (uintptr_t)names);
	uint64_t address, *slot;
	if (known)
		return *known;
	for (size_t i = 0; module && i < MAX_NAMES && names[i]; i++) {
		if (!gm_symbols_lookup(torch->symbols, module, names[i], &address, NULL))
			continue;
		/* half a million names are searched for one */
		slot = gm_map_put(&torch->statics, (uintptr_t)names, NULL);
		if (slot)
			*slot = address;
		return address;
	}
	return 0;
}

/*
 * aten/src/ATen/cuda/CUDAContextLight.h (2.11): WorkspaceMapWithMutex begins with a std::map from
 * (handle, stream) to at::DataPtr; before, the variable was the map itself. Both are created by
 * `static auto& instance = *new ...` (CublasHandlePool.cpp). A node of libstdc++'s map: color,
 * parent, left, right, then the key (two words) and the DataPtr, whose first word is the memory.
 */
static void visit_workspaces(struct gm_torch *torch, const char *const *names,
        enum gm_torch_static kind, gm_torch_static_visit visit, void *context)
{
	uint64_t variable = find(torch, "libtorch_cuda.so", names), map, root, count, words[7];
	if (!variable || !gm_image_try_u64(torch->image, variable, &map) ||
	        !gm_is_object_address(map) || !gm_image_try_u64(torch->image, map + 16, &root) ||
	        !gm_image_try_u64(torch->image, map + 40, &count) || count > MAX_ENTRIES)
		return;
	uint64_t stack[128]; /* the tree is balanced: if it is deeper, it is damaged */
	size_t depth = 0;
	if (root)
		stack[depth++] = root;
	while (depth > 0 && count > 0) {
		uint64_t node = stack[--depth];
		if (!gm_is_object_address(node) ||
		        !gm_image_try_read(torch->image, node, words, sizeof(words)))
			continue;
		count--;
		visit(context, kind, words[6], node + 48);
		for (size_t i = 2; i < 4; i++)
			if (words[i] && depth < sizeof(stack) / sizeof(stack[0]))
				stack[depth++] = words[i];
	}
}

/*
 * aten/src/ATen/autocast_mode.cpp: cached_casts is a ska::flat_hash_map from the TensorImpl of the
 * weight to a tuple of a weak reference to it and the cast Tensor. An entry is a signed distance
 * byte (below 0: empty) and the pair at +8; libstdc++ puts a tuple's last member first.
 */
void gm_torch_autocast(struct gm_torch *torch, gm_torch_static_visit visit, void *context)
{
	enum { ENTRY = 32 };
	const struct gm_flat_hash_layout *hash = &torch->layout->allocator.hash;
	uint64_t table = find(torch, "libtorch_cpu.so", autocast_names);
	unsigned char head[32], entry[ENTRY];
	if (!table || !gm_image_try_read(torch->image, table, head, sizeof(head)))
		return;
	uint64_t entries = gm_word(head, hash->entries),
	         count = gm_word(head, hash->slots_minus_one);
	int8_t lookups = (int8_t)head[hash->lookups];
	if (!gm_is_object_address(entries) || count > MAX_ENTRIES || lookups < 0)
		return;
	count += (uint64_t)lookups;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t at = entries + i * ENTRY;
		if (!gm_image_try_read(torch->image, at, entry, ENTRY))
			return;
		if ((int8_t)entry[0] >= 0)
			visit(context, GM_STATIC_AUTOCAST, gm_word(entry, 16), at + 16);
	}
}

/*
 * torch/csrc/CudaIPCTypes.cpp: CudaIPCGlobalEntities has a mutex, a counter, a std::map and a
 * std::shared_ptr, then the limbo: a std::vector of CudaIPCSentData, memory whose tensors do not
 * exist any more here while a receiver may have some. Each begins with a std::string, an offset and
 * a pointer to the shared counter, then the DataPtr (CudaIPCTypes.h; 2.4 to 2.11).
 */
static void visit_sent(struct gm_torch *torch, gm_torch_static_visit visit, void *context)
{
	enum { LIMBO = 112, BATCH = 64 };
	uint64_t variable = find(torch, "libtorch_cuda.so", sent_names), bounds[2], items[BATCH];
	uint64_t data = torch->layout->old_strings ? 24 : 48;
	if (!variable ||
	        !gm_image_try_read(torch->image, variable + LIMBO, bounds, sizeof(bounds)) ||
	        bounds[1] < bounds[0] || (bounds[1] - bounds[0]) / 8 > MAX_ENTRIES)
		return;
	for (uint64_t at = bounds[0]; at < bounds[1]; at += sizeof(items)) {
		size_t left = (size_t)(bounds[1] - at) / 8, count = left < BATCH ? left : BATCH;
		if (!gm_image_try_read(torch->image, at, items, count * 8))
			return;
		for (size_t i = 0; i < count; i++) {
			uint64_t memory;
			if (gm_is_object_address(items[i]) &&
			        gm_image_try_u64(torch->image, items[i] + data, &memory))
				visit(context, GM_STATIC_SENT, memory, items[i] + data);
		}
	}
}

void gm_torch_statics(struct gm_torch *torch, gm_torch_static_visit visit, void *context)
{
	visit_workspaces(torch, cublas_names, GM_STATIC_CUBLAS, visit, context);
	visit_workspaces(torch, cublaslt_names, GM_STATIC_CUBLASLT, visit, context);
	gm_torch_autocast(torch, visit, context);
	visit_sent(torch, visit, context);
}
