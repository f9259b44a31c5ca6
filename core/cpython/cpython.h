/*
 * CPython, read from an image: threads, frames with lines, bytecode, locals, objects. No code runs
 * in the target and no debug information of Python is needed; struct layouts come from tables, one
 * per version, each with its source.
 *
 * This room may include base, image and symbols. It knows nothing of PyTorch.
 * Every value read is hostile: depths, lengths and counts are bounded, and type pointers checked.
 */
#ifndef GM_CPYTHON_CPYTHON_H
#define GM_CPYTHON_CPYTHON_H

#include "symbols/symbols.h"

struct gm_python;

/*
 * The effect of an instruction on names, for all versions and for specialised or combined opcodes.
 * Only effects that the questions need are distinguished.
 */
enum gm_op {
	GM_OP_OTHER = 0,
	GM_OP_STORE_FAST,
	GM_OP_STORE_NAME,
	GM_OP_STORE_GLOBAL,
	GM_OP_STORE_DEREF,
	GM_OP_STORE_ATTR,
	GM_OP_STORE_SUBSCR,
	GM_OP_DELETE_FAST,
	GM_OP_DELETE_NAME,
	GM_OP_DELETE_GLOBAL,
	GM_OP_DELETE_DEREF,
	GM_OP_DELETE_ATTR,
	GM_OP_DELETE_SUBSCR,
	GM_OP_CALL, /* also: a call's cache units, i.e. the callee has just returned */
	GM_OP_RETURN,
	GM_OP_POP_TOP, /* an unused result */
	GM_OP_FOR_ITER,
	GM_OP_END_FOR,
	GM_OP_POP_EXCEPT, /* the end of an exception */
	GM_OP_YIELD, /* also: what a generator that this one waits for has returned (`await`) */
	GM_OP_COUNT,
};

/* A loop of the source, from the backward jumps of the bytecode. Offsets in bytes, [start, end).
 * From 3.12 on the handlers of exceptions are at the end of the code: what follows the loop may lie
 * between its parts. */
struct gm_loop {
	uint32_t start;    /* offset of the loop's head (the jump's target) */
	uint32_t end;      /* one past its last instruction */
	uint32_t line;     /* least line within: of the `for` or `while` */
	uint32_t line_end; /* greatest line within; 0: it is an inlined comprehension's (3.12 on) */
};

/* Is an instruction in the loop? `line`: its own, 0: not known. */
static inline bool gm_loop_contains(const struct gm_loop *loop, uint32_t offset, uint32_t line)
{
	return offset >= loop->start && offset < loop->end &&
	       (!line || !loop->line_end || (line >= loop->line && line <= loop->line_end));
}

/* A code object, copied out of the image. Owned by gm_python, valid until gm_python_close(). */
struct gm_code {
	uint32_t id; /* dense, from 1; the same object of the target keeps its id while it lives */
	const char *file;
	const char *name; /* qualified where the version has it ("Model.forward"), else plain */
	uint32_t first_line;
	uint32_t loop_count;
	const struct gm_loop *loops; /* outer before inner */
	uint32_t local_count; /* all of localsplus: arguments, locals, cells, free variables */
	const char *const *local_names;
	const uint8_t *local_kinds; /* CO_FAST_LOCAL 0x20, CO_FAST_CELL 0x40, CO_FAST_FREE 0x80 */
};

/* One frame of a Python stack. */
struct gm_python_frame {
	const struct gm_code *code;
	uint32_t lasti;   /* byte offset of the instruction in progress */
	uint32_t line;    /* 0: none */
	uint64_t address; /* of the interpreter's frame in the image */
	/* Which call of the interpreter's loop runs it, 0: the innermost one. One native frame of
	 * _PyEval_EvalFrameDefault() may run several Python frames (3.11+). */
	uint32_t evaluation;
	/* An address on the thread's stack in the native frame of that call; 0: not known
	 * (before 3.12). It identifies a native frame without a name. */
	uint64_t evaluation_stack;
};

struct gm_instruction {
	enum gm_op op;
	const char *name; /* the variable, attribute or global it names; of a call, and of a POP_TOP
	                     right after one, what it calls, where that may release objects
	                     ("clear"). NULL: none. Owned by the code */
	/* A combined opcode that stores to two variables: the one it stores to after `name`. Either
	 * store may be in progress: gm_python_frame_instruction() finds out which. NULL: one store
	 * only. */
	const char *other_name;
	uint32_t line;
};

struct gm_python_thread {
	uint64_t state;  /* PyThreadState's address */
	uint64_t ident;  /* pthread_self() */
	pid_t native_id; /* 0 where the version does not keep it */
};

/*
 * Finds the interpreter. GM_TARGET: no Python in the process ("no Python here yet" while its
 * library is not loaded or not initialised), or a version without a table (names it, and what still
 * works).
 */
