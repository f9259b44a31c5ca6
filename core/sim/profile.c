#include "sim/profile.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/nearest_word.h"
#include "sim/account.h"

enum { COLUMNS = 7 };

#define MIB(n) (UINT64_C(n) << 20)

/* One value for all profiles. */
#define SAME(v)                     \
	{                           \
		v, v, v, v, v, v, v \
	}

/* Measured on an H100 with PyTorch 2.11 and CUDA 13.0 (docs/real-gpus.md). */
static const uint64_t loads_of_hopper[GM_SIM_CODE_COUNT] = {
        [GM_SIM_CODE_TORCH] = MIB(92),
        [GM_SIM_CODE_BLAS] = MIB(66),
        [GM_SIM_CODE_DNN] = MIB(8),
        [GM_SIM_CODE_FFT] = MIB(8),
        [GM_SIM_CODE_SOLVER] = MIB(98),
        [GM_SIM_CODE_SPARSE] = 0,
};

/*
 * Totals as such devices report them; they depend on board, driver and firmware, and differ by some
 * hundred MiB at most. The context's share is what a PyTorch process takes before its first
 * allocation; it depends on the driver, so a run may set it (GPUMEM_SIM_CONTEXT). Devices with
 * NVLink (the SXM boards) access each other's memory with atomics, the L4 and T4 over PCIe without,
 * a GeForce not at all.
 */
const struct gm_sim_profile gm_sim_profiles[] = {
        {"h100-80gb", "NVIDIA H100 80GB HBM3", UINT64_C(85028896768), MIB(529), 0, GM_SIM_NVLINK,
                loads_of_hopper},
        {"h200-141gb", "NVIDIA H200", UINT64_C(150121545728), MIB(540), 1, GM_SIM_NVLINK,
                loads_of_hopper},
        {"a100-80gb", "NVIDIA A100-SXM4-80GB", UINT64_C(84987740160), MIB(425), 2, GM_SIM_NVLINK,
                NULL},
        {"a100-40gb", "NVIDIA A100-SXM4-40GB", UINT64_C(42505273344), MIB(423), 3, GM_SIM_NVLINK,
                NULL},
        {"l4-24gb", "NVIDIA L4", MIB(22478), MIB(238), 4, GM_SIM_PCIE, NULL},
        {"rtx4090-24gb", "NVIDIA GeForce RTX 4090", UINT64_C(25393692672), MIB(394), 5,
                GM_SIM_NO_PEERS, NULL},
        {"t4-16gb", "Tesla T4", UINT64_C(15828320256), MIB(105), 6, GM_SIM_PCIE, NULL},
        {NULL, NULL, 0, 0, 0, 0, NULL},
};

/* enum cudaDeviceAttr of CUDA 13.0's driver_types.h; reserved attributes have the values that
 * drivers return. */
