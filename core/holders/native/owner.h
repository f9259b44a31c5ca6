/*
 * What is known of a reference that C++ code holds: what native memory it is in, and what leads
 * there, part by part. core/render makes a sentence of it: "item 0 of a vector of 2 tensors, held
 * by static 'cache' of libfoo.so".
 */
#ifndef GM_HOLDERS_NATIVE_OWNER_H
#define GM_HOLDERS_NATIVE_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a part is, and which operands it has. Holders of one rank are listed in this order. */
enum gm_native_form {
	GM_NATIVE_SCRIPT_OBJECT, /* a TorchScript object */
	GM_NATIVE_DATA_POINTER,  /* a c10::DataPtr that is in no tensor; number: its address */
	GM_NATIVE_CLASS,         /* an object of a C++ class; name */
	GM_NATIVE_FIELD,         /* of a Python object; name: its type; number: its address */
	GM_NATIVE_UNKNOWN_STACK, /* no thread is known; index: 1 where it is the main thread's */
	GM_NATIVE_THREAD_LOCAL,  /* number: the thread */
	GM_NATIVE_ARGUMENT,      /* of a call of a C function that is in progress */
	GM_NATIVE_OPERAND,  /* of a running frame; name: the function; of: the file; number: the
	                       line */
	GM_NATIVE_AUTOCAST, /* autocast's cache of the weights that it has cast */
	GM_NATIVE_BUCKET,   /* of DDP; name: the field; index: in it, -1: it has none; number: the
	                       bucket's */
	GM_NATIVE_CUBLAS,   /* cuBLAS's workspaces */
	GM_NATIVE_CUBLASLT,
	GM_NATIVE_REDUCER,     /* DDP's c10d::Reducer */
	GM_NATIVE_ITEM,        /* of a vector of tensors; index; number: how many there are */
	GM_NATIVE_SENT,        /* memory that was sent to other processes by CUDA IPC */
	GM_NATIVE_HEAP_AT,     /* memory of which nothing else is known; number: the address */
	GM_NATIVE_HEAP,        /* a chunk of the heap; number: its bytes */
	GM_NATIVE_SLOT,        /* of a TorchScript object; index */
	GM_NATIVE_STATIC,      /* static data; name: the symbol, NULL: not known; of: the library */
	GM_NATIVE_SHELF,       /* what a collective works on; name: the class that keeps it */
	GM_NATIVE_INTERPRETER, /* the Python interpreter's own data */
	GM_NATIVE_STACK,       /* number: the thread; name: the function, NULL: not known */
	GM_NATIVE_FORM_COUNT,
};

struct gm_native_part {
	enum gm_native_form form;
	const char *name, *of; /* an owner has copies of its own */
	int64_t index;
	uint64_t number;
};

/* Parts from the word outwards. One owner has many users, which do not change it. */
struct gm_native_owner {
	unsigned users;
	size_t count;
	struct gm_native_part *parts;
};

/* An owner of one part, whose names are copied. NULL: no memory. */
struct gm_native_owner *gm_native_owner_create(struct gm_native_part part);
/* Adds what holds the last part, before the owner has a second user. False: no memory. */
bool gm_native_owner_add(struct gm_native_owner *owner, struct gm_native_part part);
/* The same owner for one more user; takes NULL. */
struct gm_native_owner *gm_native_owner_share(struct gm_native_owner *owner);
/* One user less; the last one frees it. Takes NULL. */
void gm_native_owner_release(struct gm_native_owner *owner);
/* Less than, equal to or more than 0, as strcmp(). NULL stands before all others. */
int gm_native_owner_compare(
        const struct gm_native_owner *left, const struct gm_native_owner *right);
uint64_t gm_native_owner_hash(const struct gm_native_owner *owner);
/* As in the JSON: "static", "cublas_workspaces". */
const char *gm_native_form_name(enum gm_native_form form);
/* False: there is none of that name. */
bool gm_native_form_find(const char *name, enum gm_native_form *ret_form);

static inline void gm_native_owner_cleanup(struct gm_native_owner **owner)
{
	gm_native_owner_release(*owner);
}
#define _cleanup_owner_ __attribute__((cleanup(gm_native_owner_cleanup)))

#endif
