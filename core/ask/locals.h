/*
 * The question `locals`: the variables of a Python frame as it stands now. They are read from
 * outside; no code of the program runs.
 */
#ifndef GM_ASK_LOCALS_H
#define GM_ASK_LOCALS_H

#include "ask/frames.h"
#include "model/model.h"
#include "torch/torch.h"

enum { GM_LOCALS_MAX = 4096 };

struct gm_local {
	char *name;
	char *type;      /* of its object; NULL: it is not bound to one, or: */
	bool unreadable; /* what it is bound to is no object */
	char *text;      /* a plain value, or how many items; NULL: another object */
	bool is_tensor;
	struct gm_tensor tensor;
	bool has_storage;
	struct gm_storage storage;
	size_t block; /* of the recording; GM_NO_BLOCK: there is none, or it does not have it */
};
struct gm_locals {
	struct gm_frames frames;
	uint64_t number; /* of the frame whose variables these are */
	struct gm_local *items;
	size_t count, capacity;
	size_t left_out; /* modules, functions and classes, and names such as __name__ */
	bool cut;        /* there are more than GM_LOCALS_MAX */
	const struct gm_model *model; /* the recording; NULL: none */
};
/* all: with modules, functions and classes. The recording of the context is that of the process. */
struct gm_error *gm_ask_locals(
        struct gm_context *context, uint64_t number, bool all, struct gm_locals *ret_locals);
void gm_locals_deinit(struct gm_locals *locals);

#endif