static const struct attribute {
	int id;
	const char *name; /* cudaDevAttr… */
	int value[COLUMNS];
} attributes[] = {
        /* h100, h200, a100-80gb, a100-40gb, l4, rtx4090, t4 */
        {1, "MaxThreadsPerBlock", SAME(1024)},
        {2, "MaxBlockDimX", SAME(1024)},
        {3, "MaxBlockDimY", SAME(1024)},
        {4, "MaxBlockDimZ", SAME(64)},
        {5, "MaxGridDimX", SAME(2147483647)},
        {6, "MaxGridDimY", SAME(65535)},
        {7, "MaxGridDimZ", SAME(65535)},
        {8, "MaxSharedMemoryPerBlock", SAME(49152)},
        {9, "TotalConstantMemory", SAME(65536)},
        {10, "WarpSize", SAME(32)},
        {11, "MaxPitch", SAME(2147483647)},
        {12, "MaxRegistersPerBlock", SAME(65536)},
        {13, "ClockRate", {1980000, 1980000, 1410000, 1410000, 2040000, 2520000, 1590000}},
        {14, "TextureAlignment", SAME(512)},
        {15, "GpuOverlap", SAME(1)},
        {16, "MultiProcessorCount", {132, 132, 108, 108, 58, 128, 40}},
        {17, "KernelExecTimeout", SAME(0)},
        {18, "Integrated", SAME(0)},
        {19, "CanMapHostMemory", SAME(1)},
        {20, "ComputeMode", SAME(0)},
        {21, "MaxTexture1DWidth", SAME(131072)},
        {22, "MaxTexture2DWidth", SAME(131072)},
        {23, "MaxTexture2DHeight", SAME(65536)},
        {24, "MaxTexture3DWidth", SAME(16384)},
        {25, "MaxTexture3DHeight", SAME(16384)},
        {26, "MaxTexture3DDepth", SAME(16384)},
        {27, "MaxTexture2DLayeredWidth", SAME(32768)},
        {28, "MaxTexture2DLayeredHeight", SAME(32768)},
        {29, "MaxTexture2DLayeredLayers", SAME(2048)},
        {30, "SurfaceAlignment", SAME(512)},
        {31, "ConcurrentKernels", SAME(1)},
        {32, "EccEnabled", {1, 1, 1, 1, 1, 0, 1}},
        {33, "PciBusId", SAME(0)},
        {34, "PciDeviceId", SAME(0)},
        {35, "TccDriver", SAME(0)},
        {36, "MemoryClockRate", {2619000, 3201000, 1593000, 1215000, 6251000, 10501000, 5001000}},
        {37, "GlobalMemoryBusWidth", {5120, 6144, 5120, 5120, 192, 384, 256}},
        {38, "L2CacheSize", {52428800, 62914560, 41943040, 41943040, 50331648, 75497472, 4194304}},
        {39, "MaxThreadsPerMultiProcessor", {2048, 2048, 2048, 2048, 1536, 1536, 1024}},
        {40, "AsyncEngineCount", {3, 3, 3, 3, 2, 2, 3}},
        {41, "UnifiedAddressing", SAME(1)},
        {42, "MaxTexture1DLayeredWidth", SAME(32768)},
        {43, "MaxTexture1DLayeredLayers", SAME(2048)},
        {45, "MaxTexture2DGatherWidth", SAME(32768)},
        {46, "MaxTexture2DGatherHeight", SAME(32768)},
        {47, "MaxTexture3DWidthAlt", SAME(8192)},
        {48, "MaxTexture3DHeightAlt", SAME(8192)},
        {49, "MaxTexture3DDepthAlt", SAME(32768)},
        {50, "PciDomainId", SAME(0)},
        {51, "TexturePitchAlignment", SAME(32)},
        {52, "MaxTextureCubemapWidth", SAME(32768)},
        {53, "MaxTextureCubemapLayeredWidth", SAME(32768)},
        {54, "MaxTextureCubemapLayeredLayers", SAME(2046)},
        {55, "MaxSurface1DWidth", SAME(32768)},
        {56, "MaxSurface2DWidth", SAME(131072)},
        {57, "MaxSurface2DHeight", SAME(65536)},
        {58, "MaxSurface3DWidth", SAME(16384)},
        {59, "MaxSurface3DHeight", SAME(16384)},
        {60, "MaxSurface3DDepth", SAME(16384)},
        {61, "MaxSurface1DLayeredWidth", SAME(32768)},
        {62, "MaxSurface1DLayeredLayers", SAME(2048)},
        {63, "MaxSurface2DLayeredWidth", SAME(32768)},
        {64, "MaxSurface2DLayeredHeight", SAME(32768)},
        {65, "MaxSurface2DLayeredLayers", SAME(2048)},
        {66, "MaxSurfaceCubemapWidth", SAME(32768)},
        {67, "MaxSurfaceCubemapLayeredWidth", SAME(32768)},
        {68, "MaxSurfaceCubemapLayeredLayers", SAME(2046)},
        {69, "MaxTexture1DLinearWidth", SAME(268435456)},
        {70, "MaxTexture2DLinearWidth", SAME(131072)},
        {71, "MaxTexture2DLinearHeight", SAME(65000)},
        {72, "MaxTexture2DLinearPitch", SAME(2097120)},
        {73, "MaxTexture2DMipmappedWidth", SAME(32768)},
        {74, "MaxTexture2DMipmappedHeight", SAME(32768)},
        {75, "ComputeCapabilityMajor", {9, 9, 8, 8, 8, 8, 7}},
        {76, "ComputeCapabilityMinor", {0, 0, 0, 0, 9, 9, 5}},
        {77, "MaxTexture1DMipmappedWidth", SAME(32768)},
        {78, "StreamPrioritiesSupported", SAME(1)},
        {79, "GlobalL1CacheSupported", SAME(1)},
        {80, "LocalL1CacheSupported", SAME(1)},
        {81, "MaxSharedMemoryPerMultiprocessor",
                {233472, 233472, 167936, 167936, 102400, 102400, 65536}},
        {82, "MaxRegistersPerMultiprocessor", SAME(65536)},
        {83, "ManagedMemory", SAME(1)},
        {84, "IsMultiGpuBoard", SAME(0)},
        {85, "MultiGpuBoardGroupID", SAME(0)},
        {86, "HostNativeAtomicSupported", SAME(0)},
        {87, "SingleToDoublePrecisionPerfRatio", {2, 2, 2, 2, 64, 64, 32}},
        {88, "PageableMemoryAccess", SAME(0)},
        {89, "ConcurrentManagedAccess", SAME(1)},
        {90, "ComputePreemptionSupported", SAME(1)},
        {91, "CanUseHostPointerForRegisteredMem", SAME(1)},
        {92, "Reserved92", SAME(1)},
        {93, "Reserved93", SAME(1)},
        {94, "Reserved94", SAME(1)},
        {95, "CooperativeLaunch", SAME(1)},
        {96, "Reserved96", SAME(1)},
        {97, "MaxSharedMemoryPerBlockOptin",
                {232448, 232448, 166912, 166912, 101376, 101376, 65536}},
        {98, "CanFlushRemoteWrites", SAME(0)},
        {99, "HostRegisterSupported", SAME(1)},
        {100, "PageableMemoryAccessUsesHostPageTables", SAME(0)},
        {101, "DirectManagedMemAccessFromHost", SAME(0)},
        {106, "MaxBlocksPerMultiprocessor", {32, 32, 32, 32, 24, 24, 16}},
        {108, "MaxPersistingL2CacheSize",
                {32768000, 39321600, 31457280, 31457280, 34603008, 51904512, 0}},
        {109, "MaxAccessPolicyWindowSize",
                {134213632, 134213632, 134213632, 134213632, 134213632, 134213632, 0}},
        {111, "ReservedSharedMemoryPerBlock", {1024, 1024, 1024, 1024, 1024, 1024, 0}},
        {112, "SparseCudaArraySupported", {1, 1, 1, 1, 1, 1, 0}},
        {113, "HostRegisterReadOnlySupported", SAME(0)},
        {114, "TimelineSemaphoreInteropSupported", SAME(1)},
        {115, "MemoryPoolsSupported", SAME(1)},
        {116, "GPUDirectRDMASupported", SAME(0)},
        {117, "GPUDirectRDMAFlushWritesOptions", SAME(0)},
        {118, "GPUDirectRDMAWritesOrdering", SAME(0)},
        {119, "MemoryPoolSupportedHandleTypes", SAME(0)},
        {120, "ClusterLaunch", {1, 1, 0, 0, 0, 0, 0}},
        {121, "DeferredMappingCudaArraySupported", SAME(1)},
        {122, "Reserved122", SAME(1)},
        {123, "Reserved123", {1, 1, 0, 0, 0, 0, 0}},
        {124, "Reserved124", SAME(0)},
        {125, "IpcEventSupport", SAME(0)},
        {126, "MemSyncDomainCount", {4, 4, 1, 1, 1, 1, 1}},
        {127, "Reserved127", SAME(0)},
        {128, "Reserved128", SAME(0)},
        {129, "Reserved129", SAME(0)},
        {130, "NumaConfig", SAME(0)},
        {131, "NumaId", SAME(-1)},
        {132, "Reserved132", SAME(0)},
        {133, "MpsEnabled", SAME(0)},
        {134, "HostNumaId", SAME(-1)},
        {135, "D3D12CigSupported", SAME(0)},
        {138, "VulkanCigSupported", SAME(0)},
        {139, "GpuPciDeviceId",
                {0x233010de, 0x233510de, 0x20b210de, 0x20b010de, 0x27b810de, 0x268410de,
                        0x1eb810de}},
        {140, "GpuPciSubsystemId",
                {0x16c110de, 0x18be10de, 0x146310de, 0x134f10de, 0x16ca10de, 0x167c10de,
                        0x12a210de}},
        {141, "Reserved141", SAME(0)},
        {142, "HostNumaMemoryPoolsSupported", SAME(0)},
        {143, "HostNumaMultinodeIpcSupported", SAME(0)},
        {144, "HostMemoryPoolsSupported", SAME(0)},
        {145, "Reserved145", SAME(0)},
        {147, "OnlyPartialHostNativeAtomicSupported", SAME(0)},
};

