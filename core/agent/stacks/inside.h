/*
 * What the files of stacks/ share: the tables of the process and a thread's memory of its last
 * stacks.
 */
#ifndef GM_AGENT_STACKS_INSIDE_H
#define GM_AGENT_STACKS_INSIDE_H

#include <stdatomic.h>
#include <string.h>

#include "base/varint.h"
#include "agent/agent.h"
#include "agent/stacks/memory.h"
#include "agent/stacks/options.h"
#include "cpython/versions/versions.h"
#include "torch/new_tensor.h"

#define GM_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define GM_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

enum {
	GM_STACKS_FRAMES_MAX = 4096,    /* of one stack: GM_LOG_STACK_MAX of log/format.h */
	GM_STACKS_FRAMES_KEPT = 256,    /* of a stack that is deeper: its innermost ones */
	GM_PYTHON_STACKS_MAX = 1 << 20, /* different ones: frames of the tree */
	GM_NATIVE_STACKS_MAX = 1 << 21,
	GM_STACKS_CODES_MAX = 1 << 17,
	GM_STACKS_ARENA = 64 << 20, /* bytes, for code objects and modules */
	GM_PYTHON_INDEX = 1 << 10,
	GM_STACKS_LOOPS = 16,
	GM_STACKS_RECORD = GM_AGENT_RECORD_MAX / 2 - 64,
};

/* A call in progress that makes a tensor: agent/tensors.c. */
struct gm_agent_tensor_note {
	uint64_t sp; /* of its caller, behind the return address */
	uint64_t return_address;
	struct gm_new_tensor tensor; /* bytes 0: there is no note */
};

/* --- trie.c ----------------------------------------------------------------------------------- */

/*
 * All stacks of one kind: each is a node, its innermost frame (`value`) on top of another stack
 * (`parent`). Stacks that share outer frames share nodes, so a new stack costs what is new of it,
 * and equal stacks have one number. Found by a hash table of numbers without locks, in levels of
 * growing size: a program with few stacks touches little memory. A node also has the number of the
 * child that was found last: most often it is that one again.
 */
struct gm_trie_node {
	uint64_t value;
	uint32_t parent;
	_Atomic uint32_t last_child;
};

enum { GM_TRIE_LEVELS = 6 };

struct gm_trie {
	struct gm_trie_node *nodes; /* by id; 0 is the empty stack */
	_Atomic uint32_t count;     /* ids given out */
	uint32_t max;
	_Atomic uint32_t *slots[GM_TRIE_LEVELS];
	_Atomic uint32_t used[GM_TRIE_LEVELS];
	_Atomic bool reported_full;
	enum gm_agent_record kind;
	uint32_t (*write)(uint8_t *bytes, const struct gm_trie_node *node);
};

bool gm_trie_init(struct gm_trie *trie, enum gm_agent_record kind, uint32_t max,
        uint32_t (*write)(uint8_t *bytes, const struct gm_trie_node *node));
void gm_trie_clear(struct gm_trie *trie);
uint32_t gm_trie_search(struct gm_trie *trie, uint32_t parent, uint64_t value);

/* The stack that has `value` on top of `parent`; written to the file where it is new. 0: it has no
 * number. */
static inline uint32_t gm_trie_child(struct gm_trie *trie, uint32_t parent, uint64_t value)
{
	uint32_t last = atomic_load_explicit(&trie->nodes[parent].last_child, memory_order_acquire);

	if (GM_LIKELY(last && trie->nodes[last].value == value))
		return last;
	return gm_trie_search(trie, parent, value);
}

/* --- writing records -------------------------------------------------------------------------- */

static inline uint8_t *gm_write_string(uint8_t *at, const void *bytes, size_t size)
{
	at = gm_put_varint(at, size);
	if (size)
		memcpy(at, bytes, size);
	return at + size;
}

/* --- python.c, python_find.c, code.c ---------------------------------------------------------- */

/* A loop of a code object with a counted iterator: iterators.c. */
struct gm_code_loop {
	uint32_t start, end;                       /* of the bytecode, in bytes, [start, end) */
	uint32_t slot;                             /* of the value stack, where the iterator is */
	_Atomic uint64_t iterator, type, position; /* as they were last */
};

/* A loop that a frame of a thread's last stack stands in. */
struct gm_open_loop {
	struct gm_code_loop *loop;
	uint64_t slot; /* where its iterator is */
	uint32_t index, code;
};

