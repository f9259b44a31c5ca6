/*
 * Modules: which torch.nn.Module a block belongs to. A recording tells the classes of the modules
 * that were being called (their forward() is on the stack); the path of attributes ("layers.3.mlp",
 * as named_modules() names it) is known only where the process lives or a core of it is there, and
 * of what modules, gradients and optimizers keep: joined by address.
 */
#ifndef GM_ASK_MODULES_H
#define GM_ASK_MODULES_H

#include "holders/holders.h"
#include "log/log.h"

/* "GPT > TransformerEncoderLayer > Linear", outermost first; "" where no module was being called.
 * The caller frees it; NULL: no memory. */
char *gm_modules_of_stack(const struct gm_log *log, uint32_t python_stack);

/* "layers.3.mlp", of the module that keeps the parameter, buffer, gradient or optimizer state at an
 * address; "": of the root module. NULL in *ret_path: none does. The caller frees it. */
struct gm_error *gm_module_of_address(
        struct gm_holders *holders, uint64_t address, char **ret_path);

#endif
