/* What the name of a native function says: the operator, the autograd node or the collective that
 * it is of. */
#ifndef GM_MODEL_NATIVE_NAMES_H
#define GM_MODEL_NATIVE_NAMES_H

#include <stdbool.h>

enum { GM_NATIVE_NAME_MAX = 64 }; /* bytes with the NUL; a longer name is cut */

/* "at::_ops::addmm::call(...)": "addmm" */
bool gm_native_operator(const char *function, char ret_name[GM_NATIVE_NAME_MAX]);
/* "torch::autograd::generated::MmBackward0::apply(...)": "MmBackward0" */
bool gm_native_node(const char *function, char ret_name[GM_NATIVE_NAME_MAX]);
/* "c10d::ProcessGroupNCCL::allreduce(...)": "allreduce"; "c10d::Reducer::rebuild_buckets()" */
bool gm_native_collective(const char *function, char ret_name[GM_NATIVE_NAME_MAX]);
/* Does the file of Python code have torch.distributed's collectives? */
bool gm_file_is_collectives(const char *file);

#endif
