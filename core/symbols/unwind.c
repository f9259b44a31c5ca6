/*
 * Native call stacks by call frame information, with the target's memory read from outside.
 *
 * This is the hot path of a recorder: for each frame one look-up in the table of rows and a few
 * loads from a window of the stack that was read in one system call. Frames whose code has no call
 * frame information (code generated at run time) end the walk.
 */
#include <string.h>

#include "symbols/expression.h"
#include "symbols/internal.h"

enum { WINDOW = 16 << 10 };

/* Part of the target's stack, read in bulk. */
struct window {
	struct gm_image *image;
	uint64_t start, size; /* size 0: nothing yet */
	_Alignas(8) uint8_t bytes[WINDOW];
};

static bool load(void *context, uint64_t address, uint64_t *ret_value)
{
	struct window *window = context;
	uint64_t offset = address - window->start;
	if (offset >= window->size || window->size - offset < 8) {
		window->start = address;
		window->size = gm_image_read_some(window->image, address, window->bytes, WINDOW);
		if (window->size < 8) {
			window->size = 0;
			return false;
		}
		offset = 0;
	}
	memcpy(ret_value, window->bytes + offset, 8);
	return true;
}

/* In the order of struct gm_row's `saved`. */
static const uint8_t saved_registers[GM_SAVED_COUNT] = {
        GM_RIP, GM_RBX, GM_RBP, GM_R12, GM_R13, GM_R14, GM_R15};

static bool step_plain(
        const struct gm_row *row, struct gm_registers *registers, struct window *window)
{
	uint64_t cfa = registers->value[row->cfa_register] + (uint64_t)(int64_t)row->offset;
	/* A caller's frame is above: otherwise the stack is damaged and the walk could be endless.
	 * */
	if (cfa <= registers->value[GM_RSP])
		return false;
	for (unsigned i = 0; i < GM_SAVED_COUNT; i++) {
		if (row->saved[i] != GM_SAVED_SAME &&
		        !load(window, cfa + (uint64_t)(int64_t)row->saved[i],
		                &registers->value[saved_registers[i]]))
			return false;
	}
	registers->value[GM_RSP] = cfa;
	return true;
}

static bool apply_rule(const struct gm_rule *rule, unsigned number, uint64_t cfa,
        const struct gm_registers *before, struct window *window, uint64_t *ret_value)
{
	switch (rule->kind) {
	case GM_RULE_SAME:
	case GM_RULE_UNDEFINED:
		*ret_value = before->value[number];
		return true;
	case GM_RULE_REGISTER:
		*ret_value = before->value[rule->reg];
		return true;
	case GM_RULE_VALUE:
		return gm_expression_evaluate(
		        rule->ops, rule->op_count, before, cfa, load, window, ret_value);
	case GM_RULE_MEMORY:
		return gm_expression_evaluate(
		               rule->ops, rule->op_count, before, cfa, load, window, ret_value) &&
		       load(window, *ret_value, ret_value);
	}
	return false;
}

static bool step_full(
        const struct gm_full_row *row, struct gm_registers *registers, struct window *window)
{
	const struct gm_registers before = *registers;
	uint64_t cfa;
	if (!gm_expression_evaluate(
	            row->cfa.ops, row->cfa.op_count, &before, 0, load, window, &cfa))
		return false;
	/* A signal's frame may be on another stack than the frame that it interrupted. */
	if (!row->signal && cfa <= before.value[GM_RSP])
		return false;
	for (unsigned i = 0; i < GM_REGISTER_COUNT; i++) {
		if (!apply_rule(&row->rules[i], i, cfa, &before, window, &registers->value[i]))
			return false;
	}
	enum gm_rule_kind stack = row->rules[GM_RSP].kind;
	if (stack == GM_RULE_SAME || stack == GM_RULE_UNDEFINED)
		registers->value[GM_RSP] = cfa;
	return true;
}

static const struct gm_row *add_row(struct gm_symbols *symbols, uint64_t address)
{
	const struct gm_module *module = gm_symbols_module_at(symbols, address);
	struct gm_elf *file = module ? gm_symbols_file(symbols, module) : NULL;
	return gm_rows_add(
	        &symbols->rows, address, file ? gm_elf_cfi(file) : NULL, module ? module->bias : 0);
}

