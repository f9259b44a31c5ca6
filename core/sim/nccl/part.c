/*
 * The number of ranks in a part of a communicator, if all ranks but this one are only sizes.
 *
 * ncclCommSplit gets a color and a key, not which other ranks have that color: NCCL asks the
 * others. There are none here, and only the caller knows. PyTorch passes a reference to the
 * ncclConfig_t in its ProcessGroupNCCL::Options, and the part's ranks (std::vector<uint64_t>
 * global_ranks_in_group) are a member of the same object: before it since 2.9
 * (torch/csrc/distributed/c10d/Backend.hpp, Options), after it in earlier versions
 * (ProcessGroupNCCL.hpp). So the words around it are searched for a vector that can only be this
 * one: ranks of this world in ascending order, with this rank at this place.
 *
 * c10d/nccl2 (the default of 2.15) passes a copy of that structure, on the stack of
 * ProcessGroupNCCL::split(store, ranks, options), and the smallest of `ranks` as the color. `ranks`
 * is a std::vector<int> of its callers, with the parent's numbers. So the words above are searched
 * for a vector of int that begins with the color, is ascending, and has this rank at this place.
 */
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sim/nccl/nccl.h"

/* Words that are searched on either side, in ncclConfig_t and its neighbours: 96 bytes of
 * configuration, three strings. */
enum { AROUND = 40 };

/* Words above that are searched for nccl2: the frames of split() and of the binding that holds its
 * arguments. */
enum { ABOVE = 1024 };

/* The caller's memory may be anything, since NCCL's contract requires only the structure: reading
 * must not fault. */
static bool take(void *to, const void *from, size_t size)
{
	struct iovec here = {.iov_base = to, .iov_len = size};
	struct iovec there = {.iov_base = (void *)(uintptr_t)from, .iov_len = size};
	return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size;
}

/* Can `count` ranks at `ranks` be the part in which this rank has the place `key`? */
static bool is_part(const uint64_t *ranks, uint64_t count, int world, int rank, int key)
{
	uint64_t place, before = 0;
	if (!take(&place, ranks + key, sizeof(place)) || place != (uint64_t)rank)
		return false;
	uint64_t buffer[256];
	for (uint64_t i = 0; i < count; i++) {
		uint64_t left = count - i, within = i % 256;
		if (!within &&
		        !take(buffer, ranks + i, (left < 256 ? left : 256) * sizeof(*buffer)))
			return false;
		uint64_t each = buffer[within];
		if (each >= (uint64_t)world || (i && each <= before))
			return false;
		before = each;
	}
	return true;
}

/* The count of the vector at `words`, if it has a place for `key`; 0: it is not one. */
static uint64_t vector_count(const void *words, int most, int key, const uint64_t **ret_begin)
{
	const uint64_t *vector[3]; /* begin, end, end of the allocated memory */
	if (!take(vector, words, sizeof(vector)))
		return 0;
	uintptr_t begin = (uintptr_t)vector[0], end = (uintptr_t)vector[1];
	if (!begin || begin % 8 || end % 8 || end <= begin || (uintptr_t)vector[2] < end)
		return 0;
	uint64_t count = (end - begin) / sizeof(uint64_t);
	*ret_begin = vector[0];
	return count <= (uint64_t)most && count > (uint64_t)key ? count : 0;
}

/* The count of the vector of int at `words`, if split() can have been called with it. */
static int int_vector_count(
        const void *words, const struct ncclComm *parent, const struct ncclComm *child)
{
	const int *vector[3];
	if (!take(vector, words, sizeof(vector)))
		return 0;
	uintptr_t begin = (uintptr_t)vector[0], end = (uintptr_t)vector[1];
	if (!begin || begin % 4 || end % 4 || end <= begin || (uintptr_t)vector[2] < end)
		return 0;
	uint64_t count = (end - begin) / sizeof(int);
	if (count > (uint64_t)parent->ranks || count <= (uint64_t)child->key)
		return 0;
	int before = -1, buffer[512];
	for (uint64_t i = 0; i < count; i++) {
		uint64_t left = count - i, within = i % 512;
		if (!within &&
		        !take(buffer, vector[0] + i, (left < 512 ? left : 512) * sizeof(*buffer)))
			return 0;
		int each = buffer[within];
		if (each <= before || each >= parent->ranks || (!i && each != child->color) ||
		        ((int)i == child->key && each != parent->rank))
			return 0;
		before = each;
	}
	return (int)count;
}

int gm_nccl_world(int *ret_rank)
{
	const char *world = getenv("GPUMEM_SIM_WORLD"), *rank = getenv("GPUMEM_SIM_RANK");
	long count = world ? strtol(world, NULL, 10) : 0;
	if (ret_rank)
		*ret_rank = rank ? (int)strtol(rank, NULL, 10) : 0;
	return count > 1 && count <= INT_MAX ? (int)count : 0;
}

int gm_nccl_part_size(
        const ncclConfig_t *config, const struct ncclComm *parent, const struct ncclComm *child)
{
	/* Where it was found: it is there again. 2.9 passes the ranks of a second part in the same
	 * place (split_group shares one Options between them), so they may be any words; their
	 * count is right. */
	static _Atomic int found;
	int most = parent->ranks, key = child->key, rank = 0, world = gm_nccl_world(&rank);
	if (!config || key < 0)
		return 0;
	const uintptr_t *middle = (const uintptr_t *)(uintptr_t)config;
	const uint64_t *ranks;
	for (int away = 1; away <= AROUND; away++)
		for (int side = -1; side <= 1; side += 2) {
			uint64_t count = vector_count(middle + side * away, most, key, &ranks);
			if (count && is_part(ranks, count, world, rank, key)) {
				atomic_store(&found, side * away);
				return (int)count;
			}
		}
	int where = atomic_load(&found);
	if (where)
		return (int)vector_count(middle + where, most, key, &ranks);
	for (int above = 1; above <= ABOVE; above++) {
		int count = int_vector_count(middle + above, parent, child);
		if (count)
			return count;
	}
	return 0;
}
