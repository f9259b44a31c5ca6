/*
 * Collectives. PyTorch's process groups call NCCL (torch/csrc/distributed/c10d/
 * ProcessGroupNCCL.cpp), and each function that moves data has a hook, which records the arguments
 * before the call. The GPU does the work later, in the order of the stream; that time is not known
 * here.
 *
 * Communicators are numbered in the order of their first use. NCCL is asked once for each: the
 * number of its ranks, and the rank of this process.
 */
#include "agent/collectives.h"

#include <stdatomic.h>
#include <string.h>

#include "agent/clock.h"
#include "agent/lookup.h"
#include "agent/patch.h"
#include "agent/put.h"
#include "agent/stacks/stacks.h"
#include "agent/state.h"
#include "base/varint.h"

enum { SUCCESS = 0, SYSTEM_ERROR = 2 }; /* ncclResult_t of nccl.h */

/* As in nccl.h: types and operators are enums, a stream is a pointer. */
typedef int result;
typedef const void *source;
typedef result reduce_all_function(source, void *, size_t, int, int, void *, void *);
typedef result rooted_reduce_function(source, void *, size_t, int, int, int, void *, void *);
typedef result rooted_function(source, void *, size_t, int, int, void *, void *);
typedef result in_place_function(void *, size_t, int, int, void *, void *);
typedef result plain_function(source, void *, size_t, int, void *, void *);
typedef result send_function(source, size_t, int, int, void *, void *);
typedef result end_function(void *);

GM_AGENT_EXPORT reduce_all_function ncclAllReduce, ncclReduceScatter;
GM_AGENT_EXPORT rooted_reduce_function ncclReduce;
GM_AGENT_EXPORT rooted_function ncclBroadcast, ncclGather, ncclScatter;
GM_AGENT_EXPORT in_place_function ncclBcast, ncclRecv;
GM_AGENT_EXPORT plain_function ncclAllGather, ncclAlltoAll;
GM_AGENT_EXPORT send_function ncclSend;
GM_AGENT_EXPORT end_function ncclCommDestroy, ncclCommAbort;

static void *_Atomic before_all_reduce, *_Atomic before_reduce_scatter, *_Atomic before_reduce,
        *_Atomic before_broadcast, *_Atomic before_gather, *_Atomic before_scatter,
        *_Atomic before_bcast, *_Atomic before_recv, *_Atomic before_all_gather,
        *_Atomic before_all_to_all, *_Atomic before_send, *_Atomic before_destroy,
        *_Atomic before_abort;

const struct gm_agent_hook gm_agent_collective_hooks[] = {
        {"ncclAllReduce", (void *)ncclAllReduce, &before_all_reduce},
        {"ncclReduceScatter", (void *)ncclReduceScatter, &before_reduce_scatter},
        {"ncclReduce", (void *)ncclReduce, &before_reduce},
        {"ncclBroadcast", (void *)ncclBroadcast, &before_broadcast},
        {"ncclGather", (void *)ncclGather, &before_gather},
        {"ncclScatter", (void *)ncclScatter, &before_scatter},
        {"ncclBcast", (void *)ncclBcast, &before_bcast},
        {"ncclRecv", (void *)ncclRecv, &before_recv},
        {"ncclAllGather", (void *)ncclAllGather, &before_all_gather},
        {"ncclAlltoAll", (void *)ncclAlltoAll, &before_all_to_all},
        {"ncclSend", (void *)ncclSend, &before_send},
        {"ncclCommDestroy", (void *)ncclCommDestroy, &before_destroy},
        {"ncclCommAbort", (void *)ncclCommAbort, &before_abort},
        {NULL, NULL, NULL},
};

/* ---- communicators ---- */

enum {
	KNOWN_MAX = 256,
	NO_VALUE = -1
}; /* after this many, a communicator gets a new number at each call */

struct communicator {
	uint32_t number;
	int ranks, rank, device;
};
static struct {
	_Atomic uint64_t address; /* 0: unused; 1: being written */
	struct communicator about;
} communicators[KNOWN_MAX];
static _Atomic uint32_t last_number;

