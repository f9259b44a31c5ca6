/*
 * NVML, as far as PyTorch and monitors use it: the devices, and the processes that use their
 * memory.
 *
 * torch.cuda.device_count(), utilization(), memory_usage(), device_memory_used() and
 * list_gpu_processes() use libnvidia-ml.so.1, and so does the allocator for its out-of-memory
 * message. libgpumem-sim-nvml.so has that SONAME; the functions are here. NVML describes the
 * machine, not the program: it has the devices that CUDA_VISIBLE_DEVICES omits, memory of all
 * processes of the run, and it creates no context and works in a forked child.
 *
 * Measurements of a board (temperature, power, fans) are not simulated: these calls fail and are
 * named (stubs.c). The wheels have no nvml.h; structures and numbers are those of NVML 13 (r580),
 * whose names end in _t there.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

enum result {
	SUCCESS = 0,
	UNINITIALIZED = 1,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
	DRIVER_NOT_LOADED = 9,
};

enum {
	NVLINK_REMOTE_SWITCH = 2,
	TOPOLOGY_SYSTEM = 50,
	TOPOLOGY_NODE = 40,
	P2P_OK = 0,
	P2P_NOT_SUPPORTED = 4,
};

/* A handle is an address within this array. */
static char handles[GM_SIM_DEVICES_MAX];
static _Atomic int started;

/* nvmlMemory_t and nvmlMemory_v2_t */
struct memory {
	unsigned long long total, free, used;
};
struct memory2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};
/* nvmlProcessInfo_v1_t and _v2_t (and nvmlProcessInfo_t, which version 3 of the calls fills) */
struct process1 {
	unsigned pid;
	unsigned long long bytes;
};
struct process2 {
	unsigned pid;
	unsigned long long bytes;
	unsigned instance, compute_instance;
};
/* nvmlPciInfo_t */
struct pci {
	char legacy[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char text[32];
};
struct utilization {
	unsigned gpu, memory;
};

static const struct gm_sim_profile *profile(void)
{
	return &gm_sim_machine_choice()->profile;
}

/* The device's number on the machine; -1 if the handle is invalid, or NVML was not started. */
static int index_of(const void *handle)
{
	uintptr_t at = (uintptr_t)handle - (uintptr_t)handles;
	return started > 0 && at < gm_sim_machine_choice()->count ? (int)at : -1;
}

static int check(const void *handle, const void *ret)
{
	if (started <= 0)
		return UNINITIALIZED;
	return index_of(handle) < 0 || !ret ? INVALID_ARGUMENT : SUCCESS;
}

#define CHECK(handle, ret)                           \
	do {                                         \
		int wrong_ = check((handle), (ret)); \
		if (wrong_)                          \
			return wrong_;               \
	} while (0)

static int value_of(enum cudaDeviceAttr id)
{
	int known;
	return gm_sim_profile_attribute(profile(), (int)id, &known);
}

static int put(char *text, unsigned capacity, const char *value)
{
	if (!text)
		return INVALID_ARGUMENT;
	if (strlen(value) >= capacity)
		return INSUFFICIENT_SIZE;
	strcpy(text, value);
	return SUCCESS;
}

#define NVML(name, ...)        \
	int name(__VA_ARGS__); \
	GM_SIM_EXPORT int name(__VA_ARGS__)

NVML(nvmlInitWithFlags, unsigned flags)
{
	if (!gm_sim_machine_choice()->count)
		return DRIVER_NOT_LOADED;
	started++;
	return SUCCESS;
}

NVML(nvmlInit_v2, void)
{
	return nvmlInitWithFlags(0);
}

NVML(nvmlInit, void)
{
	return nvmlInitWithFlags(0);
}

NVML(nvmlShutdown, void)
{
	if (started <= 0)
		return UNINITIALIZED;
	started--;
	return SUCCESS;
}

const char *nvmlErrorString(int code);

GM_SIM_EXPORT const char *nvmlErrorString(int code)
{
	static const char *const texts[] = {
	        [SUCCESS] = "Success",
	        [UNINITIALIZED] = "Uninitialized",
	        [INVALID_ARGUMENT] = "Invalid Argument",
	        [NOT_SUPPORTED] = "Not Supported",
	        [4] = "Insufficient Permissions",
	        [5] = "Already Initialized",
	        [NOT_FOUND] = "Not Found",
	        [INSUFFICIENT_SIZE] = "Insufficient Size",
	        [8] = "Insufficient External Power",
	        [DRIVER_NOT_LOADED] = "Driver Not Loaded",
	};
	return code >= 0 && (size_t)code < sizeof(texts) / sizeof(texts[0]) ? texts[code]
	                                                                    : "Unknown Error";
}

NVML(nvmlDeviceGetCount_v2, unsigned *count)
{
	if (started <= 0)
		return UNINITIALIZED;
	if (!count)
		return INVALID_ARGUMENT;
	*count = gm_sim_machine_choice()->count;
	return SUCCESS;
}

NVML(nvmlDeviceGetCount, unsigned *count)
{
	return nvmlDeviceGetCount_v2(count);
}

NVML(nvmlDeviceGetHandleByIndex_v2, unsigned index, void **handle)
{
	if (started <= 0)
		return UNINITIALIZED;
	if (!handle || index >= gm_sim_machine_choice()->count)
		return INVALID_ARGUMENT;
	*handle = &handles[index];
	return SUCCESS;
}

NVML(nvmlDeviceGetHandleByIndex, unsigned index, void **handle)
{
	return nvmlDeviceGetHandleByIndex_v2(index, handle);
}

NVML(nvmlDeviceGetUUID, const void *handle, char *text, unsigned capacity)
{
	CHECK(handle, text);
	char uuid[GM_SIM_UUID_TEXT];
	gm_sim_uuid_text(profile(), (uint32_t)index_of(handle), uuid);
	return put(text, capacity, uuid);
}

NVML(nvmlDeviceGetHandleByUUID, const char *text, void **handle)
{
	if (started <= 0)
		return UNINITIALIZED;
	if (!text || !handle)
		return INVALID_ARGUMENT;
	for (unsigned i = 0; i < gm_sim_machine_choice()->count; i++) {
		char uuid[GM_SIM_UUID_TEXT];
		gm_sim_uuid_text(profile(), i, uuid);
		if (strcmp(text, uuid) == 0) {
			*handle = &handles[i];
			return SUCCESS;
		}
	}
	return NOT_FOUND;
}

NVML(nvmlDeviceGetHandleByPciBusId_v2, const char *text, void **handle)
{
	unsigned domain, bus, slot, function = 0;
	if (started <= 0)
		return UNINITIALIZED;
	if (!text || !handle)
		return INVALID_ARGUMENT;
	/* "0000:1B:00.0" or "00000000:1B:00.0"; PyTorch leaves domain and function as the
	 * properties have them */
	if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3)
		return INVALID_ARGUMENT;
	if (domain || slot || function || bus < GM_SIM_FIRST_BUS ||
	        bus - GM_SIM_FIRST_BUS >= gm_sim_machine_choice()->count)
		return NOT_FOUND;
	*handle = &handles[bus - GM_SIM_FIRST_BUS];
	return SUCCESS;
}

