/*
 * Call frame information in the program's own memory: from a loaded file's .eh_frame_hdr to the row
 * of one address. Only what a walk needs is decoded: the canonical frame address (CFA), the return
 * address, rbp. gcc and clang express nearly all frames in these terms; any other rule makes the
 * row unknown.
 *
 * LSB 5.0 (.eh_frame, .eh_frame_hdr), DWARF 5 section 6.4, psABI x86-64 table 3.36 (6: rbp, 7: rsp,
 * 16: return address).
 */
#include <dwarf.h>

#include "agent/stacks/inside.h"
#include "base/varint.h"

enum { RBP = 6, RSP = 7, RETURN = 16, STATES_MAX = 16, INSTRUCTIONS_MAX = 1 << 14 };

static uint64_t get(struct gm_cursor *cursor, size_t size)
{
	uint64_t value = 0;

	if ((size_t)(cursor->end - cursor->at) < size) {
		cursor->bad = true;
		cursor->at = cursor->end;
		return 0;
	}
	memcpy(&value, cursor->at, size);
	cursor->at += size;
	return value;
}

/* Bit 6 of the last byte is the sign. */
static int64_t get_signed_varint(struct gm_cursor *cursor)
{
	const uint8_t *begin = cursor->at;
	uint64_t value = gm_get_varint(cursor);
	size_t bits = 7 * (size_t)(cursor->at - begin);
	if (!cursor->bad && bits < 64 && (cursor->at[-1] & 0x40))
		value |= ~UINT64_C(0) << bits;
	return (int64_t)value;
}

/* A pointer in one of the encodings of LSB 5.0, 10.5.1. */
static uint64_t get_pointer(struct gm_cursor *cursor, uint8_t encoding, uint64_t data_base)
{
	uint64_t here = (uint64_t)(uintptr_t)cursor->at, value;

	if (encoding == DW_EH_PE_omit)
		return 0;
	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		value = get(cursor, 8);
		break;
	case DW_EH_PE_udata2:
		value = get(cursor, 2);
		break;
	case DW_EH_PE_sdata2:
		value = (uint64_t)(int64_t)(int16_t)get(cursor, 2);
		break;
	case DW_EH_PE_udata4:
		value = get(cursor, 4);
		break;
	case DW_EH_PE_sdata4:
		value = (uint64_t)(int64_t)(int32_t)get(cursor, 4);
		break;
	case DW_EH_PE_uleb128:
		value = gm_get_varint(cursor);
		break;
	case DW_EH_PE_sleb128:
		value = (uint64_t)get_signed_varint(cursor);
		break;
	default:
		cursor->bad = true;
		return 0;
	}
	switch (encoding & 0x70) {
	case DW_EH_PE_pcrel:
		return value + here;
	case DW_EH_PE_datarel:
		return value + data_base;
	default:
		return value;
	}
}

struct common { /* a CIE */
	uint64_t code_align;
	int64_t data_align;
	uint8_t pointer_encoding;
	bool signal, has_augmentation;
	struct gm_cursor instructions;
};

struct state {
	uint64_t cfa_register;
	int64_t cfa_offset;
	const uint8_t *cfa_expression; /* NULL: register and offset */
	size_t cfa_expression_size;
	uint8_t rbp, rip; /* enum rule */
	int64_t rbp_offset, rip_offset;
};
enum rule { SAME, UNDEFINED, AT_CFA, AT_RBP, OTHER };