struct gm_error *gm_python_open(
        struct gm_image *image, struct gm_symbols *symbols, struct gm_python **ret_python);
/* The same, with a file of learned layouts that may have the row of this build (NULL: none). */
struct gm_error *gm_python_open_with(struct gm_image *image, struct gm_symbols *symbols,
        const char *layouts, struct gm_python **ret_python);
/* With this row only, for its verification. `tables` must exist while the handle is open. */
struct gm_python_tables;
struct gm_error *gm_python_open_row(struct gm_image *image, struct gm_symbols *symbols,
        const struct gm_python_tables *tables, struct gm_python **ret_python);
void gm_python_close(struct gm_python *python);

/* The CPython version, and whether its layout is known: shipped, in `layouts`, or saved. GM_TARGET
 * as in gm_python_open(). */
struct gm_python_build {
	const struct gm_module *module; /* that has the interpreter */
	char version[48];               /* "3.16.1" */
	bool known;
};
struct gm_error *gm_python_build(struct gm_image *image, struct gm_symbols *symbols,
        const char *layouts, struct gm_python_build *ret_build);

/* "3.11.2", and how the interpreter was found ("symbol _PyRuntime", ...), for `doctor`. */
const char *gm_python_version(const struct gm_python *python);
int gm_python_version_hex(const struct gm_python *python); /* PY_VERSION_HEX >> 16, e.g. 0x030b */
const char *gm_python_found_by(const struct gm_python *python);
uint64_t gm_python_pool_size(
        const struct gm_python *python); /* bytes of a pool of its allocator (Objects/obmalloc.c) */

/* Does the state of an interpreter begin in these bytes? Up to 3.11 it is a chunk of the heap. */
bool gm_python_is_interpreter(struct gm_python *python, uint64_t start, uint64_t size);

struct gm_error *gm_python_threads(
        struct gm_python *python, struct gm_python_thread *threads, size_t max, size_t *ret_count);

/* Frames of a thread, innermost first; at most `max`. 0: the thread has none, or is unknown to
 * Python. Hot path: few system calls, nothing allocated for code objects seen before. */
size_t gm_python_stack(
        struct gm_python *python, pid_t thread, struct gm_python_frame *ret_frames, size_t max);
/* The same for one of gm_python_threads(): a thread that called into a subinterpreter has a state
 * in each interpreter, with its frames there. */
size_t gm_python_thread_stack(struct gm_python *python, const struct gm_python_thread *thread,
        struct gm_python_frame *ret_frames, size_t max);

/* Visits the frames of all threads, innermost first: of at most 4,096 threads, 4,096 of each. The
 * visitor returns false to stop. */
typedef bool (*gm_python_visit_frame)(
        void *context, const struct gm_python_thread *thread, const struct gm_python_frame *frame);
struct gm_error *gm_python_each_frame(
        struct gm_python *python, gm_python_visit_frame visit, void *context);
/* Before the references of objects are read: notes what threads execute, whose references
 * gm_python_frame_references() and gm_python_thread_references() give. */
struct gm_error *gm_python_note_running(struct gm_python *python);

/*
 * The frame that is being destroyed now, if any: a function has returned and its locals are
 * released. `frame` is the innermost live frame. ret_slot is the index of the local whose object is
 * dying (its reference count is 0), or -1.
 */
bool gm_python_dying_frame(struct gm_python *python, pid_t thread,
        const struct gm_python_frame *frame, struct gm_python_frame *ret_dying, int *ret_slot);

/*
 * A frame's variables by name: a function's arguments and locals in the order of its code object,
 * through their cells; for a module's or a class body's frame the entries of its dict. `object` 0:
 * not bound. Return false to stop. Strings are valid during the call.
 */
typedef bool (*gm_python_variable_visit)(void *context, const char *name, uint64_t object);
void gm_python_variables(struct gm_python *python, const struct gm_python_frame *frame,
        gm_python_variable_visit visit, void *context);

/* Is it the code of a generator, a coroutine or an asynchronous generator? */
bool gm_python_is_generator(const struct gm_python *python, const struct gm_code *code);

/* The line of the instruction at an offset; 0: none. */
uint32_t gm_python_line(const struct gm_code *code, uint32_t offset);

/* The instruction at a frame's lasti, caches and combined opcodes decoded. */
void gm_python_instruction(struct gm_python *python, const struct gm_code *code, uint32_t lasti,
        struct gm_instruction *ret_instruction);

/*
 * The same for a frame of a stopped thread: of two combined stores the one that is in progress is
 * in `name` and `other_name` is NULL, where the slots and the value stack tell.
 */
void gm_python_frame_instruction(struct gm_python *python, const struct gm_python_frame *frame,
        struct gm_instruction *ret_instruction);

