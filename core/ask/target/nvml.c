#include "ask/target/nvml.h"

#include <dlfcn.h>
#include <stdio.h>

#include "torch/torch.h" /* GM_NOT_KNOWN */

/* nvml.h of driver 510 and later (nvmlProcessInfo_v2_t is what the calls of version 2 and 3
 * fill) */
struct process_info {
	unsigned pid;
	unsigned long long bytes;
	unsigned gpu_instance, compute_instance;
};
struct memory_info {
	unsigned long long total, free, used;
};
/* nvmlMemory_v2_t: what the driver keeps for itself is not in `used`. */
struct memory_info_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};
#define MEMORY_V2 ((unsigned)sizeof(struct memory_info_v2) | 2u << 24)
enum { SUCCESS = 0, DEVICES_MAX = 64 };

typedef void *device_t;

struct library {
	void *handle;
	int (*init)(void);
	int (*shutdown)(void);
	int (*count)(unsigned *);
	int (*by_index)(unsigned, device_t *);
	int (*by_uuid)(const char *, device_t *);
	int (*memory)(device_t, struct memory_info *);
	int (*memory_v2)(device_t, struct memory_info_v2 *); /* NULL before driver 510 */
	int (*compute)(device_t, unsigned *, struct process_info *);
	int (*graphics)(device_t, unsigned *, struct process_info *);
};

static bool find(void *handle, const char *name, void *ret)
{
	void *found = dlsym(handle, name);
	*(void **)ret = found;
	return found != NULL;
}

static bool open_library(struct library *library)
{
	void *handle = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
	*library = (struct library){.handle = handle};
	if (!handle)
		return false;
	bool there = find(handle, "nvmlInit_v2", &library->init) &&
	             find(handle, "nvmlShutdown", &library->shutdown) &&
	             find(handle, "nvmlDeviceGetCount_v2", &library->count) &&
	             find(handle, "nvmlDeviceGetHandleByIndex_v2", &library->by_index) &&
	             find(handle, "nvmlDeviceGetHandleByUUID", &library->by_uuid) &&
	             find(handle, "nvmlDeviceGetMemoryInfo", &library->memory) &&
	             (find(handle, "nvmlDeviceGetComputeRunningProcesses_v3", &library->compute) ||
	                     find(handle, "nvmlDeviceGetComputeRunningProcesses_v2",
	                             &library->compute)) &&
	             library->init() == SUCCESS;
	if (!there) {
		dlclose(handle);
		return false;
	}
	(void)find(handle, "nvmlDeviceGetMemoryInfo_v2", &library->memory_v2);
	if (!find(handle, "nvmlDeviceGetGraphicsRunningProcesses_v3", &library->graphics))
		(void)find(handle, "nvmlDeviceGetGraphicsRunningProcesses_v2", &library->graphics);
	return true;
}

static void add_processes(int (*ask)(device_t, unsigned *, struct process_info *), device_t device,
        struct gm_nvml_device *ret)
{
	struct process_info found[GM_NVML_PROCESSES_MAX] = {{0}};
	unsigned count = GM_NVML_PROCESSES_MAX;
	if (!ask || ask(device, &count, found) != SUCCESS || count > GM_NVML_PROCESSES_MAX)
		return;
	for (unsigned i = 0; i < count && ret->process_count < GM_NVML_PROCESSES_MAX; i++) {
		bool known = false; /* a process that computes and draws is in both lists */
		for (size_t j = 0; j < ret->process_count && !known; j++)
			known = ret->processes[j].pid == found[i].pid;
		if (!known)
			ret->processes[ret->process_count++] =
			        (struct gm_nvml_process){found[i].pid,
			                found[i].bytes == ~0ULL ? GM_NOT_KNOWN : found[i].bytes};
	}
}

static bool read_device(const struct library *library, device_t device, struct gm_nvml_device *ret)
{
	struct memory_info memory = {0};
	struct memory_info_v2 exact = {.version = MEMORY_V2};
	ret->process_count = 0;
	if (library->memory(device, &memory) != SUCCESS || memory.free > memory.total)
		return false;
	/* NVML's total has the driver's own share in it (480 MiB of an H100), CUDA's has not: the
	 * one that programs see in cudaMemGetInfo and in an out-of-memory message is CUDA's. */
	if (library->memory_v2 && library->memory_v2(device, &exact) == SUCCESS &&
	        exact.total == memory.total && exact.reserved <= memory.total - memory.free)
		memory.total -= exact.reserved;
	ret->total = memory.total;
	ret->free = memory.free;
	add_processes(library->compute, device, ret);
	add_processes(library->graphics, device, ret);
	return true;
}

/* "GPU-01020304-0506-0708-090a-0b0c0d0e0f10"; a partition of a device (MIG) has another prefix */
static bool find_by_uuid(
        const struct library *library, const unsigned char *uuid, struct gm_nvml_device *ret)
{
	static const char *const prefixes[] = {"GPU", "MIG"};
	for (size_t i = 0; i < 2; i++) {
		char text[64], *at = text + sprintf(text, "%s", prefixes[i]);
		for (size_t j = 0; j < 16; j++)
			at += sprintf(at, "%s%02x",
			        j == 0 || j == 4 || j == 6 || j == 8 || j == 10 ? "-" : "",
			        uuid[j]);
		device_t device;
		if (library->by_uuid(text, &device) == SUCCESS)
			return read_device(library, device, ret);
	}
	return false;
}

static bool has_process(const struct gm_nvml_device *device, uint64_t pid)
{
	for (size_t i = 0; i < device->process_count; i++)
		if (device->processes[i].pid == pid)
			return true;
	return false;
}

static bool find_by_process(const struct library *library, uint64_t pid, struct gm_nvml_device *ret)
{
	unsigned count = 0;
	size_t found = 0;
	if (library->count(&count) != SUCCESS || count > DEVICES_MAX)
		return false;
	for (unsigned i = 0; i < count; i++) {
		struct gm_nvml_device one;
		device_t device;
		if (library->by_index(i, &device) != SUCCESS ||
		        !read_device(library, device, &one) || !has_process(&one, pid))
			continue;
		*ret = one;
		found++;
	}
	return found == 1;
}

bool gm_nvml_ask(const unsigned char *uuid, uint64_t pid, struct gm_nvml_device *ret_device)
{
	struct library library;
	if (!open_library(&library))
		return false;
	bool found = uuid ? find_by_uuid(&library, uuid, ret_device)
	                  : find_by_process(&library, pid, ret_device);
	library.shutdown();
	dlclose(library.handle);
	return found;
}