static const struct attribute *find(int id)
{
	size_t low = 0, high = sizeof(attributes) / sizeof(attributes[0]);
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (attributes[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < sizeof(attributes) / sizeof(attributes[0]) && attributes[low].id == id)
		return &attributes[low];
	return NULL;
}

int gm_sim_profile_attribute(const struct gm_sim_profile *profile, int attribute, int *ret_known)
{
	const struct attribute *found = find(attribute);
	*ret_known = found != NULL;
	return found ? found->value[profile->column] : 0;
}

const char *gm_sim_profile_attribute_name(size_t n, int *ret)
{
	if (n >= sizeof(attributes) / sizeof(attributes[0]))
		return NULL;
	*ret = attributes[n].id;
	return attributes[n].name;
}

/* Reads "24GiB", "1.5g", "500MB" up to `end`; false if it is not a device size. */
static bool parse_size(const char *spec, const char *end, uint64_t *ret)
{
	char *unit;
	errno = 0;
	double value = strtod(spec, &unit);
	if (unit == spec || errno || !(value > 0) || spec[0] == '0')
		return false;
	size_t length = (size_t)(end - unit);
	static const struct {
		const char *unit;
		unsigned shift;
	} units[] = {
	        {"GiB", 30},
	        {"GB", 30},
	        {"G", 30},
	        {"MiB", 20},
	        {"MB", 20},
	        {"M", 20},
	        {"TiB", 40},
	        {"TB", 40},
	        {"T", 40},
	};
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strlen(units[i].unit) != length ||
		        strncasecmp(unit, units[i].unit, length) != 0)
			continue;
		double bytes = value * (double)(UINT64_C(1) << units[i].shift);
		/* Less than 64 MiB is too small for cuBLAS's workspace; no GPU has more than 4 TiB.
		 * */
		if (bytes < (double)(UINT64_C(64) << 20) || bytes > (double)(UINT64_C(4) << 40))
			return false;
		*ret = (uint64_t)bytes & ~UINT64_C(0xfffff);
		return true;
	}
	return false;
}

