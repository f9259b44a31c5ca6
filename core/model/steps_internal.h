/* The parts of the detector of steps, shared by the files of core/model that make it. */
#ifndef GM_MODEL_STEPS_INTERNAL_H
#define GM_MODEL_STEPS_INTERNAL_H

#include "base/array.h"
#include "model/step_types.h"

enum {
	GM_STEP_LOOPS_MAX = 64, /* of one code object */
	GM_STEP_WORK = GM_LANDMARK_MODULE | GM_LANDMARK_BACKWARD | GM_LANDMARK_OPTIMIZER,
	GM_STEP_CONSUMES = GM_LANDMARK_OPTIMIZER | GM_LANDMARK_ZERO_GRAD, /* gradients end there */
};

/* A loop that some stack stands in: what does not depend on the thread. */
struct known_loop {
	uint32_t code, loop, line, line_end;
	uint32_t depth;   /* of its frame from the outermost, the least seen */
	uint32_t nesting; /* loops of the same code around it */
	bool candidate;   /* without work too */
	bool library;
	char *file; /* owned; NULL: no memory */
};

/* How far one thread has come in a loop. */
struct followed {
	uint64_t events;
	uint64_t fed;       /* the number of the thread's last event in it */
	uint64_t position;  /* of its iterator, as told last */
	bool inside;        /* that was the event before this one */
	bool has_position;  /* the position of its iterator is known: that says its iterations */
	bool turned;        /* and it has moved since the last event within */
	bool ahead;         /* the iteration in progress began before its iterator had moved */
	bool moved_at_head; /* at the event before this one it had moved, and the frame was still at
	                       the head */
	bool thick;         /* allocations come from several instructions */
	uint32_t counted;   /* of its iterations, as steps */
	uint32_t iteration; /* its latest, of all */
	uint32_t last_lasti;
	uint32_t last_inner; /* index + 1 of the loop right within it that the last event was in */
	uint32_t last_stack; /* of the last event in what its frame calls, at last_lasti; 0: none */
	uint32_t iterations; /* iterations, by control going up */
	uint32_t thin_iterations;  /* the same and by repeated allocations */
	uint32_t named_iterations; /* these, and the first after each iteration of a loop around it
	                            */
	uint32_t alloc_lasti;      /* of the first allocation within, plus 1 */
	uint32_t updates;          /* of the iterations, those in which gradients were consumed */
	uint32_t windows;          /* of the thread, when that was last looked at */
	bool updated;              /* gradients were consumed in this iteration */
	bool passed;               /* this iteration has had a backward pass */
	uint32_t passes;           /* of the iterations, those with a backward pass */
	uint32_t uneven;  /* how often gradients accumulated over two iterations, or an iteration
	                     began to accumulate a second time */
	uint64_t callers; /* of its frame, at the last event in it */
	uint32_t latest_task;    /* of the thread's, the one that was in it last; 0: none */
	bool shared;             /* one was in it, another came, and the first came back */
	GM_ARRAY(uint64_t) seen; /* allocation sites of this iteration, while thin */
};

/* A thread, or one of the tasks that take turns in it. */
struct step_thread {
	uint64_t id; /* 0: not recorded */
	uint32_t outermost;
	uint32_t task;   /* 0: it is the thread, with all its tasks */
	uint32_t depth;  /* of the task's own frames; loops further out are not its own */
	uint64_t fed;    /* its events that told something */
	uint64_t latest; /* when, among all threads' */
	uint32_t latest_stack;
	unsigned landmarks;                 /* seen in all */
	enum gm_phase phase;                /* proven last, if it is aside */
	unsigned pending;                   /* work that was marked since its last event */
	bool works;                         /* gradients have been made since they were consumed */
	bool opens;                         /* the last event made the first of these */
	uint32_t windows;                   /* how often they were consumed */
	GM_ARRAY(struct followed) followed; /* by number of the known loop */
	GM_ARRAY(uint8_t) seen;             /* stacks: bit by id */
};

/* A loop that a stack stands in. */
struct standing {
	uint32_t known;
	uint32_t depth;   /* of its frame from the outermost */
	uint64_t callers; /* where each of the frames around its frame stands: a hash */
	uint32_t lasti;
	uint32_t inner;   /* index + 1 in the code's loops of the loop right within, 0: none */
	bool inner_loops; /* some loop within it, in its frame or in one further in, is in progress
	                   */
	bool at_head;     /* its iterator makes its next item */
	bool innermost;   /* its frame calls no other */
	bool leaving;     /* its frame is leaving a `with`: in a snapshot, whose lines are all that
	                     is known, it stands on the first line of that again */
};

/* Where one frame stands, and in which of its code's loops (bit i: loop i). */
struct place {
	uint32_t code, lasti;
	uint64_t loops;
};

/* What a stack says, worked out once. */
struct summary {
	bool known;
	uint32_t outermost; /* code of the outermost frame */
	bool threading;     /* it begins a thread that the program made by Python's `threading` */
	unsigned landmarks;
	bool closure;        /* the optimizer called it, and updates the weights afterwards */
	enum gm_phase phase; /* OTHER: its frames do not tell */
	bool evaluates;      /* some frame says that no training is done */
	/* Generation of text. A model's own loops, over its layers, are none of decoding. */
	uint64_t generation;  /* which call of generate() it stands in, 0: in none */
	struct place turning; /* within that, the innermost loop outside of modules */
	uint64_t model_call;  /* where that calls its outermost module: a hash, 0: nowhere */
	uint32_t model;       /* code of that module's forward(), 0: torch's own, or none */
	uint32_t count;       /* loops outside of the work, from the outermost in */
	struct standing *standing;
	uint8_t *marked; /* work that was marked within the first i of them; NULL: none */
	/* the frames from the outermost in, up to the first of torch's own */
	uint32_t place_count;
	struct place *places;
	uint64_t places_hash;
	uint64_t call; /* where the outermost module is called: a hash of the frames around, 0: none
	                  is */
};

