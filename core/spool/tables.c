/*
 * Interned records of the agent's file, and their translation into the log: each is written there
 * when the first event needs it. A stack of the file is its innermost frame and the stack below;
 * the log has complete stacks.
 */
#include "cpython/decode/recorded.h"
#include "spool/internal.h"

#include <string.h>

#define KIND(kind) ((kind)-GM_AGENT_CODE)

static bool reserve(struct gm_spool_tables *tables, unsigned kind, uint32_t id)
{
	uint32_t count = tables->counts[kind];
	if (id < count)
		return true;
	uint32_t wanted = id + 1 + (id >> 1) + 64;
	struct gm_bytes *payloads = realloc(tables->payloads[kind], wanted * sizeof(*payloads));
	if (payloads)
		tables->payloads[kind] = payloads;
	uint32_t *written = realloc(tables->written[kind], wanted * sizeof(*written));
	if (written)
		tables->written[kind] = written;
	if (!payloads || !written)
		return false;
	memset(payloads + count, 0, (wanted - count) * sizeof(*payloads));
	memset(written + count, 0, (wanted - count) * sizeof(*written));
	if (kind == KIND(GM_AGENT_CODE)) {
		const struct gm_code **codes = realloc(tables->codes, wanted * sizeof(*codes));
		if (!codes)
			return false;
		memset(codes + count, 0, (wanted - count) * sizeof(*codes));
		tables->codes = codes;
	}
	tables->counts[kind] = wanted;
	return true;
}

/* A copy that is valid as long as the tables; NULL: out of memory. */
static const uint8_t *keep(struct gm_spool_tables *tables, struct gm_bytes bytes)
{
	enum { AREA = 1 << 16 };
	size_t size = bytes.size > AREA ? bytes.size : AREA;
	if (!tables->chunks.count || bytes.size > tables->chunk_left) {
		uint8_t *chunk = malloc(size);
		if (!chunk || !gm_array_push(&tables->chunks, chunk)) {
			free(chunk);
			return NULL;
		}
		tables->chunk_left = size;
	}
	/* chunks are filled from their ends */
	tables->chunk_left -= bytes.size;
	uint8_t *at = tables->chunks.items[tables->chunks.count - 1] + tables->chunk_left;
	memcpy(at, bytes.at, bytes.size);
	return at;
}

/* An id cannot be greater than the possible number of records. Of evidence it can: older agents
 * went on with the numbers of the process's earlier recordings. */
static bool is_possible(struct gm_spool_tables *tables, const struct gm_spool_file *file,
        const struct gm_spool_record *record)
{
	enum { RECORD_LEAST = 3, EVIDENCE_LEAST = 1 << 18 };
	uint32_t id = record->id;
	if (id > tables->most) /* the file may have grown */
		tables->most = gm_spool_records_size(file) / RECORD_LEAST;
	bool fits =
	        id <= tables->most || (record->kind == GM_AGENT_EVIDENCE && id <= EVIDENCE_LEAST);
	return id > 0 && fits && id <= UINT32_MAX / 4;
}

bool gm_spool_tables_add(struct gm_spool_tables *tables, const struct gm_spool_record *record,
        const struct gm_spool_file *file)
{
	if (!is_possible(tables, file, record) || !reserve(tables, KIND(record->kind), record->id))
		return false;
	struct gm_bytes *slot = &tables->payloads[KIND(record->kind)][record->id];
	if (!slot->at)
		*slot = (struct gm_bytes){keep(tables, record->payload), record->payload.size};
	return slot->at;
}

void gm_spool_tables_deinit(struct gm_spool_tables *tables)
{
	for (unsigned i = 0; i < GM_SPOOL_KINDS; i++) {
		free(tables->payloads[i]);
		free(tables->written[i]);
	}
	gm_spool_named_deinit(&tables->named);
	for (size_t i = 0; i < tables->chunks.count; i++)
		free(tables->chunks.items[i]);
	gm_array_deinit(&tables->chunks);
	free(tables->codes);
	gm_python_recorded_close(tables->python);
	struct gm_spool_native *native, *next;
	HASH_ITER(hh, tables->natives, native, next)
	{
		HASH_DEL(tables->natives, native);
		free(native);
	}
}

