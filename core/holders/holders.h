/*
 * Holders: the variables and objects that keep a block alive, found backwards from the block.
 *
 * A block is used by c10::StorageImpl objects; those are held by tensors, tensors by their Python
 * wrappers, by nodes of the autograd graph, by .grad fields and views; wrappers by whatever Python
 * object refers to them, up to a thread's frames and the modules. All of it is found at one moment
 * of an image that is stopped:
 *  - one pass over the writable memory finds every C++ object of PyTorch by its class's vtable;
 *  - one walk over the objects that Python's collector knows, and over all frames, finds the
 *    references between Python objects;
 *  - reference counts show whether all references were found. If some are missing, a second pass
 *    looks for any word that points to the object: such a word is at best plausible, and is marked
 *    so.
 *
 * This room may include base, image, symbols, cpython and torch. It prints nothing and keeps no
 * history: earlier holders are a matter for recordings.
 */
#ifndef GM_HOLDERS_HOLDERS_H
#define GM_HOLDERS_HOLDERS_H

#include "cpython/cpython.h"
#include "holders/native/owner.h"
#include "image/image.h"
#include "symbols/symbols.h"
#include "torch/torch.h"

/* The references of one moment, as a graph. Destroy it when the target has run. */
struct gm_holders;

enum gm_reference_class {
	GM_PROVEN,    /* a typed field, read as such */
	GM_PLAUSIBLE, /* an aligned word in memory that is in use */
	GM_STALE,     /* spare capacity, freed memory, a dead part of a stack */
};

/* How a step keeps the previous one: this selects the renderer's sentence and its operands. Holders
 * of equal rank are listed in this order. */
enum gm_step_form {
	GM_STEP_PLAIN,           /* not shown: the storage, a tensor on it, a node within a graph */
	GM_STEP_GRAPH,           /* the autograd graph that contains the previous step */
	GM_STEP_GRAD,            /* .grad of a tensor; of: "Parameter" */
	GM_STEP_CELL,            /* a closure's cell without a name */
	GM_STEP_KEY_ITSELF,      /* the key of an entry; type */
	GM_STEP_OPERAND,         /* on the value stack of a running frame; function, file, line */
	GM_STEP_ATTRIBUTE,       /* name, type */
	GM_STEP_VIEW_BASE,       /* the tensor of which a view is made */
	GM_STEP_BUFFER,          /* of a module; name, type */
	GM_STEP_CLASS,           /* the class of an instance; type */
	GM_STEP_CLOSURE,         /* a function's free variable; name, function */
	GM_STEP_CLOSURE_LOCAL,   /* the same for a running frame; name, function, file, line */
	GM_STEP_DEFAULT,         /* of a positional argument; function */
	GM_STEP_KEYWORD_DEFAULT, /* of a keyword argument; name, function */
	GM_STEP_GLOBAL,          /* name; function: the module; file, line: of the main script */
	GM_STEP_HOOK,            /* of: the node, NULL: a tensor's */
	GM_STEP_ITEM,            /* type; index, -1: it has no order */
	GM_STEP_KEY,             /* an entry's value; name, NULL: the key is not text; type */
	GM_STEP_LEAF,            /* the node that adds to a tensor's gradient */
	GM_STEP_MEMORY_OWNER,    /* the external owner of a tensor's memory */
	GM_STEP_LOCAL,           /* of a running frame; name, function, file, line */
	GM_STEP_FRAME_LOCAL, /* of a frame that a traceback keeps; name, NULL: an operand; function
	                      */
	GM_STEP_GENERATOR_LOCAL, /* of a generator or coroutine; the same, type */
	GM_STEP_METADATA,        /* of an autograd node; of: the node */
	GM_STEP_CHILD,           /* a module within a module; name, type */
	GM_STEP_OPTIMIZER_STATE, /* name, type; of: the parameter, NULL: not known */
	GM_STEP_PARAMETER,       /* of a module; name, type */
	GM_STEP_SAVED,           /* for backward; of: the node; slot: as what, NULL: not known */
	GM_STEP_BOUND_SELF,      /* of a bound method; function */
	GM_STEP_TANGENT,         /* of forward-mode autograd; of: "Parameter" */
	GM_STEP_DLTENSOR,        /* in a DLPack capsule */
	GM_STEP_TRACEBACK,       /* of an exception; type */
	GM_STEP_FIELD,  /* of a Python object; name, NULL: not known; of: the object's type */
	GM_STEP_PART,   /* of a C++ object; name, NULL: not known; of: its class */
	GM_STEP_OBJECT, /* its reference could not be read again; type */
	GM_STEP_THREAD, /* what a thread keeps; name; function, NULL: no frame's */
	GM_STEP_NATIVE, /* a word of native memory; native: its owner, NULL: unknown */
	GM_STEP_FORM_COUNT,
};

