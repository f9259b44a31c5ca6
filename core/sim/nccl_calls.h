/*
 * NCCL's calls that move data (nccl.h), as the agent numbers them in its file, a recording in its
 * log, and the simulated device in its own work; and how many bytes each reads and fills on one
 * rank. Any room may include this: it includes none.
 */
#ifndef GM_SIM_NCCL_CALLS_H
#define GM_SIM_NCCL_CALLS_H

#include <stdbool.h>
#include <stdint.h>

/* A call that moves data between the ranks of a group. When the device does the work is not
 * known: it comes in its turn, behind what the stream had to do. */
enum gm_collective_kind {
	GM_COLLECTIVE_ALL_REDUCE = 1,
	GM_COLLECTIVE_REDUCE,
	GM_COLLECTIVE_BROADCAST,
	GM_COLLECTIVE_ALL_GATHER,
	GM_COLLECTIVE_REDUCE_SCATTER,
	GM_COLLECTIVE_ALL_TO_ALL,
	GM_COLLECTIVE_GATHER,
	GM_COLLECTIVE_SCATTER,
	GM_COLLECTIVE_SEND,
	GM_COLLECTIVE_RECEIVE,
};
enum { GM_COLLECTIVE_COUNT = GM_COLLECTIVE_RECEIVE + 1 };

struct gm_collective_bytes {
	uint64_t send, receive;
};

/*
 * `bytes`: of the elements that the call says; `root`: this rank is the call's root; `in_place`: it
 * reads and fills the same address. A call that fills what it reads has both, but for the root of a
 * broadcast, whose buffer stays as it is; where the root broadcasts to another buffer, that is
 * filled on the root too. More than 64 bits: UINT64_MAX.
 */
static inline struct gm_collective_bytes gm_collective_bytes(
        enum gm_collective_kind kind, uint64_t bytes, uint64_t ranks, bool root, bool in_place)
{
	uint64_t all;
	if (__builtin_mul_overflow(bytes, ranks, &all))
		all = UINT64_MAX;
	const struct gm_collective_bytes same = {bytes, bytes}, none = {0, 0};
	switch (kind) {
	case GM_COLLECTIVE_ALL_REDUCE:
		return same;
	case GM_COLLECTIVE_REDUCE:
		return (struct gm_collective_bytes){bytes, root ? bytes : 0};
	case GM_COLLECTIVE_BROADCAST:
		return (struct gm_collective_bytes){root ? bytes : 0, root && in_place ? 0 : bytes};
	case GM_COLLECTIVE_ALL_GATHER:
		return (struct gm_collective_bytes){bytes, all};
	case GM_COLLECTIVE_REDUCE_SCATTER:
		return (struct gm_collective_bytes){all, bytes};
	case GM_COLLECTIVE_ALL_TO_ALL:
		return (struct gm_collective_bytes){all, all};
	case GM_COLLECTIVE_GATHER:
		return (struct gm_collective_bytes){bytes, root ? all : 0};
	case GM_COLLECTIVE_SCATTER:
		return (struct gm_collective_bytes){root ? all : 0, bytes};
	case GM_COLLECTIVE_SEND:
		return (struct gm_collective_bytes){bytes, 0};
	case GM_COLLECTIVE_RECEIVE:
		return (struct gm_collective_bytes){0, bytes};
	default:
		return none;
	}
}

#endif
