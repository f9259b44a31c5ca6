/* What tensors in blocks were called, at moments at which names were read (`gpumem run --names`).
 */
#ifndef GM_MODEL_BLOCK_NAMES_H
#define GM_MODEL_BLOCK_NAMES_H

#include "base/array.h"
#include "log/log.h"

enum { GM_BLOCK_NAMES_FEW = 8 };
struct gm_block_name {
	const char *name; /* "layers.0.weight"; the log's */
	enum gm_named_kind kind;
	uint64_t offset, size; /* bytes of the tensor in the block */
};

/* All names of one block. Made in place: `items` may be `few`. */
struct gm_all_names {
	struct gm_block_name few[GM_BLOCK_NAMES_FEW], *many;
	const struct gm_block_name *items;
	size_t count;
};

/* A name of the log's that is a block's. */
struct gm_named_block {
	uint32_t block;
	uint32_t order; /* in which names were taken in */
	uint32_t name;  /* index in the log */
};

struct gm_block_names {
	GM_ARRAY(struct gm_named_block) items; /* by block, then by order */
	size_t taken;                          /* of the log's */
	uint64_t next; /* the event before which the next one was read; UINT64_MAX: none */
};

/* The block that was allocated at the name's address and has room for the tensor; UINT32_MAX: none.
 */
typedef uint32_t gm_find_named(void *context, const struct gm_log_name *name);
/* Takes in names of moments before the event with this number. False: no memory. */
bool gm_block_names_take(struct gm_block_names *names, const struct gm_log *log, uint64_t number,
        gm_find_named *find, void *context);
void gm_block_names_sort(struct gm_block_names *names);
/* As gm_model_names(). */
size_t gm_block_names_of(const struct gm_block_names *names, const struct gm_log *log, size_t block,
        struct gm_block_name *ret_names, size_t max);

#endif
