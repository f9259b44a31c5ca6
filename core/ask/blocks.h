/* blocks and peak: what was allocated after an event, and in which groups; what lived at an
 * address. */
#ifndef GM_ASK_BLOCKS_H
#define GM_ASK_BLOCKS_H

#include <string.h>

#include "ask/context.h"
#include "model/categories.h"
#include "model/model.h"

enum gm_group_by {
	GM_BY_NONE,
	GM_BY_LINE,
	GM_BY_STACK,
	GM_BY_PHASE,
	GM_BY_CATEGORY,
	GM_BY_OPERATOR, /* PyTorch's, as native stacks name it */
	GM_BY_MODULE,   /* ask/target/modules.h */
	GM_BY_LABEL,    /* of torch.cuda.memory._annotate_tensor() */
	GM_BY_SHAPE, /* and dtype: of a recording that has them; of a process or core those of live
	                tensors */
	GM_BY_DTYPE,
};

enum gm_blocks_order {
	GM_BIGGEST_FIRST,
	GM_OLDEST_FIRST,
	GM_BY_ADDRESS,
};

struct gm_condition; /* model/condition.h */

struct gm_blocks_options {
	enum gm_group_by by;
	bool at_peak;
	/* By line, and where each block is told: below lines that a library works under, by the
	 * library's lines (driven.h) */
	bool descend;
	bool descend_everywhere;          /* not only below lines that hold much */
	bool tree;                        /* the call tree too (tree.h) */
	bool has_device;                  /* else the main one */
	uint64_t device;                  /* the CUDA device's index */
	bool of_event;                    /* else that of `event`, of whatever type */
	const struct gm_condition *where; /* NULL: all blocks */
	enum gm_blocks_order order;
	uint64_t top; /* how many blocks or groups are shown, 0: all; sums are of all */
	bool has_event;
	uint64_t event; /* after this one; without has_event and at_peak: after the last */
};

struct gm_block_note;
struct gm_driven;
struct gm_tree;
struct gm_shown_site;

/* Whether a group has a name, or its blocks are together because they have none. */
enum gm_group_kind {
	GM_GROUP_NAMED,
	GM_GROUP_BEFORE_RECORDING, /* allocated before the recording began */
	GM_GROUP_NO_LABEL,
	GM_GROUP_NO_TENSOR,      /* the recording has no tensor for them */
	GM_GROUP_NO_LIVE_TENSOR, /* of a process or core */
	GM_GROUP_NO_OPERATOR,
	GM_GROUP_NO_FORWARD,  /* allocated in no module's forward() */
	GM_GROUP_NO_MODULE,   /* kept by no module */
	GM_GROUP_ROOT_MODULE, /* kept by the module that is an attribute of none */
};

struct gm_group {
	enum gm_group_kind kind;
	char *key; /* owned; "train.py:7 in train", "unknown"; "" of a group that is not NAMED */
	uint64_t bytes, blocks;
	struct gm_shown_site *site; /* by line, of a group that is at one; NULL: of none; owned */
};

/* By key, as strcmp(); groups without a name come last. */
static inline int gm_group_compare(
        enum gm_group_kind kind, const char *key, enum gm_group_kind other_kind, const char *other)
{
	return kind != other_kind ? (kind < other_kind ? -1 : 1) : strcmp(key, other);
}

struct gm_blocks {
	const struct gm_model *model;
	size_t device;  /* of the model; SIZE_MAX: no events at all */
	uint32_t event; /* GM_NO_EVENT: none */
	uint64_t allocated;
	/* With a condition: of the live blocks those of which it holds. Groups and sums are of
	 * these alone; `allocated` is not. */
	bool filtered;
	uint64_t matched; /* bytes */
	size_t total_count;
	uint64_t unknown_bytes; /* of which the recording does not have what the condition needs */
	size_t unknown_count;
	size_t top;     /* as in the options */
	uint32_t *live; /* indices of blocks, in the order asked for; owned */
	size_t live_count;
	struct gm_block_note
	        *notes; /* one per live block, by gm_ask_blocks_annotate(); NULL: none; owned */
	struct gm_group
	        *groups; /* biggest first; their bytes add up to allocated, or to matched; owned */
	size_t group_count;
	enum gm_group_by by;
	struct gm_tree *tree;     /* with `tree` asked for, else NULL; owned */
	struct gm_driven *driven; /* NULL: no line is descended from; owned */
	uint64_t by_phase[GM_PHASE_COUNT];
	uint64_t by_category[GM_CATEGORY_COUNT];
	uint64_t by_named_kind[GM_NAMED_COUNT]; /* of blocks with names, by the first one's */
	const struct gm_categories *categories; /* the model's */
	uint64_t unattributed; /* allocated before the record: in no block, but in `allocated` */
};

/* GM_USAGE: no such event or device. GM_TARGET: the shapes and dtypes that are asked for were not
 * recorded. */
struct gm_error *gm_ask_blocks(struct gm_context *context, const struct gm_blocks_options *options,
        struct gm_blocks *ret_blocks);
/* Adds what live tensors tell of the blocks, where the recorded process is there to be asked and
 * the blocks are those of now; does nothing else. */
struct gm_error *gm_ask_blocks_annotate(struct gm_context *context, struct gm_blocks *blocks);
void gm_blocks_deinit(struct gm_blocks *blocks);
/* Puts the live blocks of an answer into groups: by all but module; by category only with
 * categories. */
struct gm_error *gm_blocks_group(struct gm_blocks *blocks, enum gm_group_by by);

/* "float32 [512, 1024]": the key of a group by shape, of a recording and of a process. The caller
 * frees it; NULL: no memory. */
char *gm_shape_key(const char *dtype, const int64_t *sizes, uint32_t count);

/* The lives at an address, in order: blocks that contain it. The caller frees the array. */
struct gm_error *gm_ask_history(struct gm_context *context, uint64_t address,
        const struct gm_model **ret_model, uint32_t **ret_blocks, size_t *ret_count);

/*
 * BLOCK as typed: an address (the latest block there, or the one alive after `event`), or #N. Of a
 * recording alone also FILE:LINE or the name of a variable (ask/recording/named.h): *ret_count
 * blocks are meant, of which one is returned. GM_USAGE where there is none so named.
 */
struct gm_error *gm_ask_block(struct gm_context *context, const char *text, bool has_event,
        uint64_t event, uint32_t *ret_block, size_t *ret_count);

/* The model's number of the accelerator with this index, as --device names it. GM_USAGE: the
 * recording has none. */
struct gm_error *gm_blocks_find_device(
        const struct gm_model *model, uint64_t index, size_t *ret_device);
/* The same of the context's log; -1, which is none: SIZE_MAX, as for the main device. */
struct gm_error *gm_ask_device(struct gm_context *context, int index, size_t *ret_device);

#endif
