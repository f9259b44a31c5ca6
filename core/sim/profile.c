#include "sim/profile.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "sim/account.h"

enum { COLUMNS = 2 };

/*
 * The total of the H100 (SXM, HBM3) is one of several that such devices report (81,079 to 81,116 MiB, by
 * board and driver), the T4's is the usual one. The context's share is what a PyTorch process takes before
 * its first allocation; it depends on the driver, so a run may set it (GPUMEM_SIM_CONTEXT).
 */
const struct gm_sim_profile gm_sim_profiles[] = {
        {"h100-80gb", "NVIDIA H100 80GB HBM3", UINT64_C(85028896768), UINT64_C(529) << 20, 0},
        {"t4-16gb", "Tesla T4", UINT64_C(15828320256), UINT64_C(105) << 20, 1},
        {NULL, NULL, 0, 0, 0},
};

/* enum cudaDeviceAttr of CUDA 13.0's driver_types.h; a reserved one has the value that drivers give. */
static const struct attribute {
	int id;
	const char *name; /* cudaDevAttr… */
	int value[COLUMNS];
} attributes[] = {
        /* h100, t4 */
        {1, "MaxThreadsPerBlock", {1024, 1024}},
        {2, "MaxBlockDimX", {1024, 1024}},
        {3, "MaxBlockDimY", {1024, 1024}},
        {4, "MaxBlockDimZ", {64, 64}},
        {5, "MaxGridDimX", {2147483647, 2147483647}},
        {6, "MaxGridDimY", {65535, 65535}},
        {7, "MaxGridDimZ", {65535, 65535}},
        {8, "MaxSharedMemoryPerBlock", {49152, 49152}},
        {9, "TotalConstantMemory", {65536, 65536}},
        {10, "WarpSize", {32, 32}},
        {11, "MaxPitch", {2147483647, 2147483647}},
        {12, "MaxRegistersPerBlock", {65536, 65536}},
        {13, "ClockRate", {1980000, 1590000}},
        {14, "TextureAlignment", {512, 512}},
        {15, "GpuOverlap", {1, 1}},
        {16, "MultiProcessorCount", {132, 40}},
        {17, "KernelExecTimeout", {0, 0}},
        {18, "Integrated", {0, 0}},
        {19, "CanMapHostMemory", {1, 1}},
        {20, "ComputeMode", {0, 0}},
        {21, "MaxTexture1DWidth", {131072, 131072}},
        {22, "MaxTexture2DWidth", {131072, 131072}},
        {23, "MaxTexture2DHeight", {65536, 65536}},
        {24, "MaxTexture3DWidth", {16384, 16384}},
        {25, "MaxTexture3DHeight", {16384, 16384}},
        {26, "MaxTexture3DDepth", {16384, 16384}},
        {27, "MaxTexture2DLayeredWidth", {32768, 32768}},
        {28, "MaxTexture2DLayeredHeight", {32768, 32768}},
        {29, "MaxTexture2DLayeredLayers", {2048, 2048}},
        {30, "SurfaceAlignment", {512, 512}},
        {31, "ConcurrentKernels", {1, 1}},
        {32, "EccEnabled", {1, 1}},
        {33, "PciBusId", {0, 0}},
        {34, "PciDeviceId", {0, 0}},
        {35, "TccDriver", {0, 0}},
        {36, "MemoryClockRate", {2619000, 5001000}},
        {37, "GlobalMemoryBusWidth", {5120, 256}},
        {38, "L2CacheSize", {52428800, 4194304}},
        {39, "MaxThreadsPerMultiProcessor", {2048, 1024}},
        {40, "AsyncEngineCount", {3, 3}},
        {41, "UnifiedAddressing", {1, 1}},
        {42, "MaxTexture1DLayeredWidth", {32768, 32768}},
        {43, "MaxTexture1DLayeredLayers", {2048, 2048}},
        {45, "MaxTexture2DGatherWidth", {32768, 32768}},
        {46, "MaxTexture2DGatherHeight", {32768, 32768}},
        {47, "MaxTexture3DWidthAlt", {8192, 8192}},
        {48, "MaxTexture3DHeightAlt", {8192, 8192}},
        {49, "MaxTexture3DDepthAlt", {32768, 32768}},
        {50, "PciDomainId", {0, 0}},
        {51, "TexturePitchAlignment", {32, 32}},
        {52, "MaxTextureCubemapWidth", {32768, 32768}},
        {53, "MaxTextureCubemapLayeredWidth", {32768, 32768}},
        {54, "MaxTextureCubemapLayeredLayers", {2046, 2046}},
        {55, "MaxSurface1DWidth", {32768, 32768}},
        {56, "MaxSurface2DWidth", {131072, 131072}},
        {57, "MaxSurface2DHeight", {65536, 65536}},
        {58, "MaxSurface3DWidth", {16384, 16384}},
        {59, "MaxSurface3DHeight", {16384, 16384}},
        {60, "MaxSurface3DDepth", {16384, 16384}},
        {61, "MaxSurface1DLayeredWidth", {32768, 32768}},
        {62, "MaxSurface1DLayeredLayers", {2048, 2048}},
        {63, "MaxSurface2DLayeredWidth", {32768, 32768}},
        {64, "MaxSurface2DLayeredHeight", {32768, 32768}},
        {65, "MaxSurface2DLayeredLayers", {2048, 2048}},
        {66, "MaxSurfaceCubemapWidth", {32768, 32768}},
        {67, "MaxSurfaceCubemapLayeredWidth", {32768, 32768}},
        {68, "MaxSurfaceCubemapLayeredLayers", {2046, 2046}},
        {69, "MaxTexture1DLinearWidth", {268435456, 268435456}},
        {70, "MaxTexture2DLinearWidth", {131072, 131072}},
        {71, "MaxTexture2DLinearHeight", {65000, 65000}},
        {72, "MaxTexture2DLinearPitch", {2097120, 2097120}},
        {73, "MaxTexture2DMipmappedWidth", {32768, 32768}},
        {74, "MaxTexture2DMipmappedHeight", {32768, 32768}},
        {75, "ComputeCapabilityMajor", {9, 7}},
        {76, "ComputeCapabilityMinor", {0, 5}},
        {77, "MaxTexture1DMipmappedWidth", {32768, 32768}},
        {78, "StreamPrioritiesSupported", {1, 1}},
        {79, "GlobalL1CacheSupported", {1, 1}},
        {80, "LocalL1CacheSupported", {1, 1}},
        {81, "MaxSharedMemoryPerMultiprocessor", {233472, 65536}},
        {82, "MaxRegistersPerMultiprocessor", {65536, 65536}},
        {83, "ManagedMemory", {1, 1}},
        {84, "IsMultiGpuBoard", {0, 0}},
        {85, "MultiGpuBoardGroupID", {0, 0}},
        {86, "HostNativeAtomicSupported", {0, 0}},
        {87, "SingleToDoublePrecisionPerfRatio", {2, 32}},
        {88, "PageableMemoryAccess", {0, 0}},
        {89, "ConcurrentManagedAccess", {1, 1}},
        {90, "ComputePreemptionSupported", {1, 1}},
        {91, "CanUseHostPointerForRegisteredMem", {1, 1}},
        {92, "Reserved92", {1, 1}},
        {93, "Reserved93", {1, 1}},
        {94, "Reserved94", {1, 1}},
        {95, "CooperativeLaunch", {1, 1}},
        {96, "Reserved96", {1, 1}},
        {97, "MaxSharedMemoryPerBlockOptin", {232448, 65536}},
        {98, "CanFlushRemoteWrites", {0, 0}},
        {99, "HostRegisterSupported", {1, 1}},
        {100, "PageableMemoryAccessUsesHostPageTables", {0, 0}},
        {101, "DirectManagedMemAccessFromHost", {0, 0}},
        {106, "MaxBlocksPerMultiprocessor", {32, 16}},
        {108, "MaxPersistingL2CacheSize", {32768000, 0}},
        {109, "MaxAccessPolicyWindowSize", {134213632, 0}},
        {111, "ReservedSharedMemoryPerBlock", {1024, 0}},
        {112, "SparseCudaArraySupported", {1, 0}},
        {113, "HostRegisterReadOnlySupported", {0, 0}},
        {114, "TimelineSemaphoreInteropSupported", {1, 1}},
        {115, "MemoryPoolsSupported", {1, 1}},
        {116, "GPUDirectRDMASupported", {0, 0}},
        {117, "GPUDirectRDMAFlushWritesOptions", {0, 0}},
        {118, "GPUDirectRDMAWritesOrdering", {0, 0}},
        {119, "MemoryPoolSupportedHandleTypes", {0, 0}},
        {120, "ClusterLaunch", {1, 0}},
        {121, "DeferredMappingCudaArraySupported", {1, 1}},
        {122, "Reserved122", {1, 1}},
        {123, "Reserved123", {1, 0}},
        {124, "Reserved124", {0, 0}},
        {125, "IpcEventSupport", {0, 0}},
        {126, "MemSyncDomainCount", {4, 1}},
        {127, "Reserved127", {0, 0}},
        {128, "Reserved128", {0, 0}},
        {129, "Reserved129", {0, 0}},
        {130, "NumaConfig", {0, 0}},
        {131, "NumaId", {-1, -1}},
        {132, "Reserved132", {0, 0}},
        {133, "MpsEnabled", {0, 0}},
        {134, "HostNumaId", {-1, -1}},
        {135, "D3D12CigSupported", {0, 0}},
        {138, "VulkanCigSupported", {0, 0}},
        {139, "GpuPciDeviceId", {0x233010de, 0x1eb810de}},
        {140, "GpuPciSubsystemId", {0x16c110de, 0x12a210de}},
        {141, "Reserved141", {0, 0}},
        {142, "HostNumaMemoryPoolsSupported", {0, 0}},
        {143, "HostNumaMultinodeIpcSupported", {0, 0}},
        {144, "HostMemoryPoolsSupported", {0, 0}},
        {145, "Reserved145", {0, 0}},
        {147, "OnlyPartialHostNativeAtomicSupported", {0, 0}},
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

/* Reads "24GiB", "1.5g", "500MB" up to `end`; false where it is no size of a device. */
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
		/* Less than 64 MiB does not hold cuBLAS's workspace; more than 4 TiB is no GPU. */
		if (bytes < (double)(UINT64_C(64) << 20) || bytes > (double)(UINT64_C(4) << 40))
			return false;
		*ret = (uint64_t)bytes & ~UINT64_C(0xfffff);
		return true;
	}
	return false;
}

static struct gm_error *unknown(const char *spec)
{
	char names[256] = "";
	for (const struct gm_sim_profile *p = gm_sim_profiles; p->name; p++) {
		if (strlen(names) + strlen(p->name) + 3 > sizeof(names))
			break;
		if (p != gm_sim_profiles)
			strcat(names, ", ");
		strcat(names, p->name);
	}
	return gm_error_create(GM_USAGE,
	        "simulated device '%.64s': no such profile: use one of %s, or a size such as "
	        "24GiB, "
	        "with xN (N up to %d) for several",
	        spec, names, GM_SIM_DEVICES_MAX);
}

struct gm_error *gm_sim_profile_parse(const char *spec, struct gm_sim_choice *ret)
{
	struct gm_sim_choice choice = {.count = 1, .profile = gm_sim_profiles[0]};
	if (!spec || !*spec)
		spec = gm_sim_profiles[0].name;
	const char *end = spec + strlen(spec);

	/* "xN": the last x, followed by digits alone ("rtx4090-24gb" has one too). */
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
	/* A small device keeps most of its memory: the context never takes more than an eighth. */
	if (choice.profile.context > bytes / 8)
		choice.profile.context = bytes / 8;
	*ret = choice;
	return NULL;
}
