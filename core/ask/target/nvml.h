/*
 * What NVIDIA's management library tells of a device: how much is in use, and by which processes.
 * It is opened when it is first needed (libnvidia-ml.so.1 comes with the driver) and never linked
 * against; where it is not there, nothing is reported. It is asked about live processes of this
 * machine only: what it says is of now.
 */
#ifndef GM_ASK_NVML_H
#define GM_ASK_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GM_NVML_PROCESSES_MAX = 256 };

struct gm_nvml_process {
	uint64_t pid, bytes; /* GM_NOT_KNOWN where the driver does not tell (WDDM, MIG) */
};

struct gm_nvml_device {
	uint64_t total, free;
	struct gm_nvml_process processes[GM_NVML_PROCESSES_MAX];
	size_t process_count;
};

/*
 * The device of that UUID (cudaDeviceProp.uuid); NULL: the only one that `pid` has memory of.
 * False: the library or the device is not there.
 */
bool gm_nvml_ask(const unsigned char *uuid, uint64_t pid, struct gm_nvml_device *ret_device);

#endif