static bool read_common(uint64_t address, uint64_t end, struct common *ret)
{
	struct gm_cursor cursor = {
	        (const uint8_t *)(uintptr_t)address, (const uint8_t *)(uintptr_t)end, false};
	uint64_t length = get(&cursor, 4);
	const char *augmentation;
	uint8_t version;

	if (length == 0 || length >= 0xfffffff0 || length > (uint64_t)(cursor.end - cursor.at))
		return false;
	cursor.end = cursor.at + length;
	if (get(&cursor, 4) != 0)
		return false;
	version = (uint8_t)get(&cursor, 1);
	augmentation = (const char *)cursor.at;
	while (!cursor.bad && get(&cursor, 1) != 0)
		;
	*ret = (struct common){
	        .code_align = gm_get_varint(&cursor), .data_align = get_signed_varint(&cursor)};
	if ((version == 1 ? get(&cursor, 1) : gm_get_varint(&cursor)) != RETURN || cursor.bad)
		return false;
	if (augmentation[0] == 'z') {
		uint64_t size = gm_get_varint(&cursor);
		const uint8_t *behind = cursor.at + size;
		if (cursor.bad || size > (uint64_t)(cursor.end - cursor.at))
			return false;
		ret->has_augmentation = true;
		for (const char *letter = augmentation + 1; *letter; letter++) {
			if (*letter == 'R') {
				ret->pointer_encoding = (uint8_t)get(&cursor, 1);
			} else if (*letter == 'P') {
				uint8_t encoding = (uint8_t)get(&cursor, 1);
				get_pointer(&cursor, encoding & 0x0f, 0);
			} else if (*letter == 'L') {
				get(&cursor, 1);
			} else if (*letter == 'S') {
				ret->signal = true;
			} else if (*letter != 'B') {
				return false;
			}
		}
		cursor.at = behind;
	} else if (augmentation[0]) {
		return false;
	}
	ret->instructions = cursor;
	return !cursor.bad;
}

static void set_rule(struct state *state, uint64_t number, enum rule rule, int64_t offset)
{
	if (number == RBP) {
		state->rbp = (uint8_t)rule;
		state->rbp_offset = offset;
	} else if (number == RETURN) {
		state->rip = (uint8_t)rule;
		state->rip_offset = offset;
	}
}

/* A register that is saved at the address of an expression: gcc writes "rbp + n" this way in
 * functions that align their stack. */
static void set_expression(
        struct state *state, uint64_t number, const uint8_t *expression, uint64_t size)
{
	struct gm_cursor cursor = {expression, expression + size, false};

	if (get(&cursor, 1) == DW_OP_breg6) {
		int64_t offset = get_signed_varint(&cursor);
		if (!cursor.bad && cursor.at == cursor.end) {
			set_rule(state, number, AT_RBP, offset);
			return;
		}
	}
	set_rule(state, number, OTHER, 0);
}

/* Runs instructions up to `target` (a distance from the function's beginning). False: one of them
 * is unknown. */
