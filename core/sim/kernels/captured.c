/*
 * A stored launch: a kernel in a CUDA graph, whose arguments do not exist any more when the graph
 * is replayed.
 *
 * The size of an argument is not known here: its type is only in the kernel's name. But arguments
 * are objects that do not overlap, so each ends at the next one's address at the latest, and all
 * together are at most as large as a launch may have. So much is copied of each, as far as memory
 * can be read; a plan reads only what it knows to exist.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sim/readable.h"
#include "sim/kernels/captured.h"

enum { ARGUMENTS = 32, ARGUMENT_MOST = 4096 };
/* multi_tensor_apply_kernel's list of tensors takes what a launch may carry since CUDA 12.1, 32,764
 * bytes (scaler.c). */
enum { LIST_MOST = 32764 };

struct gm_sim_kept {
	_Atomic unsigned references;
	struct gm_sim_kernel_launch launch;
	void *arguments[ARGUMENTS];
	unsigned char bytes[];
};

/* The address for an argument that does not exist: a misinterpreted name then reads zeros, not
 * unmapped memory. */
static unsigned char nothing[ARGUMENT_MOST];

/* How many arguments the kernel has; 0: not known. */
static unsigned count_of(const char *mangled, size_t *most)
{
	if (gm_sim_name_is_product(mangled))
		return 1;
	char *readable = gm_sim_name_readable(mangled);
	if (!readable)
		return 0;
	struct gm_sim_text name = {readable, strlen(readable)}, types[ARGUMENTS];
	unsigned count = gm_sim_name_parameters(name, types, ARGUMENTS);
	if (strstr(readable, "multi_tensor_apply_kernel"))
		*most = LIST_MOST;
	free(readable);
	return count;
}

struct gm_sim_kept *gm_sim_launch_keep(
        const char *mangled, const struct gm_sim_kernel_launch *launch)
{
	size_t most = ARGUMENT_MOST;
	unsigned count = launch->arguments ? count_of(mangled, &most) : 0;
	if (!count || count > ARGUMENTS)
		return NULL;
	size_t sizes[ARGUMENTS], sum = 0;
	for (unsigned i = 0; i < count; i++) {
		uintptr_t at = (uintptr_t)launch->arguments[i];
		size_t size = most;
		if (!at)
			return NULL;
		for (unsigned k = 0; k < count; k++) {
			uintptr_t next = (uintptr_t)launch->arguments[k];
			if (next > at && next - at < size)
				size = next - at;
		}
		sizes[i] = gm_sim_readable((const void *)at, size);
		sum += (sizes[i] + 15) & ~(size_t)15;
	}
	/* Zeros after the last one: a plan may read more of it than there was. */
	struct gm_sim_kept *kept = calloc(1, sizeof(*kept) + sum + most);
	if (!kept)
		return NULL;
	kept->references = 1;
	kept->launch = *launch;
	kept->launch.arguments = kept->arguments;
	unsigned char *to = kept->bytes;
	for (unsigned i = 0; i < ARGUMENTS; i++) {
		kept->arguments[i] = i < count ? to : nothing;
		if (i >= count)
			continue;
		memcpy(to, launch->arguments[i], sizes[i]);
		to += (sizes[i] + 15) & ~(size_t)15;
	}
	return kept;
}

const struct gm_sim_kernel_launch *gm_sim_kept_launch(const struct gm_sim_kept *kept)
{
	return &kept->launch;
}

struct gm_sim_kept *gm_sim_kept_again(struct gm_sim_kept *kept)
{
	if (kept)
		atomic_fetch_add(&kept->references, 1);
	return kept;
}

void gm_sim_kept_free(struct gm_sim_kept *kept)
{
	if (kept && atomic_fetch_sub(&kept->references, 1) == 1)
		free(kept);
}
