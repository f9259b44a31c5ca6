/* Reads a snapshot's file, a pickle or JSON, into values. */
#ifndef GM_IMPORT_PICKLE_READ_H
#define GM_IMPORT_PICKLE_READ_H

#include "import/pickle.h"

/* Reads the whole file, `plainly` opcode by opcode; *ret_root is what it says. */
struct gm_error *gm_pickle_read(
        struct gm_pickle *pickle, const char *path, bool plainly, gm_value *ret_root);

#endif
