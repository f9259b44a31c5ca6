/* DWARF expressions, as call frame information has them: for PLT entries and signal frames. */
#ifndef GM_SYMBOLS_EXPRESSION_H
#define GM_SYMBOLS_EXPRESSION_H

#include <elfutils/libdw.h>

#include "image/image.h"

/* Loads one word of the target's memory. */
typedef bool (*gm_load)(void *context, uint64_t address, uint64_t *ret_value);

/* False: an operation that has no place here, a load that failed, or a stack over- or underrun. */
bool gm_expression_evaluate(const Dwarf_Op *ops, size_t count, const struct gm_registers *registers,
        uint64_t cfa, gm_load load, void *context, uint64_t *ret_value);

#endif