/* One step of a chain. Strings belong to the answer; NULL, 0 or -1 if a step has no such value. */
struct gm_holder_step {
	enum gm_step_form form;
	const char *kind; /* as in JSON: "local", "global", "item", "tensor", ... */
	char *name;
	char *function;
	char *file;
	char *type;      /* of a Python object, or the class of a node */
	char *of, *slot; /* operands of the sentence only */
	struct gm_native_owner *native;
	uint32_t line;
	int64_t index; /* of an item */
	uint64_t address;
	bool unlisted; /* one of too many nodes: it is in the sentence, not in the path */
};

/* What keeps a chain's outermost step. */
enum gm_chain_end {
	GM_CHAIN_ROOTED,  /* a frame, a thread, a module; or a word of memory that the last step
	                     tells */
	GM_CHAIN_GARBAGE, /* nothing: it is a cycle that gc.collect() would free */
	GM_CHAIN_CYCLE,   /* nothing: it is a cycle through C++, which gc.collect() does not free */
	GM_CHAIN_UNKNOWN, /* nothing that was found */
};

/* Is the step shown? */
static inline bool gm_step_speaks(const struct gm_holder_step *step)
{
	return step->form != GM_STEP_PLAIN && !(step->form == GM_STEP_NATIVE && !step->native);
}

enum { GM_WAYS_MOST = 1000000 };

struct gm_holder {
	enum gm_reference_class class;
	struct gm_holder_step *steps; /* root first, the storage last */
	size_t step_count;
	enum gm_chain_end end;
	bool rooted;       /* it begins at a frame, a thread or a module */
	size_t references; /* neighbours in one container, from the first item on */
	uint32_t root;     /* which variable (a name in a module, a slot of a frame) it begins with,
	                      from 1; 0: none */
	bool further;      /* an earlier holder begins with the same one */
	uint32_t ways;     /* the number of paths by which it keeps the block, listed or not;
	                      GM_WAYS_MOST: at least so many */
};

void gm_holder_deinit(struct gm_holder *holder);
/* The step next to the tensor, the first of the sentence; NULL: no step is shown. */
const struct gm_holder_step *gm_holder_first(const struct gm_holder *holder);

struct gm_held_storage {
	uint64_t address;
	uint64_t data, size;
	uint32_t refcount, found;
};

/* The live tensors in a block, for lists of blocks. */
struct gm_block_note {
	uint64_t address, size; /* in: the block */
	bool known;             /* out: a storage uses it; `tensors` of them are on it */
	uint32_t tensors;
	uint32_t dimensions; /* of the largest one; the shape is cut at the maximum */
	int64_t shape[GM_TENSOR_MAX_DIMENSIONS];
	const char *dtype; /* NULL: no tensor. Static */
	bool requires_grad, has_grad_fn;
	bool parameter; /* its Python object is a torch.nn.Parameter */
	bool gradient;  /* it is the .grad of some tensor */
	/* by gm_holders_annotate_kept() alone: */
	bool optimizer_state, buffer; /* an optimizer's state, a module's buffer leads to it */
	bool workspace;               /* cuBLAS's */
};

/* The kind of memory at an address that no storage uses. */
enum gm_place {
	GM_PLACE_UNKNOWN,
	GM_PLACE_STORAGE,    /* memory of a storage */
	GM_PLACE_BLOCK,      /* a block in use, of no storage */
	GM_PLACE_FREE_BLOCK, /* a free part of a segment */
	GM_PLACE_UNMAPPED,   /* an unmapped part of an expandable segment */
	GM_PLACE_WAITING,    /* a block that was released and waits for a stream */
	GM_PLACE_DEVICE,     /* device memory outside of PyTorch's segments */
	GM_PLACE_HOST,       /* host memory of no storage */
	GM_PLACE_NOTHING,    /* not mapped, and of no segment */
};

