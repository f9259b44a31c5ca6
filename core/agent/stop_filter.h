/*
 * The filter that decides at which events the agent calls gpumem_agent_at_event(), on which a
 * debugger has a breakpoint: the format that the debugger writes into the process, and its
 * evaluation. Used by core/walk as well.
 *
 * A condition (model/condition.h) is compiled into operations in postfix order. The agent does not
 * have all properties: names are derived by the reader. So a result is the set of truth values that
 * the condition may have; a set without "true" causes no stop. At a stop the debugger reads the
 * event and evaluates the condition itself. Where the event's Python stack,
 * native stack or tensor alone rules the condition out, it marks their numbers in the tables
 * gpumem_agent_stop_never, so that none of them is a stop again.
 */
#ifndef GM_AGENT_STOP_FILTER_H
#define GM_AGENT_STOP_FILTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Sets of truth values. */
enum { GM_MAY_BE_FALSE = 1, GM_MAY_BE_TRUE = 2, GM_MAY_BE_UNKNOWN = 4, GM_MAY_BE_ANY = 7 };

enum gm_stop_kind {
	GM_STOP_CLAUSE = 1,
	GM_STOP_SET, /* `number` is the set */
	GM_STOP_NOT,
	GM_STOP_AND,
	GM_STOP_OR,
};

enum gm_stop_fact {
	GM_STOP_SIZE = 1,
	GM_STOP_REQUESTED,
	GM_STOP_STREAM,
	GM_STOP_ADDRESS,
	GM_STOP_DEVICE,
	GM_STOP_ALLOCATED,
	GM_STOP_RESERVED,
	GM_STOP_EVENT,
	GM_STOP_ACTION, /* `number`: bits of the actions of a log that fit */
	GM_STOP_FOUND,  /* something that is not finite was found since the thread's last event */
};

enum gm_stop_compare {
	GM_STOP_IS = 1,
	GM_STOP_IS_NOT,
	GM_STOP_LESS,
	GM_STOP_AT_MOST,
	GM_STOP_MORE,
	GM_STOP_AT_LEAST,
};

struct gm_stop_op {
	uint8_t kind, fact, compare;
	uint8_t unused[5];
	uint64_t number;
};

enum { GM_STOP_OPS_MAX = 1024, GM_STOP_DEPTH_MAX = 128 };

/* Written while all threads stand. */
struct gm_stop_filter {
	uint32_t pid;        /* the process that it is for, not a child of it; 0: none */
	uint32_t generation; /* 1 to 255: the mark in the tables */
	uint32_t count;      /* of operations */
	uint32_t unused;
	/* The number in the log of the next event's first one is not below `least`, and that of its
	 * last one below `most`; counted on by the agent. */
	_Atomic uint64_t least, most;
	struct gm_stop_op ops[GM_STOP_OPS_MAX];
};

enum {
	GM_STOP_PYTHON_MAX = 1 << 20, /* numbers that have a mark */
	GM_STOP_NATIVE_MAX = 1 << 21,
	GM_STOP_TENSORS_MAX = 1 << 17,
};

/* The argument of gpumem_agent_at_event(). */
struct gm_stop_here {
	uint64_t sequence; /* of the event */
	uint32_t python, native, tensor, unused;
};

static inline unsigned gm_stop_not(unsigned set)
{
	return (set & GM_MAY_BE_UNKNOWN) | (set & GM_MAY_BE_FALSE ? GM_MAY_BE_TRUE : 0) |
	       (set & GM_MAY_BE_TRUE ? GM_MAY_BE_FALSE : 0);
}

static inline unsigned gm_stop_and(unsigned a, unsigned b)
{
	unsigned both = a & b, some = GM_MAY_BE_TRUE | GM_MAY_BE_UNKNOWN;
	bool unknown = (a & GM_MAY_BE_UNKNOWN && b & some) || (b & GM_MAY_BE_UNKNOWN && a & some);
	return ((a | b) & GM_MAY_BE_FALSE) | (both & GM_MAY_BE_TRUE) |
	       (unknown ? GM_MAY_BE_UNKNOWN : 0);
}

static inline unsigned gm_stop_or(unsigned a, unsigned b)
{
	return gm_stop_not(gm_stop_and(gm_stop_not(a), gm_stop_not(b)));
}

/* For a number that is known to be in [least, most]. */
static inline unsigned gm_stop_compare(
        enum gm_stop_compare compare, uint64_t number, uint64_t least, uint64_t most)
{
	bool may, must;
	switch (compare) {
	case GM_STOP_IS:
	case GM_STOP_IS_NOT:
		may = least <= number && number <= most;
		must = least == number && most == number;
		if (compare == GM_STOP_IS_NOT)
			return gm_stop_not(
			        (may ? GM_MAY_BE_TRUE : 0) | (must ? 0 : GM_MAY_BE_FALSE));
		break;
	case GM_STOP_LESS:
		may = least < number;
		must = most < number;
		break;
	case GM_STOP_AT_MOST:
		may = least <= number;
		must = most <= number;
		break;
	case GM_STOP_MORE:
		may = most > number;
		must = least > number;
		break;
	case GM_STOP_AT_LEAST:
		may = most >= number;
		must = least >= number;
		break;
	default:
		return GM_MAY_BE_ANY;
	}
	return (may ? GM_MAY_BE_TRUE : 0) | (must ? 0 : GM_MAY_BE_FALSE);
}

/* Applies an operation that combines results to a stack of them, `depth` high. Returns the new
 * height, 0: it is no such operation, or there are too few. */
static inline uint32_t gm_stop_combine(uint8_t kind, uint8_t *sets, uint32_t depth)
{
	if (kind == GM_STOP_NOT && depth >= 1) {
		sets[depth - 1] = (uint8_t)gm_stop_not(sets[depth - 1]);
		return depth;
	}
	if ((kind != GM_STOP_AND && kind != GM_STOP_OR) || depth < 2)
		return 0;
	unsigned a = sets[depth - 2], b = sets[depth - 1];
	sets[depth - 2] = (uint8_t)(kind == GM_STOP_AND ? gm_stop_and(a, b) : gm_stop_or(a, b));
	return depth - 1;
}

#endif
