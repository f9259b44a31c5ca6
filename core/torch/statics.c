#include "torch/statics.h"

#include "torch/internal.h"

enum { MAX_ENTRIES = 1 << 20 };

const char *gm_torch_static_text(enum gm_torch_static kind)
{
	switch (kind) {
	case GM_STATIC_CUBLAS:
		return "cuBLAS workspaces";
	case GM_STATIC_CUBLASLT:
		return "cuBLASLt workspaces";
	default:
		return "autocast's cache of cast weights";
	}
}

/*
 * aten/src/ATen/cuda/CUDAContextLight.h (2.11): WorkspaceMapWithMutex begins with a std::map from (handle, stream) to
 * at::DataPtr; before it there was the map alone. Either is made by `static auto& instance = *new ...`
 * (CublasHandlePool.cpp). A node of libstdc++'s map: color, parent, left, right, then the key (two words) and the
 * DataPtr, whose first word is the memory.
 */
static void visit_workspaces(struct gm_torch *torch, const char *name, enum gm_torch_static kind,
        gm_torch_static_visit visit, void *context)
{
	const struct gm_module *module = gm_symbols_find_module(torch->symbols, "libtorch_cuda.so");
	uint64_t variable, map, root, count, words[7];
	if (!module || !gm_symbols_lookup(torch->symbols, module, name, &variable, NULL) ||
	        !gm_image_try_u64(torch->image, variable, &map) || !gm_is_object_address(map) ||
	        !gm_image_try_u64(torch->image, map + 16, &root) ||
	        !gm_image_try_u64(torch->image, map + 40, &count) || count > MAX_ENTRIES)
		return;
	uint64_t stack[128]; /* the tree is balanced: deeper is damage */
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
 * aten/src/ATen/autocast_mode.cpp: cached_casts is a ska::flat_hash_map from the TensorImpl of the weight to a tuple of a
 * weak reference to it and the cast Tensor. An entry is a signed distance byte (below 0: empty) and the pair at +8;
 * libstdc++ puts a tuple's last member first.
 */
static void visit_autocast(struct gm_torch *torch, gm_torch_static_visit visit, void *context)
{
	static const char *const names[] = {
	        "_ZZN2at8autocast12_GLOBAL__N_116get_cached_castsEvE12cached_casts",
	        "_ZN2at8autocast12_GLOBAL__N_112cached_castsE",
	};
	enum { ENTRY = 32 };
	const struct gm_flat_hash_layout *hash = &torch->layout->allocator.hash;
	const struct gm_module *module = gm_symbols_find_module(torch->symbols, "libtorch_cpu.so");
	uint64_t table = 0;
	for (size_t i = 0; module && i < 2 && table == 0; i++)
		if (!gm_symbols_lookup(torch->symbols, module, names[i], &table, NULL))
			table = 0;
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

void gm_torch_statics(struct gm_torch *torch, gm_torch_static_visit visit, void *context)
{
	visit_workspaces(torch, "_ZZN2at4cuda33cublas_handle_stream_to_workspaceEvE8instance",
	        GM_STATIC_CUBLAS, visit, context);
	visit_workspaces(torch, "_ZZN2at4cuda35cublaslt_handle_stream_to_workspaceEvE8instance",
	        GM_STATIC_CUBLASLT, visit, context);
	visit_autocast(torch, visit, context);
}