static bool run(struct gm_cursor cursor, const struct common *common, uint64_t begin,
        uint64_t target, const struct state *initial, struct state *state)
{
	struct state kept[STATES_MAX];
	size_t kept_count = 0;
	uint64_t at = begin, number, size;

	for (unsigned i = 0; cursor.at < cursor.end && i < INSTRUCTIONS_MAX; i++) {
		uint8_t op = (uint8_t)get(&cursor, 1);
		switch (op & 0xc0) {
		case DW_CFA_advance_loc:
			at += (op & 0x3f) * common->code_align;
			if (at > target)
				return true;
			continue;
		case DW_CFA_offset:
			set_rule(state, op & 0x3f, AT_CFA,
			        (int64_t)gm_get_varint(&cursor) * common->data_align);
			continue;
		case DW_CFA_restore:
			if ((op & 0x3f) == RBP) {
				state->rbp = initial->rbp;
				state->rbp_offset = initial->rbp_offset;
			}
			continue;
		}
		switch (op) {
		case DW_CFA_nop:
			break;
		case DW_CFA_set_loc:
			at = get_pointer(&cursor, common->pointer_encoding, 0);
			if (at > target)
				return true;
			break;
		case DW_CFA_advance_loc1:
		case DW_CFA_advance_loc2:
		case DW_CFA_advance_loc4:
			at += get(&cursor, (size_t)1 << (op - DW_CFA_advance_loc1)) *
			      common->code_align;
			if (at > target)
				return true;
			break;
		case DW_CFA_offset_extended:
			number = gm_get_varint(&cursor);
			set_rule(state, number, AT_CFA,
			        (int64_t)gm_get_varint(&cursor) * common->data_align);
			break;
		case DW_CFA_offset_extended_sf:
			number = gm_get_varint(&cursor);
			set_rule(state, number, AT_CFA,
			        get_signed_varint(&cursor) * common->data_align);
			break;
		case DW_CFA_GNU_negative_offset_extended:
			number = gm_get_varint(&cursor);
			set_rule(state, number, AT_CFA,
			        -(int64_t)gm_get_varint(&cursor) * common->data_align);
			break;
		case DW_CFA_restore_extended:
			if (gm_get_varint(&cursor) == RBP) {
				state->rbp = initial->rbp;
				state->rbp_offset = initial->rbp_offset;
			}
			break;
		case DW_CFA_undefined:
			set_rule(state, gm_get_varint(&cursor), UNDEFINED, 0);
			break;
		case DW_CFA_same_value:
			set_rule(state, gm_get_varint(&cursor), SAME, 0);
			break;
		case DW_CFA_register:
			number = gm_get_varint(&cursor);
			gm_get_varint(&cursor);
			set_rule(state, number, OTHER, 0);
			break;
		case DW_CFA_val_offset:
		case DW_CFA_val_offset_sf:
			set_rule(state, gm_get_varint(&cursor), OTHER, 0);
			gm_get_varint(&cursor);
			break;
		case DW_CFA_remember_state:
			if (kept_count == STATES_MAX)
				return false;
			kept[kept_count++] = *state;
			break;
		case DW_CFA_restore_state:
			if (!kept_count)
				return false;
			*state = kept[--kept_count];
			break;
		case DW_CFA_def_cfa:
			state->cfa_register = gm_get_varint(&cursor);
			state->cfa_offset = (int64_t)gm_get_varint(&cursor);
			state->cfa_expression = NULL;
			break;
		case DW_CFA_def_cfa_sf:
			state->cfa_register = gm_get_varint(&cursor);
			state->cfa_offset = get_signed_varint(&cursor) * common->data_align;
			state->cfa_expression = NULL;
			break;
		case DW_CFA_def_cfa_register:
			state->cfa_register = gm_get_varint(&cursor);
			break;
		case DW_CFA_def_cfa_offset:
			state->cfa_offset = (int64_t)gm_get_varint(&cursor);
			break;
		case DW_CFA_def_cfa_offset_sf:
			state->cfa_offset = get_signed_varint(&cursor) * common->data_align;
			break;
		case DW_CFA_def_cfa_expression:
			size = gm_get_varint(&cursor);
			if (size > (uint64_t)(cursor.end - cursor.at))
				return false;
			state->cfa_expression = cursor.at;
			state->cfa_expression_size = size;
			cursor.at += size;
			break;
		case DW_CFA_expression:
		case DW_CFA_val_expression:
			number = gm_get_varint(&cursor);
			size = gm_get_varint(&cursor);
			if (size > (uint64_t)(cursor.end - cursor.at))
				return false;
			if (op == DW_CFA_expression)
				set_expression(state, number, cursor.at, size);
			else
				set_rule(state, number, OTHER, 0);
			cursor.at += size;
			break;
		case DW_CFA_GNU_args_size:
			gm_get_varint(&cursor);
			break;
		default:
			return false;
		}
		if (cursor.bad)
			return false;
	}
	return true;
}

/* "*(rbp + n)" is a function that aligns its stack; the expression that the linker makes for PLT
 * entries begins with "rsp + 8". */
static struct gm_frame_row row_of_expression(const struct state *state)
{
	struct gm_cursor cursor = {
	        state->cfa_expression, state->cfa_expression + state->cfa_expression_size, false};
	struct gm_frame_row row = {.kind = GM_ROW_UNKNOWN};
	uint8_t op = (uint8_t)get(&cursor, 1);
	int64_t offset = get_signed_varint(&cursor);

	if (cursor.bad || offset < INT16_MIN || offset > INT16_MAX)
		return row;
	if (op == DW_OP_breg6 && cursor.end - cursor.at == 1 && *cursor.at == DW_OP_deref) {
		row.kind = GM_ROW_RBP_LOAD;
		row.offset = (int32_t)offset;
	} else if (op == DW_OP_breg7 && offset == 8 && cursor.end - cursor.at > 4 &&
	           *cursor.at == DW_OP_breg16) {
		row.kind = GM_ROW_PLT;
		row.offset = 8;
	}
	return row;
}

static struct gm_frame_row row_of(const struct state *state, const struct common *common)
{
	struct gm_frame_row row = {.kind = GM_ROW_UNKNOWN};

