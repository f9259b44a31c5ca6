/*
 * Pointers to the driver's functions that PyTorch had looked up before the agent was loaded:
 * c10::cuda::DriverAPI (c10/cuda/driver_api.h), with which its allocator maps expandable segments.
 * They are in libc10_cuda's own data, and are recognized by their values; no other word has the
 * address of such a function.
 */
#include "agent/driver_api.h"

#include <link.h>
#include <stdint.h>
#include <string.h>

#include "agent/patch.h"
#include "agent/stacks/libraries.h"

enum { POINTERS_MAX = 8, SPANS_MAX = 4 };

static struct {
	void **at;
	void *before, *hook;
} replaced[POINTERS_MAX];
static unsigned replaced_count;

struct data {
	struct {
		uintptr_t start, end;
	} spans[SPANS_MAX];
	unsigned count;
};

/* The writable part, without the part that the loader has protected again. */
static int find_data(struct dl_phdr_info *info, size_t size, void *context)
{
	struct data *data = context;
	uintptr_t guarded = 0;
	const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
	if (!slash || strcmp(slash + 1, "libc10_cuda.so") != 0)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		if (header->p_type == PT_GNU_RELRO)
			guarded = info->dlpi_addr + header->p_vaddr + header->p_memsz;
	}
	for (int i = 0; i < info->dlpi_phnum && data->count < SPANS_MAX; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + header->p_vaddr;
		uintptr_t end = start + header->p_memsz;
		if (header->p_type != PT_LOAD || !(header->p_flags & PF_W) || end <= guarded)
			continue;
		start = start < guarded ? guarded : start;
		data->spans[data->count].start = (start + 7) & ~(uintptr_t)7;
		data->spans[data->count++].end = end & ~(uintptr_t)7;
	}
	return 1;
}

static void replace(const struct data *data, void *function, void *hook)
{
	for (unsigned i = 0; function && i < data->count; i++)
		for (void **at = (void **)data->spans[i].start;
		        at < (void **)data->spans[i].end && replaced_count < POINTERS_MAX; at++) {
			if (__atomic_load_n(at, __ATOMIC_RELAXED) != function)
				continue;
			replaced[replaced_count].at = at;
			replaced[replaced_count].before = function;
			replaced[replaced_count++].hook = hook;
			__atomic_store_n(at, hook, __ATOMIC_RELEASE);
		}
}

void gm_agent_driver_api_patch(const struct gm_agent_hook *hooks)
{
	typedef int find_function(const char *, void **, int, uint64_t, int *);
	struct data data = {0};
	find_function *find;
	void *found = gm_agent_find("cuGetProcAddress_v2");
	memcpy(&find, &found, sizeof(found));
	gm_libraries_each(find_data, &data);
	if (!data.count)
		return;
	for (const struct gm_agent_hook *hook = hooks; hook->symbol; hook++) {
		enum { SINCE = 10020 }; /* CUDA 10.2 has both */
		int status = 0;
		void *given = NULL;
		if (strncmp(hook->symbol, "cuMem", 5) != 0)
			continue;
		/* the driver may return another address than the one that it exports */
		if (find && find(hook->symbol, &given, SINCE, 0, &status) == 0)
			replace(&data, given, hook->hook);
		replace(&data, atomic_load(hook->before), hook->hook);
	}
}

void gm_agent_driver_api_undo(void)
{
	for (unsigned i = 0; i < replaced_count; i++) {
		void *expected = replaced[i].hook;
		__atomic_compare_exchange_n(replaced[i].at, &expected, replaced[i].before, false,
		        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	}
	replaced_count = 0;
}
