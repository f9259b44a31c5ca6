/*
 * Import: a PyTorch memory snapshot (torch.cuda.memory._dump_snapshot) read into the form of a log.
 *
 * A snapshot is a Python pickle, or JSON made of the same. It is read by a machine of our own that
 * knows only the opcodes of plain data: nothing in the file is executed, and what would be (GLOBAL,
 * REDUCE, ...) is refused by name and offset. Values shared in the file stay shared, so memory is
 * proportional to the file whatever it says.
 *
 * This room may include base and log. It answers no question: what it writes is a log like any
 * other.
 */
#ifndef GM_IMPORT_IMPORT_H
#define GM_IMPORT_IMPORT_H

#include <stdbool.h>

#include "base/error.h"

struct gm_log;

/* Does the file begin as a pickle or JSON does? False too where it cannot be read: opening it as a
 * log says why. */
bool gm_import_is_snapshot(const char *path);

/*
 * Reads a snapshot into a log without a file, whose path reads as `path`. GM_CORRUPT with file,
 * offset and reason where it is no snapshot, is cut, or says what cannot be.
 */
struct gm_error *gm_import_snapshot(const char *path, struct gm_log **ret_log);

/* The same, and a pickle opcode by opcode, with nothing learned from its entries: what tests
 * compare the other with. */
struct gm_error *gm_import_snapshot_plainly(const char *path, struct gm_log **ret_log);

#endif