static struct gm_error *unknown(const char *spec)
{
	bool size = spec[0] && strchr("0123456789.-", spec[0]);
	char names[256] = "", meant[80] = "";
	size_t best = SIZE_MAX;
	for (const struct gm_sim_profile *p = gm_sim_profiles; p->name; p++) {
		if (strlen(names) + strlen(p->name) + 3 > sizeof(names))
			break;
		if (p != gm_sim_profiles)
			strcat(names, ", ");
		strcat(names, p->name);
		size_t distance = gm_word_distance(spec, p->name);
		if (distance < best) {
			best = distance;
			snprintf(meant, sizeof(meant), "did you mean %s? ", p->name);
		}
	}
	return gm_error_create(GM_USAGE,
	        "simulated device '%.64s': %s: %suse one of %s, or a size such as 24GiB, with xN "
	        "(N up to %d) for several",
	        spec, size ? "no size of a device (64MiB to 4TiB)" : "no such profile", meant,
	        names, GM_SIM_DEVICES_MAX);
}

struct gm_error *gm_sim_profile_parse(const char *spec, struct gm_sim_choice *ret)
{
	struct gm_sim_choice choice = {.count = 1, .profile = gm_sim_profiles[0]};
	if (!spec || !*spec)
		spec = gm_sim_profiles[0].name;
	const char *end = spec + strlen(spec);

	/* "xN": the last x, followed only by digits ("rtx4090-24gb" has an x too). */
	const char *times = strrchr(spec, 'x');
	if (times && times > spec && times[1] &&
	        strspn(times + 1, "0123456789") == strlen(times + 1)) {
		unsigned long count = strtoul(times + 1, NULL, 10);
		if (count < 1 || count > GM_SIM_DEVICES_MAX)
			return unknown(spec);
		choice.count = (unsigned)count;
		end = times;
	}
	size_t length = (size_t)(end - spec);
	if (length == 0 || length >= sizeof(choice.spec))
		return unknown(spec);
	memcpy(choice.spec, spec, length);

	uint64_t bytes;
	for (const struct gm_sim_profile *p = gm_sim_profiles; p->name; p++) {
		if (strcasecmp(p->name, choice.spec) == 0) {
			choice.profile = *p;
			*ret = choice;
			return NULL;
		}
	}
	if (!parse_size(choice.spec, choice.spec + length, &bytes))
		return unknown(spec);
	choice.profile.memory = bytes;
	choice.profile.loads = NULL; /* a device of no known kind */
	/* A small device keeps most of its memory: the context never takes more than an eighth. */
	if (choice.profile.context > bytes / 8)
		choice.profile.context = bytes / 8;
	*ret = choice;
	return NULL;
}
