/* How Python's objects of a sharding are read: attributes, numbers, tensors. No code runs there. */
#ifndef GM_ASK_ZERO_READING_H
#define GM_ASK_ZERO_READING_H

#include "ask/zero/facts.h"
#include "base/array.h"
#include "base/map.h"
#include "cpython/cpython.h"

enum { GM_ZERO_OBJECTS_MAX = 1 << 20 }; /* of one kind; parameters of one sharding */

/* Objects of one class, in the order in which the collector has them. */
struct gm_zero_objects {
	uint64_t *items;
	size_t count, capacity;
};

struct gm_zero_reading {
	struct gm_python *python;
	struct gm_torch *torch;
	struct gm_zero_objects redundancy, deepspeed, deepspeed3, deepspeed_bf16, fsdp1, fsdp2, ddp,
	        modules;
	struct gm_zero_objects optimizers;         /* ordinary ones */
	struct gm_zero_objects of_fsdp1, of_fsdp2; /* those of them that have its parameters */
	struct gm_map flat_objects; /* parameters of FSDP1 -> its unit's number in fsdp1, from 1 */
	bool no_memory;
};

struct gm_zero_attribute {
	const char *name;
	uint64_t object; /* 0: it has none */
};

/* Fills in the objects of attributes; the others stay 0. */
void gm_zero_attributes(struct gm_zero_reading *reading, uint64_t object,
        struct gm_zero_attribute *attributes, size_t count);
/* The same for a dict's entries with keys of text. */
void gm_zero_entries(struct gm_zero_reading *reading, uint64_t dict,
        struct gm_zero_attribute *attributes, size_t count);
/* A list's or a tuple's. Stops where `visit` returns false. */
typedef bool (*gm_zero_visit)(void *context, uint64_t item, uint64_t index);
void gm_zero_items(
        struct gm_zero_reading *reading, uint64_t list, gm_zero_visit visit, void *context);
/* A dict's values with their keys. `name`: of a key that is text; else NULL. */
typedef bool (*gm_zero_visit_pair)(void *context, uint64_t key, uint64_t value, const char *name);
void gm_zero_pairs(
        struct gm_zero_reading *reading, uint64_t dict, gm_zero_visit_pair visit, void *context);

bool gm_zero_number(struct gm_zero_reading *reading, uint64_t object, uint32_t *ret_number);
/* The tensor behind a Python object, of a DTensor this rank's part; false: it is none, or its size
 * is absurd. */
bool gm_zero_tensor(struct gm_zero_reading *reading, uint64_t object, struct gm_tensor *ret_tensor);
/* The same, of a DTensor itself. */
bool gm_zero_whole_tensor(
        struct gm_zero_reading *reading, uint64_t object, struct gm_tensor *ret_tensor);
/* Gives a tensor the shape that a tuple of sizes tells. False: it is none, or absurd. */
bool gm_zero_shape(struct gm_zero_reading *reading, uint64_t object, struct gm_tensor *tensor);
bool gm_zero_plausible(const struct gm_tensor *tensor);
/* Bytes of its elements. */
uint64_t gm_zero_tensor_bytes(const struct gm_tensor *tensor);
/* A copy of the name of its class; NULL. */
char *gm_zero_class(struct gm_zero_reading *reading, uint64_t object);

#endif
