/*
 * The counters of the simulated CUDA device for one run, readable from outside.
 *
 * The preloaded library (libgpumem-sim.so) exports one object, `gpumem_sim_account`, of the type
 * below. A debugger finds it by its symbol in the process image or in a core and so knows that the
 * program runs on a simulated device, how large that is, and how much of what the program did was
 * never computed. The same figures are printed at exit.
 *
 * Layout rules: fields are only ever added at the end and `version` then goes up; `bytes` is the
 * size of the object as the library wrote it, so that an older reader works with a newer library
 * and vice versa. All words are little endian 64-bit unless said otherwise, written by the
 * program's threads with relaxed atomics: one word is never torn, but two words may be of two
 * moments.
 */
#ifndef GM_SIM_ACCOUNT_H
#define GM_SIM_ACCOUNT_H

#include <pthread.h>
#include <stdint.h>

#define GM_SIM_ACCOUNT_MAGIC UINT64_C(0x746361206d697367) /* "gsim act" */
#define GM_SIM_ACCOUNT_VERSION 2
#define GM_SIM_DEVICES_MAX 16
#define GM_SIM_ACCOUNT_SYMBOL "gpumem_sim_account"
/* bool (const void *address, uint64_t size): whether all bytes of a device's memory there were
 * written, by copies, or by kernels that were computed from such. */
#define GM_SIM_COMPUTED_SYMBOL "gpumem_sim_computed"

struct gm_sim_device_account {
	char profile[32]; /* NUL-terminated: "h100-80gb" or the size asked for */
	char name[64];    /* as CUDA tells it: "NVIDIA H100 80GB HBM3" */
	uint64_t total;   /* bytes of device memory */
	uint64_t context; /* bytes of it that the context keeps for itself */
	uint64_t
	        address; /* where the device's memory is mapped; 0 until the device is first used */
	uint64_t span;   /* bytes of address space there (more than `total`: sparse) */
	uint64_t used;   /* bytes handed out by cudaMalloc now, in whole 2 MiB pages */
	uint64_t peak_used;
	uint64_t out_of_memory; /* cudaMalloc refused for want of memory (PyTorch frees and tries
	                           again) */
	/* As PyTorch's caching allocator counts them, from its own report of every block. */
	uint64_t torch_allocated;
	uint64_t torch_peak_allocated;
	uint64_t torch_reserved;
	uint64_t torch_peak_reserved;
	uint64_t torch_out_of_memory; /* out-of-memory errors that PyTorch raised */
};

struct gm_sim_account {
	uint64_t magic;
	uint32_t version;
	uint32_t bytes;
	uint32_t devices;      /* how many of `device` are in use */
	uint32_t process;      /* pid that the figures belong to; 0 until CUDA is first used */
	uint64_t launches;     /* kernels launched */
	uint64_t not_computed; /* of them, kernels that computed nothing */
	uint64_t library_not_computed; /* cuBLAS, cuBLASLt and cuDNN calls that computed nothing */
	uint64_t not_simulated;        /* calls refused because they are not simulated */
	uint64_t read_back; /* bytes copied to the host of which nothing was ever computed */
	struct gm_sim_device_account device[GM_SIM_DEVICES_MAX];
	/* since version 2 */
	uint64_t machine; /* address of the page that the run's processes share (sim/machine.h); 0:
	                     none */
	uint64_t outside[GM_SIM_DEVICES_MAX];  /* bytes that libraries keep for themselves (NCCL) */
	uint32_t physical[GM_SIM_DEVICES_MAX]; /* the device's number on that page */
};

/* The page that the processes of one run share (machine.h), at gm_sim_account.machine of each. */
#define GM_SIM_MACHINE_MAGIC UINT64_C(0x6863616d6d697367) /* "gsimmach" */

enum { GM_SIM_MACHINE_PROCESSES = 512 };

struct gm_sim_machine {
	uint64_t magic;
	pthread_mutex_t lock; /* between processes; robust */
	struct gm_sim_machine_process {
		uint32_t process; /* 0: free */
		uint32_t program; /* changes with exec(): a digest of where the program, its stack,
		                     arguments and environment lie (/proc/PID/stat); 0: not known */
		uint64_t start;   /* in clock ticks since the machine's start, field 22 of
		                     /proc/PID/stat */
		uint64_t bytes[GM_SIM_DEVICES_MAX];
	} processes[GM_SIM_MACHINE_PROCESSES];
	uint32_t said; /* 1: that a PyTorch has no CUDA was told; atomic */
};

#endif
