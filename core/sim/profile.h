/*
 * The simulated devices: which there are, and every figure that CUDA tells about one.
 *
 * A profile is a GPU model's name, memory and attributes. The attributes are a table (profile.c)
 * with CUDA's own numbering (enum cudaDeviceAttr of driver_types.h, CUDA 13.0), one column a
 * profile; the device properties are filled from the same table, so the two cannot disagree.
 *
 * This part knows no CUDA headers and no process: the shell command uses it as well as the
 * preloaded library.
 */
#ifndef GM_SIM_PROFILE_H
#define GM_SIM_PROFILE_H

#include <stddef.h>
#include <stdint.h>

struct gm_error;

/* How devices of a kind reach each other's memory. */
enum gm_sim_peers { GM_SIM_NO_PEERS, GM_SIM_PCIE, GM_SIM_NVLINK };

/* What a process loads onto a device when it first uses it: code and the libraries' own memory. */
enum gm_sim_code {
	GM_SIM_CODE_TORCH, /* PyTorch's kernels */
	GM_SIM_CODE_BLAS,
	GM_SIM_CODE_DNN,
	GM_SIM_CODE_FFT,
	GM_SIM_CODE_SOLVER,
	GM_SIM_CODE_SPARSE,
	GM_SIM_CODE_COUNT,
};

struct gm_sim_profile {
	const char *name;        /* "h100-80gb" */
	const char *device_name; /* what cudaGetDeviceProperties says */
	uint64_t memory;         /* bytes: totalGlobalMem */
	uint64_t context;        /* bytes that a context takes of it */
	unsigned column;         /* of the attributes' table */
	enum gm_sim_peers peers;
	const uint64_t *loads; /* bytes, by enum gm_sim_code; NULL: not known */
};

/* What a run asked for: `count` devices of one kind. */
struct gm_sim_choice {
	char spec[32]; /* the profile's name or the size, as asked, without the count */
	struct gm_sim_profile profile;
	unsigned count; /* at least 1 */
};

/* The profiles, ended by one whose name is NULL. The first is the default. */
extern const struct gm_sim_profile gm_sim_profiles[];

/*
 * Reads `spec`: a profile's name or a size such as "24GiB", "16gb" or "500MiB" (GiB and GB both
 * count 1024; the device is then the default profile's with that memory), each with "xN" after it
 * for N devices. An empty or NULL spec is the default profile. The error names the profiles.
 */
struct gm_error *gm_sim_profile_parse(const char *spec, struct gm_sim_choice *ret);

/* The value of CUDA's device attribute `attribute`; 0 where the table has none (*ret_known says
 * so). */
int gm_sim_profile_attribute(const struct gm_sim_profile *profile, int attribute, int *ret_known);

/* The name of the nth attribute of the table as driver_types.h has it, its number in *ret; NULL at
 * the end. */
const char *gm_sim_profile_attribute_name(size_t n, int *ret);

#endif
