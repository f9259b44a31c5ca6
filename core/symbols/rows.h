/*
 * Call frame rows: what the call frame information of a file says about one address, in the form
 * the unwinder wants it. libdw needs tens of microseconds to calculate a row from .eh_frame, so
 * each is cached, in an open-addressing table keyed by the address in the image.
 *
 * Nearly all rows are of one plain form (the canonical frame address, CFA, is a register plus an
 * offset; caller's registers lie at fixed offsets from it), which fits 32 bytes: two rows a cache
 * line. PLT entries and signal frames are not; they have a full row beside, with expressions.
 */
#ifndef GM_SYMBOLS_ROWS_H
#define GM_SYMBOLS_ROWS_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/image.h"

enum gm_row_kind {
	GM_ROW_EMPTY = 0, /* slot not used */
	GM_ROW_PLAIN,
	GM_ROW_FULL, /* in full[offset] */
	GM_ROW_STOP, /* outermost frame, or nothing known here: the walk ends */
};

/* The registers that a plain row may restore; the order of gm_row.saved. */
enum {
	GM_SAVED_RIP,
	GM_SAVED_RBX,
	GM_SAVED_RBP,
	GM_SAVED_R12,
	GM_SAVED_R13,
	GM_SAVED_R14,
	GM_SAVED_R15,
	GM_SAVED_COUNT
};
enum { GM_SAVED_SAME = INT16_MIN }; /* the register still has the caller's value */

struct gm_row {
	uint64_t address;
	int32_t offset;                /* plain: CFA = register + offset; full: index */
	uint8_t cfa_register;          /* plain */
	uint8_t kind;                  /* enum gm_row_kind */
	int16_t saved[GM_SAVED_COUNT]; /* plain: at CFA + saved[i], or GM_SAVED_SAME */
	uint32_t unused;
};
_Static_assert(sizeof(struct gm_row) == 32, "two rows a cache line");

enum gm_rule_kind {
	GM_RULE_SAME,
	GM_RULE_UNDEFINED,
	GM_RULE_MEMORY,
	GM_RULE_VALUE,
	GM_RULE_REGISTER
};

/* How the caller's value of one register comes about. MEMORY and VALUE evaluate the expression. */
struct gm_rule {
	enum gm_rule_kind kind;
	uint32_t reg;
	Dwarf_Op *ops; /* owned */
	size_t op_count;
};

struct gm_full_row {
	bool signal;        /* the caller was interrupted, not calling */
	struct gm_rule cfa; /* VALUE */
	struct gm_rule rules[GM_REGISTER_COUNT];
};

struct gm_rows {
	struct gm_row *slots;
	size_t capacity; /* a power of two, or 0 */
	size_t count;
	struct gm_full_row *full;
	size_t full_count, full_capacity;
};

void gm_rows_clear(struct gm_rows *rows);
void gm_rows_deinit(struct gm_rows *rows);

/* The kept row of an address; NULL: none. */
static inline const struct gm_row *gm_rows_find(const struct gm_rows *rows, uint64_t address)
{
	if (rows->capacity == 0)
		return NULL;
	size_t mask = rows->capacity - 1;
	for (size_t i = (address * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & mask;;
	        i = (i + 1) & mask) {
		if (rows->slots[i].kind == GM_ROW_EMPTY)
			return NULL;
		if (rows->slots[i].address == address)
			return &rows->slots[i];
	}
}

/*
 * Works the row of `address` out from `cfi` (NULL: nothing known), where it is at `address - bias`,
 * and keeps it. NULL: no memory. The pointer holds until the next call.
 */
const struct gm_row *gm_rows_add(
        struct gm_rows *rows, uint64_t address, Dwarf_CFI *cfi, uint64_t bias);

#endif
