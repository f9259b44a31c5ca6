/* Collectives: the agent's records of NCCL calls. A call is added to the log when it is read; its
 * time shows its position. */
#include "spool/internal.h"
#include "spool/replay_state.h"

/* ncclDataType_t (nccl.h) as c10::ScalarType. PyTorch calls NCCL with uint8 for bool too
 * (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp). */
static const struct {
	uint8_t dtype, bytes;
} types[] = {
        {1, 1},  /* int8 */
        {0, 1},  /* uint8 */
        {3, 4},  /* int32 */
        {28, 4}, /* uint32 */
        {4, 8},  /* int64 */
        {29, 8}, /* uint64 */
        {5, 2},  /* float16 */
        {6, 4},  /* float32 */
        {7, 8},  /* float64 */
        {15, 2}, /* bfloat16 */
        {24, 1}, /* float8_e4m3 */
        {23, 1}, /* float8_e5m2 */
};
enum { TYPES = sizeof(types) / sizeof(types[0]) };

void gm_spool_replay_collective(
        struct gm_spool_replay *replay, uint32_t thread, struct gm_bytes payload)
{
	struct gm_cursor in = {.at = payload.at, .end = payload.at + payload.size};
	struct gm_log_collective call = {.kind = gm_get_u32(&in), .thread = thread};
	call.time_ns = gm_get_varint(&in);
	call.python_stack = gm_spool_python_stack(replay->tables, gm_get_u32(&in));
	call.borrowed = gm_get_u32(&in) & 1;
	call.group = gm_get_u32(&in);
	call.ranks = gm_get_u32(&in);
	call.ranks -= call.ranks > 0;
	call.rank = gm_get_u32(&in) - 1; /* 0: none, which is GM_LOG_NO_RANK */
	uint32_t device = gm_get_u32(&in);
	call.device = device > INT16_MAX ? -1 : (int16_t)((int)device - 1);
	call.peer = gm_get_u32(&in) - 1;
	uint32_t type = gm_get_u32(&in);
	call.dtype = type < TYPES ? types[type].dtype : GM_LOG_NO_DTYPE;
	call.count = gm_get_varint(&in);
	call.send = gm_get_varint(&in);
	call.receive = gm_get_varint(&in);
	uint64_t bytes = 0;
	if (in.bad || !gm_collective_kind_name(call.kind))
		return;
	if (type < TYPES && __builtin_mul_overflow(call.count, types[type].bytes, &bytes))
		bytes = UINT64_MAX;
	const struct gm_collective_bytes moved = gm_collective_bytes(call.kind, bytes,
	        call.ranks ? call.ranks : 1, call.rank == call.peer, call.send == call.receive);
	call.send_bytes = moved.send;
	call.receive_bytes = moved.receive;
	gm_log_writer_collective(replay->log, &call);
}