/* The call frame information of an address; NULL: out of memory. */
static const struct gm_row *find_row(struct gm_symbols *symbols, uint64_t address)
{
	const struct gm_row *row = gm_rows_find(&symbols->rows, address);
	return row ? row : add_row(symbols, address);
}

/* From a frame to its caller. `ret_exact`: the caller was interrupted, so its address is not a
 * return address. */
static bool step(struct gm_symbols *symbols, const struct gm_row *row,
        struct gm_registers *registers, struct window *window, bool *ret_exact)
{
	*ret_exact = false;
	if (row->kind == GM_ROW_PLAIN)
		return step_plain(row, registers, window);
	const struct gm_full_row *full = &symbols->rows.full[row->offset];
	*ret_exact = full->signal;
	return step_full(full, registers, window);
}

size_t gm_symbols_unwind_frames(struct gm_symbols *symbols, const struct gm_registers *registers,
        uint64_t *ret_addresses, uint64_t *ret_pointers, size_t max, bool *ret_whole)
{
	struct gm_registers now = *registers;
	struct window window;
	window.image = symbols->image;
	window.size = window.start = 0;
	/* The innermost address is the current instruction. Return addresses are looked up one byte
	 * before: after a call that never returns, they are in the next function. */
	bool exact = true;
	size_t count = 0;
	bool whole = false;
	while (count < max && !(whole = now.value[GM_RIP] == 0)) {
		if (ret_pointers)
			ret_pointers[count] = now.value[GM_RSP];
		ret_addresses[count++] = now.value[GM_RIP];
		uint64_t address = now.value[GM_RIP] - !exact;
		const struct gm_row *row = find_row(symbols, address);
		whole = row && row->kind == GM_ROW_STOP && gm_symbols_module_at(symbols, address);
		if (!row || row->kind == GM_ROW_STOP || !step(symbols, row, &now, &window, &exact))
			break;
	}
	if (ret_whole)
		*ret_whole = whole;
	return count;
}

/* The register that the frame saved at that address, an index into `saved`; GM_SAVED_COUNT: none.
 */
static unsigned saved_at(
        const struct gm_row *row, const struct gm_registers *registers, uint64_t address)
{
	unsigned i = 1; /* 0 is the return address */
	if (row->kind != GM_ROW_PLAIN)
		return GM_SAVED_COUNT;
	uint64_t cfa = registers->value[row->cfa_register] + (uint64_t)(int64_t)row->offset;
	while (i < GM_SAVED_COUNT && (row->saved[i] == GM_SAVED_SAME ||
	                                     cfa + (uint64_t)(int64_t)row->saved[i] != address))
		i++;
	return i;
}

size_t gm_symbols_saver(struct gm_symbols *symbols, const struct gm_registers *registers,
        uint64_t address, size_t max)
{
	struct gm_registers now = *registers;
	struct window window;
	window.image = symbols->image;
	window.size = window.start = 0;
	bool exact = true;
	unsigned saved = GM_SAVED_COUNT;
	for (size_t i = 0; i < max; i++) {
		const struct gm_row *row = find_row(symbols, now.value[GM_RIP] - !exact);
		if (!row || row->kind == GM_ROW_STOP)
			return saved < GM_SAVED_COUNT ? i : max;
		if (saved < GM_SAVED_COUNT &&
		        (row->kind != GM_ROW_PLAIN || row->saved[saved] != GM_SAVED_SAME))
			return i;
		if (saved == GM_SAVED_COUNT)
			saved = saved_at(row, &now, address);
		if (!step(symbols, row, &now, &window, &exact))
			return max;
	}
	return max;
}

bool gm_symbols_caller(struct gm_symbols *symbols, const struct gm_registers *registers, bool exact,
        struct gm_registers *ret_registers)
{
	struct gm_registers now = *registers;
	struct window window;
	window.image = symbols->image;
	window.size = window.start = 0;
	const struct gm_row *row = find_row(symbols, now.value[GM_RIP] - !exact);
	if (!row || row->kind == GM_ROW_STOP || !step(symbols, row, &now, &window, &exact))
		return false;
	*ret_registers = now;
	return true;
}

size_t gm_symbols_unwind(struct gm_symbols *symbols, const struct gm_registers *registers,
        uint64_t *ret_addresses, size_t max)
{
	return gm_symbols_unwind_frames(symbols, registers, ret_addresses, NULL, max, NULL);
}