/*
 * How many open loops of the program's own, and of installed packages, a recorder follows at each
 * event, from the outermost in; each costs two small reads. A training loop is usually within a
 * loop of epochs only; that of a library may be within those of a test runner.
 */
enum { GM_LOOPS_FOLLOWED = 3, GM_PACKAGE_LOOPS_FOLLOWED = 12 };

/*
 * The position of a `for` loop in a frame of a stopped thread: a number that changes with each
 * iteration, from the loop's iterator. False: not a `for`, or an iterator without a position (a
 * generator). `frame` must be inside the loop.
 */
bool gm_python_loop_position(struct gm_python *python, const struct gm_python_frame *frame,
        uint32_t loop, uint64_t *ret_position);

/* The dict of a frame's global variables; 0: unreadable. */
uint64_t gm_python_frame_globals(struct gm_python *python, const struct gm_python_frame *frame);

/* --- objects ---------------------------------------------------------------------------------- */

/* The type's name of an object ("dict"), false where the address holds no plausible object. */
bool gm_python_type_name(struct gm_python *python, uint64_t object, const char **ret_name);
/* Whether the object's type or one of its bases has this name: tp_name ("collections.deque") or its
 * last part. */
bool gm_python_is_instance(struct gm_python *python, uint64_t object, const char *type_name);
/* Is it a str, a number, code: an object that holds nothing? True where no object is. */
bool gm_python_is_atom(struct gm_python *python, uint64_t object);
/* Bytes of the fixed part of an object, as its type says; 0: no plausible object. `ret_own` (may be
 * NULL): from which on it is a C type's own part whose layout is not known; 0: there is none. What
 * a ctypes object has is data; a module's is its state, from md_state on. */
size_t gm_python_size(struct gm_python *python, uint64_t object, size_t *ret_own);
/* May items follow its fixed part, as in a tuple? */
bool gm_python_has_items(struct gm_python *python, uint64_t object);
/* The value of a float, an int (of at most 63 bits) or a bool; false: another type. */
bool gm_python_number(struct gm_python *python, uint64_t object, double *ret_value);
/* A str object's value (UTF-8, at most `max` characters); caller frees. */
bool gm_python_str(struct gm_python *python, uint64_t object, size_t max, char **ret_string);
/*
 * A plain value as Python writes it: None, True, 3, 0.5, 'text' (at most `max` characters of it,
 * then …); of a list, tuple, dict or set its number of items, "3 items". NULL: another object, or
 * no memory. The caller frees it.
 */
char *gm_python_short_text(struct gm_python *python, uint64_t object, size_t max);
/* The object in a frame's localsplus slot; 0: unbound. Cells are not looked through. */
uint64_t gm_python_local(
        struct gm_python *python, const struct gm_python_frame *frame, uint32_t slot);

/*
 * Resolves a variable path as a user types it: `output`, `self.cache['kept']`, `batches[0]`,
 * `m.weight`; in the innermost frame of `thread` that has the first name, else their globals. The
 * search begins at frame `first` (0: the innermost one) and goes on to those that called it.
 * Attribute look-up goes through instance dicts and slots only (no code is run). GM_USAGE: no such
 * name (says which part).
 */
struct gm_error *gm_python_evaluate(struct gm_python *python, pid_t thread, size_t first,
        const char *expression, uint64_t *ret_object);

/* The kind of an edge from one Python object to another. */
enum gm_edge_kind {
	GM_EDGE_ITEM,      /* index: list, tuple, deque, set ... */
	GM_EDGE_KEY,       /* a dict's value under a key (`name`: str key or repr of an int key) */
	GM_EDGE_DICT_KEY,  /* a dict's key itself */
	GM_EDGE_ATTRIBUTE, /* instance dict entry, inline value or slot */
	GM_EDGE_CELL,      /* a cell's content */
	GM_EDGE_CLOSURE,   /* function -> cell */
	GM_EDGE_DEFAULT,   /* function -> default value */
	GM_EDGE_BOUND,     /* bound method -> self */
	GM_EDGE_LOCAL,     /* frame, generator or coroutine -> local */
	GM_EDGE_TYPE,
	GM_EDGE_OTHER, /* a field whose name is in `name` */
	GM_EDGE_GUESS, /* a word of a C object whose layout is not known that points to an object:
	                  plausible. `name` says where it is ("word at +40") */
};

/*
 * What a PyCapsule has: its pointer, and its name, of which at most `size` - 1 bytes are read.
 * False: it cannot be read, or has no name.
 */
bool gm_python_capsule(struct gm_python *python, uint64_t capsule, uint64_t *ret_pointer,
        char *ret_name, size_t size);

/* A visitor of an object's outgoing references. Return false to stop. `name` may be NULL. */
typedef bool (*gm_python_visit)(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index);