NVML(nvmlDeviceGetHandleByPciBusId, const char *text, void **handle)
{
	return nvmlDeviceGetHandleByPciBusId_v2(text, handle);
}

NVML(nvmlDeviceGetIndex, const void *handle, unsigned *index)
{
	CHECK(handle, index);
	*index = (unsigned)index_of(handle);
	return SUCCESS;
}

NVML(nvmlDeviceGetMinorNumber, const void *handle, unsigned *number)
{
	return nvmlDeviceGetIndex(handle, number);
}

NVML(nvmlDeviceGetName, const void *handle, char *text, unsigned capacity)
{
	CHECK(handle, text);
	return put(text, capacity, profile()->device_name);
}

NVML(nvmlDeviceGetPciInfo_v3, const void *handle, struct pci *info)
{
	CHECK(handle, info);
	memset(info, 0, sizeof(*info));
	info->bus = GM_SIM_FIRST_BUS + (unsigned)index_of(handle);
	snprintf(info->legacy, sizeof(info->legacy), "0000:%02X:00.0", info->bus);
	snprintf(info->text, sizeof(info->text), "00000000:%02X:00.0", info->bus);
	info->device_id = (unsigned)value_of(cudaDevAttrGpuPciDeviceId);
	info->subsystem_id = (unsigned)value_of(cudaDevAttrGpuPciSubsystemId);
	return SUCCESS;
}

NVML(nvmlDeviceGetCudaComputeCapability, const void *handle, int *major, int *minor)
{
	CHECK(handle, major);
	if (!minor)
		return INVALID_ARGUMENT;
	*major = value_of(cudaDevAttrComputeCapabilityMajor);
	*minor = value_of(cudaDevAttrComputeCapabilityMinor);
	return SUCCESS;
}

NVML(nvmlDeviceGetMemoryBusWidth, const void *handle, unsigned *bits)
{
	CHECK(handle, bits);
	*bits = (unsigned)value_of(cudaDevAttrGlobalMemoryBusWidth);
	return SUCCESS;
}