/*
 * A code object as it was when it was met. A dead one's address may be taken by another: `print` is
 * made of what differs then. Never freed.
 */
struct gm_stack_code {
	uint64_t address, print;
	uint32_t id;
	uint32_t first_traceable; /* bytes */
	uint32_t frame_size;      /* bytes on the data stack, 0 before 3.11 */
	uint32_t local_count;
	uint32_t stack_size;
	uint32_t flags; /* co_flags */
	uint8_t kind;   /* enum gm_code_kind */
	bool is_coroutine;
	uint16_t loop_count; /* iterators.c */
	struct gm_code_loop *loops;
	struct gm_stack_code *older; /* of the same slot */
};

/* Bits of a print: it is of what the code contains; it is not a number that CPython gave. */
#define GM_PRINT_CONTENT (UINT64_C(1) << 62)
#define GM_PRINT_MADE (UINT64_C(1) << 63)

enum gm_code_kind {
	GM_CODE_OTHER,
	GM_CODE_INSTALLED, /* of an installed package, but not PyTorch */
	GM_CODE_LIBRARY,   /* of PyTorch or Python's own library, or of no file */
	GM_CODE_ENGINE,    /* _engine_run_backward() of torch/autograd/graph.py */
	GM_CODE_OVERRIDE,  /* of torch/_native/, by which the dispatcher overrides operators */
};

/* A frame of a thread's last stack. */
struct gm_python_slot {
	uint64_t frame, code, instruction;
	uint64_t previous;     /* the frame to which its own field points */
	uint64_t print, shape; /* of the code */
	const struct gm_stack_code *entry;
	uint32_t stack;  /* the stack of which it is the innermost frame */
	bool is_between; /* `previous` is a frame of the interpreter's own, before the next one of
	                    Python */
	bool is_odd;     /* that, or there is more to compare of its code than the shape */
};

/* What a thread has looked up last, where it need not ask the tables of all. */
struct gm_code_seen {
	uint64_t code, quick;
	const struct gm_stack_code *entry; /* NULL: none is here */
	uint64_t print;
};
struct gm_child_seen {
	uint64_t value;
	uint32_t parent, id; /* 0: none is here */
};
enum { GM_CODES_SEEN = 256, GM_CHILDREN_SEEN = 1024 };

struct gm_python_raw {
	uint64_t frame, code, instruction, previous;
	bool is_between;
};

struct gm_native_slot {
	uint64_t pc, rsp, rbp; /* the registers in this frame */
	uint64_t pc_at,
	        rbp_at;  /* where the stack has them; rbp_at 0: it is as in the frame within */
	uint64_t rsp_at; /* where rsp was read, 0: it follows from the frame within */
	uint32_t stack;  /* of which it is the innermost frame */
	bool exact;      /* pc is of an instruction that did not call: it was interrupted */
	bool by_rbp;     /* its caller was found by rbp */
	uint64_t unused; /* a slot is a line of the cache */
};

/* A native stack that the thread had before: seen.c. */
struct gm_seen {
	uint64_t pc, rsp, rbp; /* of the innermost frame */
	uint64_t salt;         /* 0: none is here */
	uint64_t first;        /* of the thread's words, counted from its beginning */
	uint32_t count;
	uint32_t stack;
	bool has_rbp;    /* rbp must be the same */
	uint64_t unused; /* one is a line of the cache */
};
_Static_assert(sizeof(struct gm_seen) == 64, "a line of the cache");
enum { GM_SEEN = 2048, GM_SEEN_WAYS = 4, GM_SEEN_WORDS = 1 << 17 };

/* Whose stack is borrowed for a task of the autograd engine. */
struct gm_borrowed_from {
	uint64_t task;        /* its number plus 1 */
	uint32_t owner;       /* number of the thread plus 1; 0: not known */
	uint32_t tries;       /* to find it */
	uint64_t frame, code; /* its innermost frame then */
};
enum { GM_BORROWED_FROM = 8 };

/* What a thread knows of its last stacks. Mapped when the thread records first, given to another
 * when it ends. */
struct gm_stacks_thread {
	uint32_t number; /* among all threads' */
	uint32_t captures;
	uint32_t generation;  /* of the start whose numbers are below */
	uint64_t stack_end;   /* of the C stack; 0: not known */
	uint64_t stack_start; /* the lowest address it may have */
	uint64_t task_place;  /* in it, the variable with the engine's task; 0: not known (waiter.c)
	                       */
	uint32_t python_count, native_count;
	uint64_t base; /* the frame of the interpreter's that `python` is on; 0: none, up to 3.14
	                */

