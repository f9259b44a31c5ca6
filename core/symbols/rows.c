#include "symbols/rows.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocation.h"
#include "base/array.h"

enum {
	ROWS_FIRST = 4096,
	ROWS_MAX =
	        1
	        << 20, /* then the table starts again: a hostile stack must not use up the memory */
	OPS_MAX = 256,
};

static const uint8_t saved_registers[GM_SAVED_COUNT] = {
        GM_RIP, GM_RBX, GM_RBP, GM_R12, GM_R13, GM_R14, GM_R15};

static void free_full(struct gm_full_row *full)
{
	free(full->cfa.ops);
	for (size_t i = 0; i < GM_REGISTER_COUNT; i++)
		free(full->rules[i].ops);
}

void gm_rows_clear(struct gm_rows *rows)
{
	for (size_t i = 0; i < rows->full_count; i++)
		free_full(&rows->full[i]);
	rows->full_count = 0;
	if (rows->count > 0)
		memset(rows->slots, 0, rows->capacity * sizeof(*rows->slots));
	rows->count = 0;
}

void gm_rows_deinit(struct gm_rows *rows)
{
	gm_rows_clear(rows);
	free(rows->full);
	free(rows->slots);
	*rows = (struct gm_rows){0};
}

static struct gm_row *free_slot(struct gm_row *slots, size_t capacity, uint64_t address)
{
	size_t mask = capacity - 1;
	size_t i = (address * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & mask;
	while (slots[i].kind != GM_ROW_EMPTY)
		i = (i + 1) & mask;
	return &slots[i];
}

static bool reserve(struct gm_rows *rows)
{
	if (rows->count * 2 < rows->capacity)
		return true;
	if (rows->capacity >= ROWS_MAX) {
		gm_rows_clear(rows);
		return true;
	}
	size_t capacity = rows->capacity ? rows->capacity * 2 : ROWS_FIRST;
	struct gm_row *slots = calloc(capacity, sizeof(*slots));
	if (!slots)
		return false;
	for (size_t i = 0; i < rows->capacity; i++) {
		if (rows->slots[i].kind != GM_ROW_EMPTY)
			*free_slot(slots, capacity, rows->slots[i].address) = rows->slots[i];
	}
	free(rows->slots);
	rows->slots = slots;
	rows->capacity = capacity;
	return true;
}

/* --- from libdw's answers --------------------------------------------------------------------- */

/* libdw gives a rule as a location: nothing (undefined, or unchanged if ops is NULL), a register,
 * or an expression for an address, which ends in DW_OP_stack_value if it is the value itself. */
static bool take_rule(const Dwarf_Op *ops, size_t count, struct gm_rule *ret_rule)
{
	struct gm_rule rule = {.kind = ops ? GM_RULE_UNDEFINED : GM_RULE_SAME};
	if (count > OPS_MAX || (count > 0 && !ops))
		return false;
	if (count == 1 && (ops[0].atom == DW_OP_regx ||
	                          (ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg31))) {
		rule.kind = GM_RULE_REGISTER;
		rule.reg = ops[0].atom == DW_OP_regx ? (uint32_t)ops[0].number
		                                     : (uint32_t)(ops[0].atom - DW_OP_reg0);
		if (rule.reg >= GM_REGISTER_COUNT)
			return false;
	} else if (count > 0) {
		rule.kind = GM_RULE_MEMORY;
		if (ops[count - 1].atom == DW_OP_stack_value) {
			rule.kind = GM_RULE_VALUE;
			count--;
		}
		rule.ops = malloc((count + 1) * sizeof(*ops));
		if (!rule.ops)
			return false;
		memcpy(rule.ops, ops, count * sizeof(*ops));
		rule.op_count = count;
	}
	*ret_rule = rule;
	return true;
}

/* "CFA + offset" in memory, which is how nearly every register is saved. */
static bool plain_offset(const Dwarf_Op *ops, size_t count, int64_t *ret_offset)
{
	if (count == 0 || count > 2 || ops[0].atom != DW_OP_call_frame_cfa)
		return false;
	if (count == 2 && ops[1].atom != DW_OP_plus_uconst)
		return false;
	*ret_offset = count == 2 ? (int64_t)ops[1].number : 0;
	return true;
}

static bool plain_saved(Dwarf_Frame *frame, unsigned saved, int16_t *ret_saved)
{
	Dwarf_Op memory[3], *ops;
	size_t count;
	int64_t offset;
	if (dwarf_frame_register(frame, saved_registers[saved], memory, &ops, &count) != 0)
		return false;
	if (count == 0 && saved != GM_SAVED_RIP) {
		*ret_saved = GM_SAVED_SAME; /* undefined ones too: nobody needs their value */
		return true;
	}
	if (!plain_offset(ops, count, &offset) || offset <= INT16_MIN || offset > INT16_MAX)
		return false;
	*ret_saved = (int16_t)offset;
	return true;
}

/* The stack pointer of the caller is the CFA, unless a rule says otherwise. */
static bool plain_stack_pointer(Dwarf_Frame *frame)
{
	Dwarf_Op memory[3], *ops;
	size_t count;
	if (dwarf_frame_register(frame, GM_RSP, memory, &ops, &count) != 0)
		return false;
	return count == 0 || (count == 2 && ops[0].atom == DW_OP_call_frame_cfa &&
	                             ops[1].atom == DW_OP_stack_value);
}

static bool take_plain(Dwarf_Frame *frame, struct gm_row *row)
{
	Dwarf_Op *ops;
	size_t count;
	if (dwarf_frame_cfa(frame, &ops, &count) != 0 || count != 1)
		return false;
	int64_t offset;
	uint64_t reg;
	if (ops[0].atom == DW_OP_bregx) {
		reg = ops[0].number;
		offset = (int64_t)ops[0].number2;
	} else if (ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31) {
		reg = (uint64_t)(ops[0].atom - DW_OP_breg0);
		offset = (int64_t)ops[0].number;
	} else {
		return false;
	}
	if (reg >= GM_REGISTER_COUNT || offset < INT32_MIN || offset > INT32_MAX ||
	        !plain_stack_pointer(frame))
		return false;
	for (unsigned i = 0; i < GM_SAVED_COUNT; i++) {
		if (!plain_saved(frame, i, &row->saved[i]))
			return false;
	}
	row->kind = GM_ROW_PLAIN;
	row->cfa_register = (uint8_t)reg;
	row->offset = (int32_t)offset;
	return true;
}

static bool take_full(struct gm_rows *rows, Dwarf_Frame *frame, bool signal, struct gm_row *row)
{
	Dwarf_Op memory[3], *ops;
	size_t count;
	struct gm_full_row full = {.signal = signal};
	if (rows->full_count >= INT32_MAX ||
	        !gm_array_grow((void **)&rows->full, &rows->full_capacity, rows->full_count, 1,
	                sizeof(*rows->full)))
		return false;
	if (dwarf_frame_cfa(frame, &ops, &count) != 0 || count == 0 ||
	        !take_rule(ops, count, &full.cfa) || full.cfa.kind < GM_RULE_MEMORY)
		goto failed;
	full.cfa.kind =
	        GM_RULE_VALUE; /* the CFA is the result of the expression, not the memory at it */
	for (int i = 0; i < GM_REGISTER_COUNT; i++) {
		if (dwarf_frame_register(frame, i, memory, &ops, &count) != 0 ||
		        !take_rule(ops, count, &full.rules[i]))
			goto failed;
	}
	if (full.rules[GM_RIP].kind == GM_RULE_UNDEFINED)
		goto failed; /* the outermost frame */
	row->kind = GM_ROW_FULL;
	row->offset = (int32_t)rows->full_count;
	rows->full[rows->full_count++] = full;
	return true;
failed:
	free_full(&full);
	return false;
}

const struct gm_row *gm_rows_add(
        struct gm_rows *rows, uint64_t address, Dwarf_CFI *cfi, uint64_t bias)
{
	if (!reserve(rows))
		return NULL;
	struct gm_row row = {.address = address, .kind = GM_ROW_STOP};
	Dwarf_Frame *frame = NULL;
	bool signal = false;
	gm_allocation_watch();
	if (cfi && dwarf_cfi_addrframe(cfi, address - bias, &frame) == 0) {
		int return_register = dwarf_frame_info(frame, NULL, NULL, &signal);
		if (return_register == GM_RIP && (signal || !take_plain(frame, &row)))
			take_full(rows, frame, signal, &row);
		free(frame);
	}
	gm_allocation_watched();
	struct gm_row *slot = free_slot(rows->slots, rows->capacity, address);
	*slot = row;
	rows->count++;
	return slot;
}
