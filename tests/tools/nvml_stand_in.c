/*
 * Stands in for NVIDIA's management library (libnvidia-ml.so.1) in tests: one device, whose figures
 * and processes are those of $GPUMEM_TEST_NVML: "UUID TOTAL FREE [PID:BYTES]...". TOTAL is the one
 * that CUDA tells; as on an H100, NVML's is larger by what the driver keeps for itself. Only the
 * calls that gpumem makes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct process_info {
	unsigned pid;
	unsigned long long bytes;
	unsigned gpu_instance, compute_instance;
};
struct memory_info {
	unsigned long long total, free, used;
};
struct memory_info_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};
enum { SUCCESS, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, WRONG_VERSION = 25, RESERVED = 480 << 20 };

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device);
int nvmlDeviceGetMemoryInfo(void *device, struct memory_info *memory);
int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_info_v2 *memory);
int nvmlDeviceGetComputeRunningProcesses_v3(
        void *device, unsigned *count, struct process_info *processes);

static char uuid[64];
static struct memory_info memory;
static struct process_info processes[16];
static unsigned process_count;

int nvmlInit_v2(void)
{
	const char *text = getenv("GPUMEM_TEST_NVML");
	int used = 0;
	process_count = 0;
	if (!text || sscanf(text, "%63s %llu %llu%n", uuid, &memory.total, &memory.free, &used) < 3)
		return NOT_FOUND;
	memory.used = memory.total - memory.free;
	for (text += used; process_count < 16; text += used, process_count++) {
		struct process_info *one = &processes[process_count];
		if (sscanf(text, " %u:%llu%n", &one->pid, &one->bytes, &used) < 2)
			break;
	}
	return SUCCESS;
}

int nvmlShutdown(void)
{
	return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = 1;
	return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	*device = uuid;
	return index == 0 ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetHandleByUUID(const char *asked, void **device)
{
	*device = uuid;
	return strcmp(asked, uuid) == 0 ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetMemoryInfo(void *device, struct memory_info *ret)
{
	*ret = memory;
	ret->total += RESERVED;
	ret->used += RESERVED;
	return device == uuid ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_info_v2 *ret)
{
	if (ret->version != 0x02000028)
		return WRONG_VERSION;
	ret->total = memory.total + RESERVED;
	ret->reserved = RESERVED;
	ret->free = memory.free;
	ret->used = memory.used;
	return device == uuid ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process_info *ret)
{
	if (device != uuid)
		return NOT_FOUND;
	if (*count < process_count) {
		*count = process_count;
		return INSUFFICIENT_SIZE;
	}
	*count = process_count;
	memcpy(ret, processes, process_count * sizeof(*processes));
	return SUCCESS;
}