	/* borrow.c */
	_Atomic uint64_t state;    /* PyThreadState that it had at its last event */
	_Atomic uint32_t visitors; /* threads that read this one's Python frames now */
	_Atomic bool alive;
	bool native_ended; /* `native` goes to where the stack begins, not to code of no file */
	bool is_named, is_autograd;
	bool is_pythons, had_none; /* started by Python: its state lives as long as it */
	bool has_frames;           /* of its own, at its last event */
	uint32_t kernel_id;
	struct gm_borrowed_from borrowed_from[GM_BORROWED_FROM]; /* by the engine's task */

	struct gm_open_loop loops[GM_STACKS_LOOPS]; /* of `python`, outermost first */
	uint32_t loop_count;
	uint32_t loops_index, loops_from,
	        loops_to; /* the frame looked at last: it stands in the same loops from .. to */
	uint16_t python_index[GM_PYTHON_INDEX]; /* of `python`, by the frame's address */

	uint64_t forward; /* forward.c: hash of what was said last; 0: nothing */

	struct gm_agent_tensor_note tensor; /* agent/tensors.c */

	/* tasks.c */
	uint32_t
	        task_index; /* in `python`, of the outermost coroutine; UINT32_MAX: there is none */
	uint32_t task_depth; /* as it was told */
	uint64_t task_frame; /* its frame, as it was told; 0: none */
	bool task_turned;    /* since the loops were examined */

	size_t scratch_used; /* of `record`: decoding.h */
	/* a slot is a line of the cache */
	_Alignas(64) struct gm_python_slot python[GM_STACKS_FRAMES_MAX + 1]; /* outermost first */
	_Alignas(64) struct gm_native_slot native[GM_STACKS_FRAMES_MAX + 1]; /* outermost first */
	struct gm_native_slot walked[GM_STACKS_FRAMES_MAX + 1];              /* innermost first */
	struct gm_python_raw raw[GM_STACKS_FRAMES_MAX + 8];                  /* innermost first */

	struct gm_code_seen codes_seen[GM_CODES_SEEN];
	struct gm_child_seen children_seen[GM_CHILDREN_SEEN]; /* of gm_python_trie */
	uint32_t epoch;     /* changes where what is below is void */
	uint64_t seen_used; /* words */
	_Alignas(64) struct gm_seen seen[GM_SEEN];
	uint64_t seen_words[GM_SEEN_WORDS];               /* a ring */
	_Alignas(16) uint8_t record[GM_AGENT_RECORD_MAX]; /* a record as it is put together */
};

struct gm_stacks_python {
	bool on;                                   /* the table fits, and this Python can be read */
	bool refused;                              /* it cannot, ever */
	int version;                               /* 0x030b */
	uint64_t instruction_at, instruction_mask; /* in a frame */
	uint64_t code_mask;                        /* of a frame's code: 3.14+ has a _PyStackRef */
	uint64_t shape_at,
	        shape_mask; /* in a code object: what differs of another one at its place */
	uint32_t trusted;   /* walks in which every frame was what it should be */
	uint64_t runtime;
	uint64_t code_type; /* PyCode_Type */
	uint64_t iterator_types[4];
	uint64_t generator_types[3];
	void *(*this_thread)(void); /* PyGILState_GetThisThreadState */
	struct gm_python_layout layout;
	const struct gm_opcode *opcodes;
};

extern struct gm_stacks_options gm_stacks_options;
extern struct gm_stacks_python gm_stacks_python;

/* For a stack that is deeper than may be: its innermost frames. */
static inline uint32_t gm_stacks_kept(void)
{
	return gm_stacks_options.max_frames < GM_STACKS_FRAMES_KEPT ? gm_stacks_options.max_frames
	                                                            : GM_STACKS_FRAMES_KEPT;
}
extern struct gm_trie gm_python_trie, gm_native_trie;
extern struct gm_arena gm_stacks_arena;
extern uint32_t gm_stacks_generation; /* of the start; a thread's numbers are of one */

enum { GM_STACKS_THREADS_MAX = 4096 };
extern struct gm_stacks_thread *_Atomic gm_stacks_threads[GM_STACKS_THREADS_MAX];
struct gm_stacks_thread *gm_stacks_thread(void); /* of this one; NULL: no memory */

/* thread.c: threads that ended may be taken by others from here on; forgets those that a fork left
 * behind. */
