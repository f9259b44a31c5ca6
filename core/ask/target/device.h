/*
 * What is known of a device beside PyTorch's allocator: how much it has, how much is free, and who
 * else holds memory of it. Of a simulated device the run's own account tells, in a core too; of a
 * real one NVIDIA's management library, while the process lives on this machine.
 */
#ifndef GM_ASK_DEVICE_H
#define GM_ASK_DEVICE_H

#include "ask/context.h"
#include "torch/torch.h"

enum { GM_DEVICE_OTHERS_MAX = 15 };

struct gm_device_process {
	uint64_t pid, bytes; /* pid 0: all further ones together */
	char name[24];       /* "python"; "": not known */
};

struct gm_device_facts {
	bool simulated;
	uint64_t total, free; /* GM_NOT_KNOWN */
	uint64_t process;     /* all that the process has on the device; GM_NOT_KNOWN */
	/* Other processes, biggest first, where `process` is known. */
	struct gm_device_process others[GM_DEVICE_OTHERS_MAX + 1];
	size_t other_count;
	uint64_t not_computed; /* kernels; of a simulated device */
};

/* allocator: what the allocator told of that device; NULL: nothing. False: nothing is known. */
bool gm_device_facts(struct gm_context *context, int device,
        const struct gm_allocator_device *allocator, struct gm_device_facts *ret_facts);

/* Does the target run on a simulated device? Its memory is then the host's. */
bool gm_device_is_simulated(struct gm_context *context);

#endif