static bool payload_of(const struct gm_spool_tables *tables, enum gm_agent_record kind, uint32_t id,
        struct gm_cursor *ret)
{
	unsigned index = KIND(kind);
	if (id == 0 || id >= tables->counts[index] || !tables->payloads[index][id].at)
		return false;
	struct gm_bytes payload = tables->payloads[index][id];
	*ret = (struct gm_cursor){.at = payload.at, .end = payload.at + payload.size};
	return true;
}

/* ---- code objects ---------------------------------------------------------------------------- */

static struct gm_recorded_bytes get_bytes(struct gm_cursor *in)
{
	uint64_t size = gm_get_varint(in);
	struct gm_recorded_bytes bytes = {in->at, (size_t)size};
	if (in->bad || size > (uint64_t)(in->end - in->at)) {
		in->bad = true;
		return (struct gm_recorded_bytes){in->at, 0};
	}
	in->at += size;
	return bytes;
}

/* A NUL-ended copy in the arena of one code object. */
static const char *get_string(struct gm_cursor *in, char **arena)
{
	struct gm_recorded_bytes bytes = get_bytes(in);
	char *string = *arena;
	memcpy(string, bytes.at, bytes.size);
	string[bytes.size] = 0;
	*arena += bytes.size + 1;
	return string;
}

static struct gm_error *decode_code(
        struct gm_spool_tables *tables, struct gm_cursor *in, const struct gm_code **ret)
{
	size_t size = (size_t)(in->end - in->at);
	/* Each string takes at least one byte of the payload, which is where its NUL goes. */
	_cleanup_free_ char *text = malloc(2 * size + 16);
	_cleanup_free_ const char **strings = calloc(2 * size + 16, sizeof(*strings));
	_cleanup_free_ uint8_t *kinds = malloc(size + 16);
	char *arena = text;
	if (!text || !strings || !kinds)
		return &gm_error_no_memory;
	struct gm_recorded_code code = {.first_line = gm_get_u32(in), .flags = gm_get_u32(in)};
	code.file = get_string(in, &arena);
	code.name = get_string(in, &arena);
	code.bytecode = get_bytes(in);
	code.lines = get_bytes(in);
	code.exceptions = get_bytes(in);
	code.local_count = gm_get_u32(in);
	if (code.local_count > size)
		in->bad = true;
	const char **at = strings;
	code.locals = at;
	code.local_kinds = kinds;
	for (uint32_t i = 0; i < code.local_count && !in->bad; i++) {
		*at++ = get_string(in, &arena);
		kinds[i] = (uint8_t)gm_get_u32(in);
	}
	code.names = at;
	code.name_count = gm_get_u32(in);
	if (code.name_count > size)
		in->bad = true;
	for (uint32_t i = 0; i < code.name_count && !in->bad; i++)
		*at++ = get_string(in, &arena);
	code.stack_size = gm_get_u32(in);
	code.version = (int)gm_get_u32(in);
	if (in->bad)
		return gm_error_create(GM_CORRUPT, "a code object that cannot be read");
	if (!tables->python)
		gm_try(gm_python_recorded_open(code.version, &tables->python));
	return gm_python_recorded_code(tables->python, &code, ret);
}

const struct gm_code *gm_spool_code_of(struct gm_spool_tables *tables, uint32_t id)
{
	struct gm_cursor in;
	if (!payload_of(tables, GM_AGENT_CODE, id, &in))
		return NULL;
	if (!tables->codes[id]) {
		_cleanup_error_ struct gm_error *error =
		        decode_code(tables, &in, &tables->codes[id]);
		if (error && tables->unreadable++ == 0)
			gm_log_writer_gap(tables->log, error->message);
	}
	return tables->codes[id];
}