void gm_stacks_threads_begin(void);
/* In a forked child, by its only thread, before the program continues in it. */
void gm_stacks_in_child(void);
extern __thread struct gm_stacks_thread *gm_stacks_current; /* NULL: it has taken no stack yet */

/* Looks for Python among what is loaded. Cheap where it has been found or is refused. */
void gm_python_seek(void);
/* Takes no Python stacks from here on, and says why. */
void gm_python_refuse(const char *why);
/* The stack of the calling thread; `ret_state`: its PyThreadState, 0: it has none. */
uint32_t gm_python_take(struct gm_stacks_thread *thread, uint64_t *ret_state);
/* The stack of the frames from `frame` outwards, which stand still. */
uint32_t gm_python_take_from(struct gm_stacks_thread *thread, uint64_t frame);
uint64_t gm_python_innermost(uint64_t state); /* frame of a thread state, 0: none */

bool gm_codes_init(void);
void gm_codes_clear(void);
void gm_evidence_clear(void);
uint64_t gm_code_print(uint64_t code);

/* A print but for the content of code that no file has. */
static inline uint64_t gm_code_quick(uint64_t code)
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;

	if (layout->code_version != GM_NO_FIELD) {
		uint32_t version = gm_load32(code + (uint64_t)layout->code_version);
		if (GM_LIKELY(version))
			return version;
	}
	return ((gm_load(code + (uint64_t)layout->code_filename) * 3 +
	                gm_load(code + (uint64_t)layout->code_name) * 5 +
	                gm_load(code + (uint64_t)layout->code_lines) * 7 +
	                gm_load32(code + (uint64_t)layout->code_first_line)) |
	               GM_PRINT_MADE) &
	       ~GM_PRINT_CONTENT;
}

/* The entry of the code object that is there now. NULL: none is. */
const struct gm_stack_code *gm_code_at(
        struct gm_stacks_thread *thread, uint64_t code, uint64_t print);

static inline uint32_t gm_code_offset(
        const struct gm_python_layout *layout, int version, uint64_t code, uint64_t instruction)
{
	int64_t offset;

	if (layout->frame_instruction != GM_NO_FIELD)
		offset = (int64_t)(instruction - code - (uint64_t)(int64_t)layout->code_adaptive);
	else /* 3.10 counts code units, 3.9 bytes */
		offset = (int64_t)(int32_t)instruction * (version >= 0x030a ? 2 : 1);
	return offset < 0 ? 0 : (uint32_t)offset & ~1u;
}

/* --- native.c, rows.c, modules.c -------------------------------------------------------------- */

/* `hint`: any number by which stacks differ mostly. */
uint32_t gm_native_take(
        struct gm_stacks_thread *thread, const struct gm_agent_registers *at, uint32_t hint);
/* The stack, if it is one that the thread had and that was kept; 0: it is not. */
uint32_t gm_seen_find(
        struct gm_stacks_thread *thread, const struct gm_agent_registers *at, uint32_t hint);
/* Keeps the thread's last stack. */
void gm_seen_keep(struct gm_stacks_thread *thread, uint32_t hint);

/* Where the caller's registers are, seen from an instruction. */
enum gm_frame_row_kind {
	GM_ROW_UNKNOWN = 0, /* nothing says it: the walk ends */
	GM_ROW_END,         /* the outermost frame */
	GM_ROW_RSP,         /* CFA = rsp + offset */
	GM_ROW_RBP,         /* CFA = rbp + offset */
	GM_ROW_RBP_LOAD,    /* CFA = *(rbp + offset): a function that aligns its stack */
	GM_ROW_SIGNAL,      /* the kernel's frame of a signal handler: registers are in it */
	GM_ROW_PLT,         /* CFA = rsp + offset + 8 where the entry has pushed */
};
enum gm_rbp_kind {
	GM_RBP_SAME = 0,
	GM_RBP_CFA /* at CFA + offset */,
	GM_RBP_RBP /* at rbp + offset */
};

struct gm_frame_row {
	uint8_t kind, rbp;
	int16_t rbp_offset;
	int32_t offset;
};
_Static_assert(sizeof(struct gm_frame_row) == 8, "a row is one word");

bool gm_row_slots_init(void);
void gm_row_slots_clear(void);
struct gm_frame_row gm_row_search(struct gm_stacks_thread *thread, uint64_t pc);
/* Reads .eh_frame by way of .eh_frame_hdr of the loaded file at `bias`. */
struct gm_frame_row gm_frame_table_row(uint64_t frame_header, uint64_t frame_header_size,
        uint64_t start, uint64_t end, uint64_t pc);