/* A query about a communicator, which NCCL answers from its own memory. */
static int ask(const char *symbol, void *communicator)
{
	int value = NO_VALUE;
	result (*function)(const void *, int *);
	void *found = gm_agent_find(symbol);
	memcpy(&function, &found, sizeof(found));
	return function && function(communicator, &value) == SUCCESS ? value : NO_VALUE;
}

static struct communicator about(void *communicator)
{
	uint64_t address = (uint64_t)(uintptr_t)communicator;
	for (int i = 0; i < KNOWN_MAX; i++)
		if (atomic_load_explicit(&communicators[i].address, memory_order_acquire) ==
		        address)
			return communicators[i].about;
	const struct communicator fresh = {
	        .number = atomic_fetch_add(&last_number, 1) + 1,
	        .ranks = ask("ncclCommCount", communicator),
	        .rank = ask("ncclCommUserRank", communicator),
	        .device = ask("ncclCommCuDevice", communicator),
	};
	for (int i = 0; i < KNOWN_MAX; i++) {
		uint64_t none = 0;
		if (!atomic_compare_exchange_strong(&communicators[i].address, &none, 1))
			continue;
		communicators[i].about = fresh;
		atomic_store_explicit(&communicators[i].address, address, memory_order_release);
		break;
	}
	return fresh;
}

/* Another communicator may get its address. */
static void forget(void *communicator)
{
	for (int i = 0; i < KNOWN_MAX; i++) {
		uint64_t address = (uint64_t)(uintptr_t)communicator;
		if (address > 1)
			atomic_compare_exchange_strong(
			        &communicators[i].address, &address, UINT64_C(0));
	}
}

/* ---- calls ---- */

struct note {
	enum gm_collective_kind kind;
	source send;
	const void *receive;
	size_t count;
	int type, peer; /* peer: the root, the receiver or the sender; NO_VALUE: none */
	void *communicator;
};

/* ncclBcast() may call ncclBroadcast(): a call within a call is not recorded. */
static _Thread_local bool within;

static void note(const struct note *note, const struct gm_agent_registers *at)
{
	uint8_t bytes[16 * 10], *end = bytes;
	struct gm_agent_stacks stacks = {0};
	if (within || !note->communicator || gm_agent_waits() ||
	        !gm_agent_may_record(GM_AGENT_CUDA) || !gm_agent_enter())
		return;
	const struct communicator group = about(note->communicator);
	gm_stacks_take(at, false, &stacks);
	end = gm_put_varint(end, note->kind);
	end = gm_put_varint(end, gm_agent_now());
	end = gm_put_varint(end, stacks.python);
	end = gm_put_varint(end, stacks.flags & GM_STACKS_BORROWED ? 1 : 0);
	end = gm_put_varint(end, group.number);
	end = gm_put_varint(end, (uint64_t)(group.ranks + 1));
	end = gm_put_varint(end, (uint64_t)(group.rank + 1));
	end = gm_put_varint(end, (uint64_t)(group.device + 1));
	end = gm_put_varint(end, (uint64_t)(note->peer + 1));
	end = gm_put_varint(end, (uint32_t)note->type);
	end = gm_put_varint(end, note->count);
	end = gm_put_varint(end, (uint64_t)(uintptr_t)note->send);
	end = gm_put_varint(end, (uint64_t)(uintptr_t)note->receive);
	gm_agent_put(GM_AGENT_COLLECTIVE, 0, bytes, (size_t)(end - bytes));
	gm_agent_leave();
}

/* Continues with NCCL's own function. It exists: otherwise the program could not have called it. */
#define GO_ON(type, before, name, ...)                                     \
	type *function;                                                    \
	*(void **)&function = gm_agent_go_on(&before, "libnccl.so", name); \
	if (!function)                                                     \
		return SYSTEM_ERROR;                                       \
	bool outermost = !within;                                          \
	within = true;                                                     \
	int code = function(__VA_ARGS__);                                  \
	if (outermost)                                                     \
		within = false;                                            \
	return code