uint32_t gm_spool_code(struct gm_spool_tables *tables, uint32_t id)
{
	const struct gm_code *code = gm_spool_code_of(tables, id);
	if (!code)
		return 0;
	uint32_t *written = &tables->written[KIND(GM_AGENT_CODE)][id];
	if (*written)
		return *written - 1;
	uint32_t count = code->loop_count < GM_LOG_LOOPS_MAX ? code->loop_count : GM_LOG_LOOPS_MAX;
	_cleanup_free_ struct gm_log_loop *loops = calloc(count + 1u, sizeof(*loops));
	if (!loops)
		return 0;
	for (uint32_t i = 0; i < count; i++)
		loops[i] = (struct gm_log_loop){.start = code->loops[i].start,
		        .end = code->loops[i].end,
		        .line = code->loops[i].line,
		        .line_end = code->loops[i].line_end,
		        .has_lines = true};
	const struct gm_log_code record = {
	        .file = gm_log_writer_string(tables->log, code->file),
	        .name = gm_log_writer_string(tables->log, code->name),
	        .first_line = code->first_line,
	        .loop_count = count,
	        .loops = loops,
	};
	*written = gm_log_writer_code(tables->log, &record) + 1;
	return *written - 1;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

bool gm_spool_python_node(
        const struct gm_spool_tables *tables, uint32_t id, struct gm_spool_stack *ret)
{
	struct gm_cursor in;
	if (!payload_of(tables, GM_AGENT_PYTHON_STACK, id, &in))
		return false;
	ret->parent = gm_get_u32(&in);
	ret->code = gm_get_u32(&in);
	ret->offset = gm_get_u32(&in);
	/* a stack is written after the one below it, so there is no cycle */
	return !in.bad && ret->parent < id;
}

static uint32_t log_frame(struct gm_spool_tables *tables, uint32_t code_id, uint32_t offset)
{
	const struct gm_code *code = gm_spool_code_of(tables, code_id);
	if (!code)
		return 0;
	struct gm_instruction instruction;
	gm_python_instruction(tables->python, code, offset, &instruction);
	const struct gm_log_frame frame = {
	        .code = gm_spool_code(tables, code_id),
	        .lasti = offset,
	        .line = instruction.line,
	        .op = instruction.op,
	        .op_name = gm_log_writer_string(tables->log, instruction.name),
	};
	return gm_log_writer_frame(tables->log, &frame);
}

uint32_t gm_spool_python_stack(struct gm_spool_tables *tables, uint32_t id)
{
	struct gm_spool_stack node;
	if (!gm_spool_python_node(tables, id, &node))
		return 0;
	uint32_t *written = &tables->written[KIND(GM_AGENT_PYTHON_STACK)][id];
	if (*written)
		return *written - 1;
	uint32_t frames[GM_LOG_STACK_MAX];
	size_t count = 0;
	do {
		uint32_t frame = log_frame(tables, node.code, node.offset);
		if (frame)
			frames[count++] = frame;
	} while (count < GM_LOG_STACK_MAX && gm_spool_python_node(tables, node.parent, &node));
	*written = gm_log_writer_python_stack(tables->log, frames, count) + 1;
	return *written - 1;
}

static bool native_node(
        const struct gm_spool_tables *tables, uint32_t id, struct gm_spool_stack *ret)
{
	struct gm_cursor in;
	if (!payload_of(tables, GM_AGENT_NATIVE_STACK, id, &in))
		return false;
	ret->parent = gm_get_u32(&in);
	ret->pc = gm_get_varint(&in);
	return !in.bad && ret->parent < id;
}

static void see_address(struct gm_spool_tables *tables, uint64_t address, bool is_return)
{
	struct gm_spool_native *native;
	HASH_FIND(hh, tables->natives, &address, sizeof(address), native);
	if (native || !(native = malloc(sizeof(*native))))
		return;
	*native = (struct gm_spool_native){.address = address, .is_return = is_return};
	HASH_ADD(hh, tables->natives, address, sizeof(native->address), native);
}

uint32_t gm_spool_native_stack(struct gm_spool_tables *tables, uint32_t id)
{
	struct gm_spool_stack node;
	if (!native_node(tables, id, &node))
		return 0;
	uint32_t *written = &tables->written[KIND(GM_AGENT_NATIVE_STACK)][id];
	if (*written)
		return *written - 1;
	uint64_t addresses[GM_LOG_STACK_MAX];
	size_t count = 0;
	do {
		addresses[count++] = node.pc;
		/* Hooks see the return address of the reported function: all are return addresses.
		 * */
		see_address(tables, node.pc, true);
	} while (count < GM_LOG_STACK_MAX && native_node(tables, node.parent, &node));
	*written = gm_log_writer_native_stack(tables->log, addresses, count) + 1;
	return *written - 1;
}

size_t gm_spool_native_addresses(
        const struct gm_spool_tables *tables, uint32_t id, uint64_t *ret_addresses, size_t max)
{
	struct gm_spool_stack node = {.parent = id};
	size_t count = 0;
	while (count < max && native_node(tables, node.parent, &node))
		ret_addresses[count++] = node.pc;
	return count;
}

uint32_t gm_spool_evidence(struct gm_spool_tables *tables, uint32_t id)
{
	struct gm_cursor in;
	if (!payload_of(tables, GM_AGENT_EVIDENCE, id, &in))
		return 0;
	uint32_t *written = &tables->written[KIND(GM_AGENT_EVIDENCE)][id];
	if (*written)
		return *written - 1;
	uint32_t kind = gm_get_u32(&in), code_id = gm_get_u32(&in), offset = gm_get_u32(&in),
	         slot = gm_get_u32(&in);
	const struct gm_code *code = gm_spool_code_of(tables, code_id);
	if (in.bad || !code || (kind != GM_EVIDENCE_DYING_FRAME && kind != GM_EVIDENCE_GENERATOR))
		return 0;
	struct gm_instruction instruction;
	gm_python_instruction(tables->python, code, offset, &instruction);
	struct gm_log_evidence evidence = {
	        .kind = kind, .code = gm_spool_code(tables, code_id), .line = instruction.line};
	if (slot > 0 && slot <= code->local_count)
		evidence.name = gm_log_writer_string(tables->log, code->local_names[slot - 1]);
	*written = gm_log_writer_evidence(tables->log, &evidence) + 1;
	return *written - 1;
}

uint32_t gm_spool_tensor(struct gm_spool_tables *tables, uint32_t id)
{
	enum { VALUES_MAX = 1 + 2 * GM_AGENT_TENSOR_DIMENSIONS };
	uint64_t values[VALUES_MAX]; /* from the end of the chain on */
	size_t count = 0;
	struct gm_cursor in;
	if (!payload_of(tables, GM_AGENT_TENSOR, id, &in))
		return 0;
	uint32_t *written = &tables->written[KIND(GM_AGENT_TENSOR)][id];
	if (*written)
		return *written - 1;
	for (uint32_t at = id; at;) {
		if (count == VALUES_MAX || !payload_of(tables, GM_AGENT_TENSOR, at, &in))
			return 0;
		uint32_t parent = gm_get_u32(&in);
		values[count++] = gm_get_varint(&in);
		if (in.bad ||
		        parent >= at) /* the stack below was written before, so there is no cycle */
			return 0;
		at = parent;
	}
	int64_t in_order[VALUES_MAX];
	for (size_t i = 0; i < count; i++)
		in_order[i] = (int64_t)values[count - 1 - i];
	bool strided = in_order[0] & GM_AGENT_TENSOR_STRIDED;
	if (in_order[0] < 0 || in_order[0] >= 2 * GM_AGENT_TENSOR_STRIDED ||
	        (strided && count % 2 == 0))
		return 0;
	uint32_t dimensions = (uint32_t)(strided ? (count - 1) / 2 : count - 1);
	const struct gm_log_tensor tensor = {
	        .type = (uint8_t)in_order[0],
	        .dimensions = dimensions,
	        .sizes = in_order + 1,
	        .strides = strided ? in_order + 1 + dimensions : NULL,
	};
	*written = gm_log_writer_tensor(tables->log, &tensor) + 1;
	return *written - 1;
}