struct gm_row_slot {
	_Atomic uint64_t key; /* pc ^ row ^ what changes when a library goes */
	_Atomic uint64_t row;
};
enum { GM_ROW_SLOTS = 1 << 15 };
extern struct gm_row_slot *gm_row_slots;
extern _Atomic uint64_t gm_unload_salt; /* another after each unloading */

static inline struct gm_frame_row gm_row_of(struct gm_stacks_thread *thread, uint64_t pc)
{
	/* Two words that are written by several threads: only a pair that was written together fits
	 * its key. */
	struct gm_row_slot *slot = &gm_row_slots[pc * UINT64_C(0x9e3779b97f4a7c15) >> (64 - 15)];
	uint64_t salt = atomic_load_explicit(&gm_unload_salt, memory_order_relaxed);
	uint64_t row = atomic_load_explicit(&slot->row, memory_order_relaxed);
	uint64_t key = atomic_load_explicit(&slot->key, memory_order_relaxed);
	struct gm_frame_row ret;

	if (GM_UNLIKELY((key ^ row ^ salt) != pc || !row))
		return gm_row_search(thread, pc);
	memcpy(&ret, &row, sizeof(ret));
	return ret;
}

struct gm_loaded {
	uint64_t start, end, bias; /* [start, end) of all its segments */
	uint64_t frame_header, frame_header_size;
};
/* The loaded file that has the address. It is written to the file of the agent when it is met
 * first. */
bool gm_module_at(struct gm_stacks_thread *thread, uint64_t address, struct gm_loaded *ret);
void gm_modules_clear(void);
/* A library was unloaded: what is known of addresses may be wrong. To be called where dlclose() can
 * be seen; it is noticed without, but later. Any thread, any time. */
void gm_stacks_unloaded(void);
/* Notices whether something was unloaded since. Takes the loader's lock for a moment. */
void gm_modules_poll(void);
/* An exported symbol of what is loaded, by its hash tables: no lock that dlopen() holds. 0:
 * none. */
uint64_t gm_module_symbol(const char *name);

/* --- dying.c, iterators.c, borrow.c --------------------------------------------------------------
 */

uint32_t gm_dying_take(struct gm_stacks_thread *thread, uint64_t state);
struct gm_code_tables {
	const uint8_t *bytecode, *lines, *exceptions;
	size_t bytecode_size, lines_size, exceptions_size;
	uint32_t first_line;
};
void gm_iterators_prepare(struct gm_stacks_thread *thread, struct gm_stack_code *code,
        const struct gm_code_tables *tables);
/* A frame of `python` is new, whose code has loops. */
void gm_iterators_open(struct gm_stacks_thread *thread, uint32_t index, uint32_t offset);
void gm_iterators_take(struct gm_stacks_thread *thread);
void gm_iterators_clear(void);
uint32_t gm_borrow_take(struct gm_stacks_thread *thread);
/* tasks.c */
bool gm_task_is_coroutine(uint32_t flags); /* co_flags */
void gm_tasks_clear(void);
/* From here on the thread's events are of another task: that of the coroutine's frame, which has
 * `depth` frames around it; 0: of none. */
void gm_tasks_turn(struct gm_stacks_thread *thread, uint64_t frame, uint32_t depth);

/* To which task does `python` belong, when it was taken? */
static inline void gm_tasks_take(struct gm_stacks_thread *thread)
{
	const uint32_t at = thread->task_index;
	const uint64_t frame = at < thread->python_count ? thread->python[at].frame : 0;

	if (GM_UNLIKELY(frame != thread->task_frame || (frame && at != thread->task_depth)))
		gm_tasks_turn(thread, frame, at);
}
enum { GM_WAITERS_MAX = 64 };
/* waiter.c: of several threads (by their numbers) the one that waits for this one; GM_WAITERS_MAX:
 * not known. */
size_t gm_waiter_of(struct gm_stacks_thread *thread, const uint32_t *waiters, size_t count);
bool gm_native_find_stack(struct gm_stacks_thread *thread);
/* forward.c: has anomaly mode ever been on? Then this event's forward stack is told where it is
 * another than before. */
bool gm_forward_is_on(void);
void gm_forward_take(struct gm_stacks_thread *thread);
/* code.c */
uint8_t *gm_put_utf8(uint8_t *at, uint32_t character);

#endif