	if (common->signal)
		return (struct gm_frame_row){.kind = GM_ROW_SIGNAL};
	if (state->rip == UNDEFINED)
		return (struct gm_frame_row){.kind = GM_ROW_END};
	if (state->rip != AT_CFA || state->rip_offset != -8)
		return row;
	if (state->cfa_expression) {
		row = row_of_expression(state);
	} else if (state->cfa_offset >= INT32_MIN && state->cfa_offset <= INT32_MAX) {
		row.offset = (int32_t)state->cfa_offset;
		if (state->cfa_register == RSP)
			row.kind = GM_ROW_RSP;
		else if (state->cfa_register == RBP)
			row.kind = GM_ROW_RBP;
	}
	switch ((enum rule)state->rbp) {
	case SAME:
	case UNDEFINED:
		row.rbp = GM_RBP_SAME;
		break;
	case AT_CFA:
	case AT_RBP:
		row.rbp = state->rbp == AT_CFA ? GM_RBP_CFA : GM_RBP_RBP;
		if (state->rbp_offset < INT16_MIN || state->rbp_offset > INT16_MAX)
			row.kind = GM_ROW_UNKNOWN;
		row.rbp_offset = (int16_t)state->rbp_offset;
		break;
	case OTHER:
		row.kind = GM_ROW_UNKNOWN;
		break;
	}
	return row;
}

static struct gm_frame_row read_description(uint64_t address, uint64_t end, uint64_t pc)
{
	const struct gm_frame_row unknown = {.kind = GM_ROW_UNKNOWN};
	struct gm_cursor cursor = {
	        (const uint8_t *)(uintptr_t)address, (const uint8_t *)(uintptr_t)end, false};
	uint64_t length = get(&cursor, 4), common_at, begin, size;
	struct common common;
	struct state state = {.cfa_register = RSP, .cfa_offset = 8, .rip = OTHER}, initial;

	if (length == 0 || length >= 0xfffffff0 || length > (uint64_t)(cursor.end - cursor.at))
		return unknown;
	cursor.end = cursor.at + length;
	common_at = (uint64_t)(uintptr_t)cursor.at;
	common_at -= get(&cursor, 4);
	if (!read_common(common_at, end, &common))
		return unknown;
	begin = get_pointer(&cursor, common.pointer_encoding, 0);
	size = get_pointer(&cursor, common.pointer_encoding & 0x0f, 0);
	if (cursor.bad || pc < begin || pc - begin >= size)
		return unknown;
	if (common.has_augmentation) {
		uint64_t skip = gm_get_varint(&cursor);
		if (skip > (uint64_t)(cursor.end - cursor.at))
			return unknown;
		cursor.at += skip;
	}
	if (!run(common.instructions, &common, 0, UINT64_MAX, &state, &state))
		return unknown;
	initial = state;
	if (!run(cursor, &common, begin, pc, &initial, &state))
		return unknown;
	return row_of(&state, &common);
}

struct gm_frame_row gm_frame_table_row(uint64_t frame_header, uint64_t frame_header_size,
        uint64_t start, uint64_t end, uint64_t pc)
{
	const struct gm_frame_row unknown = {.kind = GM_ROW_UNKNOWN};
	struct gm_cursor cursor = {(const uint8_t *)(uintptr_t)frame_header,
	        (const uint8_t *)(uintptr_t)(frame_header + frame_header_size), false};
	uint8_t version, pointer_encoding, count_encoding, table_encoding;
	uint64_t count;
	const int32_t *table;

	(void)start;
	if (!frame_header || frame_header_size < 12)
		return unknown;
	version = (uint8_t)get(&cursor, 1);
	pointer_encoding = (uint8_t)get(&cursor, 1);
	count_encoding = (uint8_t)get(&cursor, 1);
	table_encoding = (uint8_t)get(&cursor, 1);
	get_pointer(&cursor, pointer_encoding, frame_header);
	count = get_pointer(&cursor, count_encoding, frame_header);
	/* all linkers write the table this way: pairs of beginning and description, both relative
	 * to the header */
	if (version != 1 || table_encoding != (DW_EH_PE_datarel | DW_EH_PE_sdata4) || cursor.bad ||
	        !count || count > (uint64_t)(cursor.end - cursor.at) / 8)
		return unknown;
	table = (const int32_t *)(const void *)cursor.at;
	uint64_t low = 0, high = count;
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;
		if (frame_header + (uint64_t)(int64_t)table[2 * middle] <= pc)
			low = middle;
		else
			high = middle;
	}
	if (frame_header + (uint64_t)(int64_t)table[2 * low] > pc)
		return unknown;
	return read_description(frame_header + (uint64_t)(int64_t)table[2 * low + 1], end, pc);
}