/* --- memory ----------------------------------------------------------------------------------- */

struct list {
	uint64_t sum;
	unsigned count, capacity;
	bool old;
	void *to;
};

static void add(uint32_t process, uint64_t bytes, void *data)
{
	struct list *list = data;
	list->sum += bytes;
	if (list->count < list->capacity && list->old)
		((struct process1 *)list->to)[list->count] = (struct process1){process, bytes};
	else if (list->count < list->capacity)
		/* Not a partition of the board: NVML returns all ones. */
		((struct process2 *)list->to)[list->count] =
		        (struct process2){process, bytes, UINT32_MAX, UINT32_MAX};
	list->count++;
}

NVML(nvmlDeviceGetMemoryInfo, const void *handle, struct memory *ret)
{
	CHECK(handle, ret);
	struct list list = {0};
	gm_sim_share_each((uint32_t)index_of(handle), add, &list);
	uint64_t total = profile()->memory;
	*ret = (struct memory){total, total > list.sum ? total - list.sum : 0, list.sum};
	return SUCCESS;
}

NVML(nvmlDeviceGetMemoryInfo_v2, const void *handle, struct memory2 *ret)
{
	enum { VERSION = 0x02000028, ARGUMENT_VERSION_MISMATCH = 25 };
	CHECK(handle, ret);
	if (ret->version != VERSION)
		return ARGUMENT_VERSION_MISMATCH;
	struct memory memory;
	nvmlDeviceGetMemoryInfo(handle, &memory);
	*ret = (struct memory2){VERSION, memory.total, 0, memory.free, memory.used};
	return SUCCESS;
}

static int processes(const void *handle, unsigned *count, void *to, bool old)
{
	CHECK(handle, count);
	struct list list = {.capacity = to ? *count : 0, .old = old, .to = to};
	gm_sim_share_each((uint32_t)index_of(handle), add, &list);
	*count = list.count;
	return list.count > list.capacity ? INSUFFICIENT_SIZE : SUCCESS;
}

NVML(nvmlDeviceGetComputeRunningProcesses, const void *handle, unsigned *count, struct process1 *to)
{
	return processes(handle, count, to, true);
}

NVML(nvmlDeviceGetComputeRunningProcesses_v2, const void *handle, unsigned *count,
        struct process2 *to)
{
	return processes(handle, count, to, false);
}

NVML(nvmlDeviceGetComputeRunningProcesses_v3, const void *handle, unsigned *count,
        struct process2 *to)
{
	return processes(handle, count, to, false);
}

static int none(const void *handle, unsigned *count)
{
	CHECK(handle, count);
	*count = 0;
	return SUCCESS;
}

NVML(nvmlDeviceGetGraphicsRunningProcesses, const void *handle, unsigned *count, void *to)
{
	return none(handle, count);
}

NVML(nvmlDeviceGetGraphicsRunningProcesses_v2, const void *handle, unsigned *count, void *to)
{
	return none(handle, count);
}

NVML(nvmlDeviceGetGraphicsRunningProcesses_v3, const void *handle, unsigned *count, void *to)
{
	return none(handle, count);
}

NVML(nvmlDeviceGetMPSComputeRunningProcesses_v3, const void *handle, unsigned *count, void *to)
{
	return none(handle, count);
}

/* --- properties of a board that computes nothing ---------------------------------------------- */

NVML(nvmlDeviceGetUtilizationRates, const void *handle, struct utilization *ret)
{
	CHECK(handle, ret);
	*ret = (struct utilization){0, 0};
	return SUCCESS;
}

/* The clocks are the profile's highest: nothing reduces them. Kinds: 0 graphics, 1 SM, 2 memory, 3
 * video. */
NVML(nvmlDeviceGetMaxClockInfo, const void *handle, unsigned kind, unsigned *mhz)
{
	CHECK(handle, mhz);
	if (kind > 3)
		return INVALID_ARGUMENT;
	/* The profile's attributes with these numbers (enum cudaDeviceAttr), in kHz. */
	enum { CLOCK_RATE = 13, MEMORY_CLOCK_RATE = 36 };
	*mhz = (unsigned)value_of(
	               (enum cudaDeviceAttr)(kind == 2 ? MEMORY_CLOCK_RATE : CLOCK_RATE)) /
	       1000;
	return SUCCESS;
}

NVML(nvmlDeviceGetClockInfo, const void *handle, unsigned kind, unsigned *mhz)
{
	return nvmlDeviceGetMaxClockInfo(handle, kind, mhz);
}