#define NOTE(what, ...)                                         \
	const struct gm_agent_registers at = gm_agent_caller(); \
	note(&(struct note){.kind = GM_COLLECTIVE_##what,       \
	             .count = count,                            \
	             .type = type,                              \
	             .communicator = communicator,              \
	             __VA_ARGS__},                              \
	        &at)

result ncclAllReduce(source send, void *receive, size_t count, int type, int operator,
        void * communicator, void *stream)
{
	NOTE(ALL_REDUCE, .send = send, .receive = receive, .peer = NO_VALUE);
	GO_ON(reduce_all_function, before_all_reduce, "ncclAllReduce", send, receive, count,
	        type, operator, communicator, stream);
}

result ncclReduceScatter(source send, void *receive, size_t count, int type, int operator,
        void * communicator, void *stream)
{
	NOTE(REDUCE_SCATTER, .send = send, .receive = receive, .peer = NO_VALUE);
	GO_ON(reduce_all_function, before_reduce_scatter, "ncclReduceScatter", send, receive, count,
	        type, operator, communicator, stream);
}

result ncclReduce(source send, void *receive, size_t count, int type, int operator, int root,
        void *communicator, void *stream)
{
	NOTE(REDUCE, .send = send, .receive = receive, .peer = root);
	GO_ON(rooted_reduce_function, before_reduce, "ncclReduce", send, receive, count,
	        type, operator, root, communicator, stream);
}

result ncclBroadcast(source send, void *receive, size_t count, int type, int root,
        void *communicator, void *stream)
{
	NOTE(BROADCAST, .send = send, .receive = receive, .peer = root);
	GO_ON(rooted_function, before_broadcast, "ncclBroadcast", send, receive, count, type, root,
	        communicator, stream);
}

result ncclBcast(void *buffer, size_t count, int type, int root, void *communicator, void *stream)
{
	NOTE(BROADCAST, .send = buffer, .receive = buffer, .peer = root);
	GO_ON(in_place_function, before_bcast, "ncclBcast", buffer, count, type, root, communicator,
	        stream);
}

result ncclAllGather(
        source send, void *receive, size_t count, int type, void *communicator, void *stream)
{
	NOTE(ALL_GATHER, .send = send, .receive = receive, .peer = NO_VALUE);
	GO_ON(plain_function, before_all_gather, "ncclAllGather", send, receive, count, type,
	        communicator, stream);
}

result ncclAlltoAll(
        source send, void *receive, size_t count, int type, void *communicator, void *stream)
{
	NOTE(ALL_TO_ALL, .send = send, .receive = receive, .peer = NO_VALUE);
	GO_ON(plain_function, before_all_to_all, "ncclAlltoAll", send, receive, count, type,
	        communicator, stream);
}

result ncclGather(source send, void *receive, size_t count, int type, int root, void *communicator,
        void *stream)
{
	NOTE(GATHER, .send = send, .receive = receive, .peer = root);
	GO_ON(rooted_function, before_gather, "ncclGather", send, receive, count, type, root,
	        communicator, stream);
}

result ncclScatter(source send, void *receive, size_t count, int type, int root, void *communicator,
        void *stream)
{
	NOTE(SCATTER, .send = send, .receive = receive, .peer = root);
	GO_ON(rooted_function, before_scatter, "ncclScatter", send, receive, count, type, root,
	        communicator, stream);
}

result ncclSend(source send, size_t count, int type, int peer, void *communicator, void *stream)
{
	NOTE(SEND, .send = send, .peer = peer);
	GO_ON(send_function, before_send, "ncclSend", send, count, type, peer, communicator,
	        stream);
}

result ncclRecv(void *receive, size_t count, int type, int peer, void *communicator, void *stream)
{
	NOTE(RECEIVE, .receive = receive, .peer = peer);
	GO_ON(in_place_function, before_recv, "ncclRecv", receive, count, type, peer, communicator,
	        stream);
}

result ncclCommDestroy(void *communicator)
{
	forget(communicator);
	GO_ON(end_function, before_destroy, "ncclCommDestroy", communicator);
}

result ncclCommAbort(void *communicator)
{
	forget(communicator);
	GO_ON(end_function, before_abort, "ncclCommAbort", communicator);
}
