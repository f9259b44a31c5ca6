/*
 * The addresses of breakpoints. The debugger need not read any symbol table for them: they are
 * found in the libraries' dynamic symbols, and looked up again whenever the dynamic linker reports
 * new libraries.
 */
#include "record/probes.h"

#include <string.h>

#include "record/recorder.h"
#include "record/advance.h"
#include "record/gap.h"
#include "record/naming.h"
#include "torch/names.h"

enum {
	LINK_MAPS_MAX = 4096,
	R_MAP_OFFSET = 8, /* glibc elf/link.h, struct r_debug, 64 bits */
	R_STATE_OFFSET = 24,
};

/* Probes at the entry of one function of one library. */
static const struct {
	enum gm_record_probe probe;
	bool for_cuda, for_cpu;
	const char *module; /* the beginning of its file's name */
	const char *symbol;
	const char *name;
	const char *before; /* the library that had it in older versions */
} fixed_probes[] = {
        {GM_PROBE_REPORT, true, false, "libc10.so", GM_TORCH_REPORT,
                "c10::reportMemoryUsageToProfiler", NULL},
        {GM_PROBE_OOM, true, true, "libc10.so", GM_TORCH_REPORT_OOM,
                "c10::reportOutOfMemoryToProfiler", NULL},
        {GM_PROBE_CPU_NEW, false, true, "libc10.so", GM_TORCH_CPU_NEW,
                "c10::ProfiledCPUMemoryReporter::New", NULL},
        {GM_PROBE_CPU_DELETE, false, true, "libc10.so", GM_TORCH_CPU_DELETE,
                "c10::ProfiledCPUMemoryReporter::Delete", NULL},
        {GM_PROBE_OTHER_ALLOCATOR, true, false, "libtorch_cuda.so", GM_TORCH_CHANGE_ALLOCATOR,
                "torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator",
                "libtorch_python.so" /* 2.4 */},
        {GM_PROBE_LIBRARIES, true, true, "ld-linux-x86-64.so", "_dl_debug_state", "_dl_debug_state",
                NULL},
        {GM_PROBE_EXIT, true, true, "libc.so", "_exit", "_exit", NULL},
};

/* The CUDA runtime's functions, in the library that provides them. */
static const struct {
	enum gm_record_probe probe;
	const char *symbol;
} runtime_probes[] = {
        {GM_PROBE_CUDA_MALLOC, "cudaMalloc"}, {GM_PROBE_CUDA_FREE, "cudaFree"},
        {GM_PROBE_OTHER_ALLOCATOR, "cudaMallocAsync"},
        {GM_PROBE_OTHER_ALLOCATOR,
                "cudaDeviceGetDefaultMemPool"}, /* the same allocator's first call */
};

/* The functions that create tensors. */
static const struct {
	enum gm_record_probe probe;
	const char *symbol, *name;
} tensor_probes[] = {
        {GM_PROBE_EMPTY, GM_TORCH_EMPTY, "at::detail::empty_generic"},
        {GM_PROBE_EMPTY_STRIDED, GM_TORCH_EMPTY_STRIDED, "at::detail::empty_strided_generic"},
};

/* And those that resize storages. */
static const struct {
	bool for_cpu; /* else for CUDA */
	const char *module, *symbol, *name;
} resize_probes[] = {
        {false, "libtorch_cuda.so", GM_TORCH_RESIZE_CUDA, "at::native::resize_bytes_cuda"},
        {true, "libtorch_cpu.so", GM_TORCH_RESIZE_CPU, "at::native::resize_bytes_cpu"},
};

bool gm_record_add_site(struct gm_recorder *recorder, enum gm_record_probe probe, uint64_t address,
        const char *name)
{
	for (size_t i = 0; i < recorder->site_count; i++)
		if (recorder->sites[i].address == address)
			return false;
	if (recorder->site_count == GM_RECORD_SITES_MAX)
		return false;
	recorder->sites[recorder->site_count++] =
	        (struct gm_probe_site){.probe = probe, .address = address, .name = name};
	gm_record_note_instruction(recorder, recorder->site_count - 1);
	return true;
}

static bool has_site(const struct gm_recorder *recorder, const char *name)
{
	for (size_t i = 0; i < recorder->site_count; i++)
		if (strcmp(recorder->sites[i].name, name) == 0)
			return true;
	return false;
}

static const struct gm_module *module_with_bias(struct gm_symbols *symbols, uint64_t bias)
{
	size_t count;
	const struct gm_module *modules = gm_symbols_modules(symbols, &count);
	for (size_t i = 0; i < count; i++)
		if (modules[i].bias == bias && strcmp(modules[i].name, "[vdso]") != 0)
			return &modules[i];
	return NULL;
}

/*
 * The library whose cudaMalloc PyTorch calls: the first in load order that defines it, as the
 * dynamic linker decides (a preloaded library comes before the real one). torch's own large
 * libraries are not searched, because they import it.
 */