NVML(nvmlDeviceGetPerformanceState, const void *handle, int *state)
{
	CHECK(handle, state);
	*state = 0;
	return SUCCESS;
}

NVML(nvmlDeviceGetComputeMode, const void *handle, int *mode)
{
	CHECK(handle, mode);
	*mode = 0; /* any number of processes */
	return SUCCESS;
}

NVML(nvmlDeviceGetPersistenceMode, const void *handle, int *mode)
{
	CHECK(handle, mode);
	*mode = 1;
	return SUCCESS;
}

NVML(nvmlDeviceGetMigMode, const void *handle, unsigned *now, unsigned *pending)
{
	CHECK(handle, now);
	*now = 0;
	if (pending)
		*pending = 0;
	return SUCCESS;
}

/* --- connections between devices -------------------------------------------------------------- */

/* All links of an NVLink board go to switches, as in a machine with eight devices. */
static bool linked(const void *handle, unsigned link)
{
	return index_of(handle) >= 0 && profile()->peers == GM_SIM_NVLINK && link < 12 &&
	       gm_sim_machine_choice()->count > 1;
}

NVML(nvmlDeviceGetNvLinkState, const void *handle, unsigned link, int *active)
{
	CHECK(handle, active);
	*active = linked(handle, link);
	return SUCCESS;
}

NVML(nvmlDeviceGetNvLinkRemoteDeviceType, const void *handle, unsigned link, int *type)
{
	CHECK(handle, type);
	if (!linked(handle, link))
		return INVALID_ARGUMENT; /* the answer for a link that does not exist */
	*type = NVLINK_REMOTE_SWITCH;
	return SUCCESS;
}

/*
 * The memory fabric between machines, which the allocator asks about: there is none. Hopper and
 * later report that in the answer (state 0); earlier devices do not support the call.
 * nvmlGpuFabricInfo_v2_t and _v3_t (nvml.h) begin with their version: its last three bytes are the
 * struct's size.
 */
NVML(nvmlDeviceGetGpuFabricInfoV, const void *handle, void *info)
{
	enum { V2 = 0x02000024, V3 = 0x03000028, MISMATCH = 25 };
	CHECK(handle, info);
	int known;
	if (gm_sim_profile_attribute(profile(), cudaDevAttrComputeCapabilityMajor, &known) < 9)
		return NOT_SUPPORTED;
	uint32_t version;
	memcpy(&version, info, sizeof(version));
	if (version != V2 && version != V3)
		return MISMATCH;
	memset((char *)info + sizeof(version), 0, (version & 0xffffff) - sizeof(version));
	return SUCCESS;
}

NVML(nvmlDeviceGetP2PStatus, const void *one, const void *other, unsigned what, int *status)
{
	CHECK(one, status);
	CHECK(other, status);
	*status = profile()->peers == GM_SIM_NO_PEERS ? P2P_NOT_SUPPORTED : P2P_OK;
	return SUCCESS;
}

NVML(nvmlDeviceGetTopologyCommonAncestor, const void *one, const void *other, int *level)
{
	CHECK(one, level);
	CHECK(other, level);
	*level = profile()->peers == GM_SIM_NVLINK ? TOPOLOGY_SYSTEM : TOPOLOGY_NODE;
	return SUCCESS;
}

/* --- the system ------------------------------------------------------------------------------- */

/* The driver that came with CUDA 13.0. */
NVML(nvmlSystemGetDriverVersion, char *text, unsigned capacity)
{
	return started > 0 ? put(text, capacity, "580.65.06") : UNINITIALIZED;
}

NVML(nvmlSystemGetNVMLVersion, char *text, unsigned capacity)
{
	return put(text, capacity, "13.580.65.06");
}

NVML(nvmlSystemGetCudaDriverVersion_v2, int *version)
{
	if (!version)
		return INVALID_ARGUMENT;
	*version = GM_SIM_RUNTIME;
	return SUCCESS;
}

NVML(nvmlSystemGetCudaDriverVersion, int *version)
{
	return nvmlSystemGetCudaDriverVersion_v2(version);
}

NVML(nvmlSystemGetProcessName, unsigned process, char *text, unsigned capacity)
{
	if (started <= 0)
		return UNINITIALIZED;
	char path[64];
	snprintf(path, sizeof(path), "/proc/%u/exe", process);
	char name[512];
	ssize_t n = readlink(path, name, sizeof(name) - 1);
	if (n < 0)
		return NOT_FOUND;
	name[n] = 0;
	return put(text, capacity, name);
}