enum gm_holders_note_kind {
	GM_NOTE_CUT_SHORT, /* the search reached its bound */
	GM_NOTE_NO_PYTHON, /* Python's objects were not examined */
	GM_NOTE_GUESSED,   /* an object's count is reached only with words that may not own it */
	GM_NOTE_MISSING,   /* an object counts more references than were found */
};

/* The kind of object whose count a note is about. */
enum gm_counted {
	GM_COUNTED_OBJECT, /* type: a Python object's; NULL: not known */
	GM_COUNTED_STORAGE,
	GM_COUNTED_TENSOR,
	GM_COUNTED_NODE, /* of autograd */
};

/* The fields below `kind` are those of GUESSED and MISSING. */
struct gm_holders_note {
	enum gm_holders_note_kind kind;
	enum gm_counted counted;
	char *type; /* owned */
	uint64_t address;
	uint64_t refcount, found; /* what it counts; references that were found */
	uint64_t guessed;         /* of GUESSED: words of objects whose fields are not known */
	uint64_t words;           /* of MISSING: other words that point to it */
};

struct gm_holders_answer {
	uint64_t address, size;
	int device_type, device; /* device: -1 where unknown */
	enum gm_place place;
	int events; /* of GM_PLACE_WAITING: outstanding */
	char *file; /* of GM_PLACE_HOST: what is mapped there; NULL: no file */
	struct gm_held_storage *storages;
	size_t storage_count;
	struct gm_holder *holders; /* by gm_holder order: named roots, other roots, what nothing
	                              refers to, plausible; the shortest first */
	size_t holder_count;
	size_t omitted;                /* further chains that were found and are not listed */
	size_t roots, omitted_roots;   /* roots' references that keep it; those of which no chain is
	                                  listed */
	bool complete;                 /* all references found, at each level: no root is missing */
	struct gm_holders_note *notes; /* what is missing, and where the search did not look */
	size_t note_count;
	struct gm_block_note tensor; /* the largest tensor on it */
	char *part; /* the model's parameter or buffer that it belongs to: "layers.0.weight"; NULL:
	             none */
};

/* Includes objects that refer to nothing, which are otherwise left out, because C++ may hold
 * something for them. For questions about all memory. */
struct gm_error *gm_holders_create_whole(struct gm_image *image, struct gm_symbols *symbols,
        struct gm_python *python, struct gm_torch *torch, struct gm_holders **ret_holders);
struct gm_error *gm_holders_create(struct gm_image *image, struct gm_symbols *symbols,
        struct gm_python *python /* may be NULL: native holders only */, struct gm_torch *torch,
        struct gm_holders **ret_holders);
void gm_holders_destroy(struct gm_holders *holders);

/*
 * Finds the holders of the memory at `address`, which may be anywhere within a block or storage.
 * GM_TARGET only if the image cannot be read; for an address without a storage there is an answer
 * too
 * (`place`). Deinit frees the answer's memory.
 */
struct gm_error *gm_holders_find(
        struct gm_holders *holders, uint64_t address, struct gm_holders_answer *ret_answer);
void gm_holders_answer_deinit(struct gm_holders_answer *answer);

void gm_holders_annotate(struct gm_holders *holders, struct gm_block_note *notes, size_t count);
/* kept.c: adds what keeps the blocks to annotated notes, by the blocks' addresses; takes as long as
 * gm_holders_retained(). */
struct gm_error *gm_holders_annotate_kept(
        struct gm_holders *holders, struct gm_block_note *notes, size_t count);

/* The cost of the scan, for the benchmark and `--verbose`. */
struct gm_holders_cost {
	uint64_t bytes_scanned, bytes_unread;
	double scan_seconds, python_seconds;
	size_t storages, tensors, nodes, python_objects, references;
};
void gm_holders_cost(const struct gm_holders *holders, struct gm_holders_cost *ret_cost);

#endif
