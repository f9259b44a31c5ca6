/* How names of tensors are gathered: a walk over modules and optimizers (tensor_names.h). */
#ifndef GM_ASK_NAMES_WALK_H
#define GM_ASK_NAMES_WALK_H

#include "ask/names/name.h"
#include "ask/zero/reading.h"
#include "base/array.h"
#include "base/map.h"

/* A tensor in progress. Its name is made of three: "PREFIX.PATH", "KEY of PREFIX.PATH". */
struct gm_found_name {
	struct gm_tensor_name tensor; /* without its name */
	char *path;                   /* below its root; owned */
	char *key;                    /* of optimizer state; NULL; owned */
	uint32_t root;                /* index of gm_name_walk.roots; UINT32_MAX: of none */
	uint64_t object;              /* of a parameter: Python's; else 0 */
};

/* A module that no other one has. */
struct gm_name_root {
	uint64_t module;
	size_t parameters;
	bool named;   /* something below it has a name */
	bool trained; /* an optimizer has a parameter of it */
	char *prefix; /* "generator"; NULL: what is below is told without; owned */
};

/* What of a parameter is in a flat copy of many, which an optimizer has in their place. */
struct gm_name_fragment {
	uint64_t storage, start; /* StorageImpl; element of it */
	uint64_t count;          /* elements */
	uint64_t parameter;      /* number in `found`, from 1 */
};

struct gm_name_walk {
	struct gm_zero_reading *reading;
	GM_ARRAY(struct gm_found_name) found;
	GM_ARRAY(struct gm_name_root) roots;
	GM_ARRAY(struct gm_name_fragment) fragments;
	struct gm_map modules; /* that were visited */
	struct gm_map objects; /* parameters, as Python's objects: index in `found`, plus 1 */
	struct gm_map tensors; /* of which one has a name */
	char path[GM_LOG_NAME_MAX + 1];
	size_t length; /* of the path */
	uint32_t root;
	unsigned depth;
	uint64_t omitted;
	bool no_memory;
};

void gm_name_walk_modules(struct gm_name_walk *walk);
/* The number of an object's entry in `found`, plus 1; 0: it has none. */
uint64_t gm_name_walk_add(
        struct gm_name_walk *walk, enum gm_named_kind kind, uint64_t object, const char *key);
/* The same for a tensor, with the path as it is. */
uint64_t gm_name_walk_tensor(struct gm_name_walk *walk, enum gm_named_kind kind,
        const struct gm_tensor *tensor, const char *key);
/* Keys of dicts are read up to a length (cpython/objects/references.c): one that may have been cut
 * names nothing. */
bool gm_name_walk_is_whole(struct gm_name_walk *walk, const char *name);
/* Appends to the path: ".name" or "name". False: it is too long. *ret_before: what
 * gm_name_walk_pop() takes. */
bool gm_name_walk_push(struct gm_name_walk *walk, size_t *ret_before, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
void gm_name_walk_pop(struct gm_name_walk *walk, size_t before);
/* What a list, a tuple or a dict holds, as KIND: "['k'][3]" is appended to the path. */
void gm_name_walk_container(
        struct gm_name_walk *walk, enum gm_named_kind kind, uint64_t object, const char *key);
void gm_name_walk_deinit(struct gm_name_walk *walk);

#endif
