/* What the entries of a trace look like, learned from those that were read. */
#ifndef GM_IMPORT_SCHEMA_LEARN_H
#define GM_IMPORT_SCHEMA_LEARN_H

#include "import/pickle.h"

/* Looks at the entry that the opcodes have just read; `start`: where it begins in the buffer. */
void gm_schema_learn(struct gm_pickle *pickle, size_t start);

#endif
