/* The machine's opcodes: opcodes.c. Internal to core/import. */
#ifndef GM_IMPORT_OPCODES_H
#define GM_IMPORT_OPCODES_H

#include "import/pickle.h"

/* Reads a file of which no byte has been taken yet, up to its last opcode. */
struct gm_error *gm_pickle_read_opcodes(struct gm_pickle *pickle);

#endif
