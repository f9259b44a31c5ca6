/* What the names of a native stack say of an allocation; each stack is looked at once. Internal to
 * core/ask. */
#ifndef GM_ASK_ADVISE_SIGNS_H
#define GM_ASK_ADVISE_SIGNS_H

#include "base/array.h"
#include "log/log.h"

enum gm_advise_sign {
	GM_SIGN_LOOKED_AT = 1,
	GM_SIGN_LOSS = 2,    /* a loss over classes */
	GM_SIGN_SOFTMAX = 4, /* the program called a softmax */
	GM_SIGN_MATMUL = 8,  /* it called a multiplication of matrices */
	GM_SIGN_COPIES = 16, /* within that call a tensor is copied */
	GM_SIGN_FOLLOWS =
	        32, /* the result has the dtype of what it is computed of, element by element */
	GM_SIGN_NORM = 64, /* a normalization of each sample */
};
struct gm_advise_signs {
	GM_ARRAY(uint8_t) items; /* by native stack */
};

/* 0: no memory. */
uint8_t gm_advise_signs_of(
        struct gm_advise_signs *signs, const struct gm_log *log, uint32_t native_stack);

#endif