/*
 * Visits what an object holds, by its type's known layout. One edge per counted reference, so an
 * instance's dict is an edge of its own (GM_EDGE_OTHER "__dict__") and holds the attributes as
 * keys; inline values and slots are GM_EDGE_ATTRIBUTE. False: the type has a part that is not known
 * (a C extension's type); what is known of it (its dict, slots, class) was visited, and of the rest
 * each word that points to an object (GM_EDGE_GUESS).
 */
bool gm_python_references(
        struct gm_python *python, uint64_t object, gm_python_visit visit, void *context);

/* The same for a frame on a thread's stack: locals (GM_EDGE_LOCAL, name and slot), values on its
 * stack (GM_EDGE_LOCAL without a name, slots from local_count on: arguments of a call in progress
 * and other temporaries), f_locals and the like. */
bool gm_python_frame_references(struct gm_python *python, const struct gm_python_frame *frame,
        gm_python_visit visit, void *context);

/* References of thread states in addition to their frames: exceptions being raised or handled,
 * contexts, thread dicts. */
void gm_python_thread_references(struct gm_python *python, gm_python_visit visit, void *context);

/* Visits every object that the garbage collector tracks. */
struct gm_error *gm_python_tracked(struct gm_python *python,
        bool (*visit)(void *context, uint64_t object), void *context, size_t *ret_count);

/* How many items a container will ever have, and how many it has. */
struct gm_python_bound {
	enum gm_python_bound_kind {
		GM_PYTHON_BOUND_MAXLEN,    /* of a deque */
		GM_PYTHON_BOUND_MAXSIZE,   /* of functools.lru_cache */
		GM_PYTHON_BOUND_LENGTH,    /* of a list whose rest is None: it is being filled */
		GM_PYTHON_BOUND_ATTRIBUTE, /* `name` of the container's owner: plausible */
	} kind;
	uint64_t limit, count;
	const char *name; /* static; NULL: it has none */
};
/* False: the object has no bound, or is no such container. */
bool gm_python_bound_of(
        struct gm_python *python, uint64_t container, struct gm_python_bound *ret_bound);
/* By an attribute of the object that keeps the container, with one of the usual names ("capacity",
 * "maxsize"); false: none is a number as large as the container. */
bool gm_python_bound_by_owner(struct gm_python *python, uint64_t owner, uint64_t container,
        struct gm_python_bound *ret_bound);

/* Loaded modules: sys.modules, name and the module's dict. */
struct gm_error *gm_python_modules(struct gm_python *python,
        bool (*visit)(void *context, const char *name, uint64_t module, uint64_t dict),
        void *context);

/* Reads the reference count of an object; false where unreadable. Immortal ones give UINT64_MAX. */
bool gm_python_refcount(struct gm_python *python, uint64_t object, uint64_t *ret_count);

/*
 * Where an exception was raised, innermost frame first; of more than `max` frames the innermost
 * ones. `address` is 0: the frames may have ended. Returns their number.
 */
size_t gm_python_traceback(struct gm_python *python, uint64_t exception,
        struct gm_python_frame *ret_frames, size_t max);
/* The first of an exception's arguments, if it is a str (usually the result of str()). The caller
 * frees it. */
bool gm_python_exception_text(
        struct gm_python *python, uint64_t exception, size_t max, char **ret_text);

/* A position in a code object, as a frame without an address. False: not a code object. */
bool gm_python_code_frame(
        struct gm_python *python, uint64_t code, uint32_t lasti, struct gm_python_frame *ret_frame);

/* ---- script.c ---- */

/*
 * Where a debugger puts a script that the main thread runs when it next checks for signals (PEP
 * 768: CPython 3.14 and later). The addresses are in the interpreter's own memory, which exists as
 * long as the process, so they may be written while the thread runs.
 */
struct gm_python_script_place {
	uint64_t pending;   /* int32_t: 1 requests it; the thread resets it to 0 */
	uint64_t path;      /* of the script, with a NUL */
	uint64_t path_size; /* capacity for it, in bytes */
	uint64_t breaker;   /* the lowest byte of the thread's eval breaker */
	uint8_t stop;       /* the bit in it that makes the thread check */
	uint8_t harmless;   /* bits that may be set without a reason */
};

enum gm_python_takes {
	GM_TAKES_SCRIPTS,
	GM_TAKES_NONE,     /* a version before 3.14 */
	GM_TAKES_NONE_OFF, /* PYTHON_DISABLE_REMOTE_DEBUG, -X disable-remote-debug, or built without
	                    */
	GM_TAKES_UNKNOWN,  /* its published data does not agree with its version */
};

enum gm_python_takes gm_python_takes_script(
        struct gm_python *python, struct gm_python_script_place *ret_place);

#endif