/* A loop that is in another iteration since the last event that stood in it. */
struct turn {
	uint32_t code, loop;
	uint64_t position;
};

/* What a thread runs now. */
struct running {
	uint64_t thread;
	uint32_t task, depth;
};

struct iteration {
	uint8_t loop; /* of the plan's */
	bool follows; /* on another of its loop, which was not left between */
	bool works;   /* something of the plan's work was seen in it */
	bool backward;
	bool before,
	        after; /* gradients were consumed before its first backward pass, after its last */
	bool begun;    /* before its first backward pass a step() of the optimizer was marked, which
	                  may have a closure */
};

enum { GM_STEP_TURNS_MAX = 64 };

struct gm_steps {
	gm_step_frames frames;
	void *context;
	GM_ARRAY(struct known_loop) known;
	GM_ARRAY(struct summary) summaries; /* by stack id */
	GM_ARRAY(struct step_thread) threads;
	GM_ARRAY(struct running) running;
	size_t near; /* the thread of the last event */
	struct turn turns[GM_STEP_TURNS_MAX];
	size_t turn_count;
	unsigned landmarks; /* of all threads */
	bool changed;       /* something was seen that the plan may hang on, since it was made */
	bool fixed;
	struct gm_step_plan plan;
	GM_ARRAY(struct iteration) iterations; /* [0]: none */
	uint32_t step;                         /* iteration */
	uint32_t loop_task; /* of the plan's thread, the one that was in its loops last; 0: none */
	/* GM_STEPS_UPDATES: in the iteration in progress */
	bool consumed, begins_by_zero_grad;
	/* phases */
	enum gm_phase phase;
	bool aside; /* the last event is of a thread or task that the program made beside the plan's
	             */
	enum gm_phase aside_phase;
	enum gm_phase pass_phase; /* how far this iteration has come: FORWARD, BACKWARD or OTHER */
	uint32_t phase_step;
	bool foreign;        /* the event that is fed is another library's */
	bool entered;        /* the loop has been entered once */
	bool modules;        /* some module has been called */
	uint64_t generation; /* the call of generate() that the last event was in */
	struct place turning;
	bool decoding;  /* its first forward pass has ended */
	bool elsewhere; /* the others are called at another place than the first */
	uint64_t model_call;
	uint32_t model;      /* of its first forward pass */
	struct place prompt; /* the loop around that */
	uint64_t fed;        /* events of all threads that told something */
	bool repeatable;     /* a further allocation at the latest stack tells nothing either */
	uint64_t repeated;   /* events since that told nothing new */
};

/* step_stacks.c */
struct summary *gm_steps_summary(struct gm_steps *steps, uint32_t stack); /* NULL: no memory */
void gm_steps_free_summaries(struct gm_steps *steps);

/* step_tasks.c: what the thread runs; NULL: no task that is known. */
const struct running *gm_steps_running(const struct gm_steps *steps, uint64_t thread);
/* The task of a thread, made where it is new. NULL: there are too many, or no memory. */
struct step_thread *gm_steps_task_of(
        struct gm_steps *steps, uint64_t thread, const struct running *running, uint32_t outermost);
/* Which of the thread's loops several tasks are in at once. To be called before the task's own
 * loops are fed. */
void gm_steps_share_loops(
        struct step_thread *thread, const struct step_thread *task, const struct summary *summary);
/* The first of a stack's loops that is the thread's (a task's: its own). */
static inline uint32_t gm_steps_first_loop(
        const struct step_thread *thread, const struct summary *summary)
{
	uint32_t i = 0;
	while (thread->depth && i < summary->count && summary->standing[i].depth < thread->depth)
		i++;
	return i;
}

/* step_iterations.c: an event of a thread, in each loop that its stack stands in. False: no memory.
 * `last`: nobody else is fed with it. */
bool gm_steps_feed_loops(struct gm_steps *steps, struct step_thread *thread,
        const struct summary *summary, const struct gm_step_event *event, bool made, bool last);
static inline struct followed *gm_steps_followed(const struct step_thread *thread, uint32_t known)
{
	return known < thread->followed.count ? &thread->followed.items[known] : NULL;
}

/* step_phase.c */
void gm_steps_set_phase(struct gm_steps *steps, const struct summary *summary);
/* The stack of another thread: the autograd thread's own Python, a loader's. */
void gm_steps_set_thread_phase(struct gm_steps *steps, const struct summary *summary);
/* The stack of a thread or task that the program made beside the plan's (thread: NULL, if there are
 * too many). One that does no work of a step prepares data. */
void gm_steps_set_aside_phase(
        struct gm_steps *steps, struct step_thread *thread, const struct summary *summary);

/* step_count.c: the iteration that an event of the plan's thread is in. */
void gm_steps_count(
        struct gm_steps *steps, struct step_thread *thread, const struct summary *summary);
void gm_steps_count_mark(struct gm_steps *steps, unsigned work);

#endif
