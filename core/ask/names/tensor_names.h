/*
 * The names of tensors at a moment of a process: parameters, buffers and gradients by the path
 * of their module, as named_parameters() has it, what optimizers keep for them, and what other
 * attributes of modules hold. No code runs there.
 */
#ifndef GM_ASK_TENSOR_NAMES_H
#define GM_ASK_TENSOR_NAMES_H

#include "ask/context.h"
#include "ask/names/name.h"
#include "ask/target/pause.h"

struct gm_tensor_names {
	struct gm_tensor_name *items;
	size_t count;
	uint64_t omitted;  /* with a name that is too long, or beyond the most */
	uint64_t sequence; /* the word at the address that was asked for; 0: none was */
	struct gm_pause pause;
};

/*
 * word_at: the address of a word that is read at the same moment; 0: none. `stopped` (may be NULL)
 * is called when the process need not wait any more but for what has stopped it.
 */
struct gm_error *gm_ask_tensor_names(struct gm_context *context, uint64_t word_at,
        void (*stopped)(void *input), void *input, struct gm_tensor_names *ret_names);
void gm_tensor_names_deinit(struct gm_tensor_names *names);

#endif
