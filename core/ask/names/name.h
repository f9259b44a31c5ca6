/* A tensor's name at a moment of a process. */
#ifndef GM_ASK_NAMES_NAME_H
#define GM_ASK_NAMES_NAME_H

#include "log/log.h"

struct gm_tensor_name {
	enum gm_named_kind kind;
	uint8_t device_type;
	int16_t device;
	uint64_t address;      /* of the storage's memory */
	uint64_t offset, size; /* bytes of the tensor in it */
	char *name;            /* "layers.3.weight", "exp_avg of layers.3.weight"; owned */
};

enum { GM_TENSOR_NAMES_MAX = 1 << 18 };

#endif
