/*
 * What a group of `retained` is called, as data: a variable, an attribute, so many items of a list.
 * core/render makes a text of it.
 */
#ifndef GM_HOLDERS_RETAINED_NAME_H
#define GM_HOLDERS_RETAINED_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holders/native/owner.h"

/* Names of one size are listed in this order. */
enum gm_retained_form {
	GM_NAME_ATTRIBUTE,        /* name */
	GM_NAME_GRAD,             /* .grad, of one tensor or of all parameters */
	GM_NAME_ITEMS,            /* count: of a list, tuple, set ... */
	GM_NAME_VALUES,           /* count: of a dict whose keys are no text */
	GM_NAME_KEYS,             /* count: of a dict, which are themselves what is kept */
	GM_NAME_KEY,              /* of a dict; name */
	GM_NAME_OPERAND,          /* on the value stack of a running function; of: the function */
	GM_NAME_VIEW_BASE,        /* the tensor of which views are made */
	GM_NAME_NO_TENSOR,        /* blocks of no tensor */
	GM_NAME_BUFFERS,          /* of a module */
	GM_NAME_STATES,           /* an optimizer's, by parameter */
	GM_NAME_CLOSURE_VARIABLE, /* of a running function; name, of: the function */
	GM_NAME_NATIVE,           /* what C++ holds; native */
	GM_NAME_RUNNING,          /* functions that a library runs: each of them */
	GM_NAME_GARBAGE,          /* cycles that nothing holds */
	GM_NAME_CYCLES,           /* the same, and gc.collect() does not free them */
	GM_NAME_GLOBAL,           /* name; of: the module, NULL: __main__ */
	GM_NAME_HOOKS,
	GM_NAME_ITSELF,       /* of what the group above is: what is in no part of it */
	GM_NAME_GRAPH_LEAVES, /* of autograd */
	GM_NAME_LOCAL,        /* of a running function; name, of: the function */
	GM_NAME_KEPT_LOCAL,  /* of a frame that runs no more, or a generator; name, of: the function
	                      */
	GM_NAME_PART,        /* what has a name of its own; name: "exp_avg", "MmBackward0" */
	GM_NAME_MODULE_PART, /* a module, or its parameter or buffer; name: "layers.3.weight" */
	GM_NAME_PARAMETERS,  /* of a module */
	GM_NAME_MISSING,     /* references that were not found */
	GM_NAME_SAVED,       /* for backward */
	GM_NAME_SHARED,      /* members; more: there are further ones; graphs */
	GM_NAME_THREAD,      /* what a thread keeps; name; of: the function, NULL: of none */
	GM_NAME_TRACEBACK,   /* of an exception */
	GM_NAME_FORM_COUNT,
};

struct gm_retained_name {
	enum gm_retained_form form;
	char *name, *of; /* owned; NULL: a form that has none, or not known */
	struct gm_native_owner *native;
	uint32_t count;
	struct gm_retained_name *members, *graphs; /* graphs: whose graphs hold it as well */
	size_t member_count, graph_count;
	bool more;
};

void gm_retained_name_deinit(struct gm_retained_name *name);
/* Frees the array as well. */
void gm_retained_names_free(struct gm_retained_name *names, size_t count);
/* False: no memory. */
bool gm_retained_name_copy(const struct gm_retained_name *from, struct gm_retained_name *ret_name);
/* Less than, equal to or more than 0, as strcmp(). `counted`: 20 items and 40 items are not the
 * same. `graphs` do not count: they come and go while the program runs. */
int gm_retained_names_compare(const struct gm_retained_name *left, size_t left_count,
        const struct gm_retained_name *right, size_t right_count, bool counted);
/* Is it a variable, or what stands in the place of one: a root of memory? */
bool gm_retained_form_is_root(enum gm_retained_form form);
/* As in the JSON: "attribute", "local". */
const char *gm_retained_form_name(enum gm_retained_form form);
/* False: there is none of that name. */
bool gm_retained_form_find(const char *name, enum gm_retained_form *ret_form);

#endif
