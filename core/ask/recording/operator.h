/* Operators: which of PyTorch's operators asked for memory, as the names of the native stack's
 * functions tell. */
#ifndef GM_ASK_OPERATOR_H
#define GM_ASK_OPERATOR_H

#include <stddef.h>

#include "log/log.h"
#include "model/native_names.h"

enum { GM_OPERATOR_MAX = GM_NATIVE_NAME_MAX };

/* The outermost operator of a native stack ("embedding_dense_backward"), as the program or autograd
 * called it; false: the stack has none, or no names. A name that is longer is cut. */
bool gm_operator_of(const struct gm_log *log, uint32_t native_stack, char name[GM_OPERATOR_MAX]);
/* The class of the autograd node whose backward a native stack is in ("MmBackward0",
 * "AccumulateGrad"), the innermost one; false: the stack is in none, or has no names. */
bool gm_node_of(const struct gm_log *log, uint32_t native_stack, char name[GM_OPERATOR_MAX]);
/* Is the allocation part of a loss over classes: the operator cross_entropy_loss or nll_loss, or
 * where no operators are known a Python function of that name? */
bool gm_operator_is_loss(const struct gm_log *log, const struct gm_event *event);

#endif