static const struct gm_module *find_runtime(struct gm_recorder *recorder)
{
	uint64_t debug, map, ignored;
	const struct gm_module *linker =
	        gm_symbols_find_module(recorder->symbols, "ld-linux-x86-64.so");
	if (linker && gm_symbols_lookup(recorder->symbols, linker, "_r_debug", &debug, NULL) &&
	        gm_image_try_u64(recorder->image, debug + R_MAP_OFFSET, &map)) {
		for (int i = 0; map && i < LINK_MAPS_MAX; i++) {
			/* struct link_map: l_addr, l_name, l_ld, l_next */
			uint64_t link[4];
			if (!gm_image_try_read(recorder->image, map, link, sizeof(link)))
				break;
			const struct gm_module *module =
			        module_with_bias(recorder->symbols, link[0]);
			if (module && strncmp(module->name, "libtorch", 8) != 0 &&
			        gm_symbols_lookup(
			                recorder->symbols, module, "cudaMalloc", &ignored, NULL))
				return module;
			map = link[3];
		}
	}
	return gm_symbols_find_module(recorder->symbols, "libcudart.so");
}

static void find_runtime_probes(struct gm_recorder *recorder)
{
	if (!recorder->cuda || recorder->runtime ||
	        !gm_symbols_find_module(recorder->symbols, "libc10_cuda.so"))
		return;
	recorder->runtime = find_runtime(recorder);
	if (!recorder->runtime) {
		gm_record_gap(recorder, "no library defines cudaMalloc: segments are not recorded");
		return;
	}
	for (size_t i = 0; i < sizeof(runtime_probes) / sizeof(runtime_probes[0]); i++) {
		uint64_t address;
		if (gm_symbols_lookup(recorder->symbols, recorder->runtime,
		            runtime_probes[i].symbol, &address, NULL))
			gm_record_add_site(recorder, runtime_probes[i].probe, address,
			        runtime_probes[i].symbol);
	}
}

/* If only CUDA tensors are recorded: at libtorch_cuda's calls, so that a tensor of the CPU costs no
 * stop. */
static bool find_tensor_probe(
        struct gm_recorder *recorder, const char *symbol, uint64_t *ret_address)
{
	const struct gm_module *maker =
	        gm_symbols_find_module(recorder->symbols, "libtorch_cpu.so");
	const struct gm_module *caller =
	        gm_symbols_find_module(recorder->symbols, "libtorch_cuda.so");
	if (!maker || (!caller && !recorder->cpu))
		return false;
	return (!recorder->cpu &&
	               gm_symbols_lookup_import(recorder->symbols, caller, symbol, ret_address)) ||
	       gm_symbols_lookup(recorder->symbols, maker, symbol, ret_address, NULL);
}

static void find_tensor_probes(struct gm_recorder *recorder)
{
	for (size_t i = 0; i < sizeof(tensor_probes) / sizeof(tensor_probes[0]); i++) {
		uint64_t address;
		if (!has_site(recorder, tensor_probes[i].name) &&
		        find_tensor_probe(recorder, tensor_probes[i].symbol, &address))
			gm_record_add_site(
			        recorder, tensor_probes[i].probe, address, tensor_probes[i].name);
	}
}

static void find_resize_probes(struct gm_recorder *recorder)
{
	for (size_t i = 0; i < sizeof(resize_probes) / sizeof(resize_probes[0]); i++) {
		const struct gm_module *module =
		        gm_symbols_find_module(recorder->symbols, resize_probes[i].module);
		uint64_t address;
		if ((resize_probes[i].for_cpu ? recorder->cpu : recorder->cuda) && module &&
		        !has_site(recorder, resize_probes[i].name) &&
		        gm_symbols_lookup(
		                recorder->symbols, module, resize_probes[i].symbol, &address, NULL))
			gm_record_add_site(
			        recorder, GM_PROBE_RESIZE, address, resize_probes[i].name);
	}
}

static void find_link_state(struct gm_recorder *recorder)
{
	const struct gm_module *linker =
	        gm_symbols_find_module(recorder->symbols, "ld-linux-x86-64.so");
	uint64_t debug;
	if (linker && gm_symbols_lookup(recorder->symbols, linker, "_r_debug", &debug, NULL))
		recorder->link_state = debug + R_STATE_OFFSET;
}

struct gm_error *gm_record_find_probes(struct gm_recorder *recorder)
{
	gm_try(gm_image_refresh(recorder->image));
	gm_try(gm_symbols_refresh(recorder->symbols));
	if (!recorder->link_state)
		find_link_state(recorder);
	for (size_t i = 0; i < sizeof(fixed_probes) / sizeof(fixed_probes[0]); i++) {
		if (!(fixed_probes[i].for_cuda && recorder->cuda) &&
		        !(fixed_probes[i].for_cpu && recorder->cpu))
			continue;
		if (has_site(recorder, fixed_probes[i].name))
			continue;
		const struct gm_module *module =
		        gm_symbols_find_module(recorder->symbols, fixed_probes[i].module);
		if (!module || (recorder->missing & 1u << i))
			continue;
		const struct gm_module *before =
		        fixed_probes[i].before
		                ? gm_symbols_find_module(recorder->symbols, fixed_probes[i].before)
		                : NULL;
		uint64_t address;
		if (gm_symbols_lookup(
		            recorder->symbols, module, fixed_probes[i].symbol, &address, NULL) ||
		        (before && gm_symbols_lookup(recorder->symbols, before,
		                           fixed_probes[i].symbol, &address, NULL))) {
			gm_record_add_site(
			        recorder, fixed_probes[i].probe, address, fixed_probes[i].name);
		} else {
			recorder->missing |= 1u << i;
			gm_record_gap(recorder,
			        "%s has no %s: events of that kind are not recorded", module->name,
			        fixed_probes[i].name);
		}
	}
	find_runtime_probes(recorder);
	find_tensor_probes(recorder);
	find_resize_probes(recorder);
	gm_record_modules(recorder);
	return NULL;
}
