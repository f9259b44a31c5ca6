/*
 * Conditions over facts of blocks or of events: "category=gradient and size>1MiB and not
 * line=train.py:31".
 *
 *   CONDITION   CLAUSE, `and`, `or`, `not` and parentheses; `and` binds more tightly than `or`
 *   CLAUSE      FACT COMPARE VALUE, or a fact that stands alone; COMPARE is one of = != < <= > >=
 *               and ~ (contains)
 *   VALUE       a word, or text in ' or "; of a shape [8, *, ...]: `*` is any size, `...` any
 *               number of them
 *
 * A clause is true, false, or unknown if the property is not recorded; `and`, `or` and `not` follow
 * Kleene's logic, so an unknown clause never selects anything, not even with `!=` or `not`. This
 * file parses conditions and combines clauses; a function of the caller evaluates a clause for a
 * given subject.
 */
#ifndef GM_MODEL_CONDITION_H
#define GM_MODEL_CONDITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum gm_fact {
	/* numbers */
	GM_FACT_SIZE, /* bytes */
	GM_FACT_REQUESTED,
	GM_FACT_STEP,
	GM_FACT_STREAM,
	GM_FACT_ADDRESS,
	GM_FACT_EVENT,     /* its number */
	GM_FACT_BLOCK,     /* number of the event that allocated the block */
	GM_FACT_DEVICE,    /* index */
	GM_FACT_ALLOCATED, /* bytes after the event, of its device */
	GM_FACT_RESERVED,
	/* texts */
	GM_FACT_ACTION, /* "alloc", "free_requested", ... */
	GM_FACT_CATEGORY,
	GM_FACT_PHASE,
	GM_FACT_DTYPE,
	GM_FACT_FUNCTION, /* of any frame */
	GM_FACT_OPERATOR,
	GM_FACT_NODE,
	GM_FACT_MODULE,     /* the class of a module whose forward() is on the Python stack */
	GM_FACT_COLLECTIVE, /* a function of torch.distributed on a stack; "none" */
	GM_FACT_LABEL,
	GM_FACT_NAME,  /* of a tensor in the block; `*` is any text */
	GM_FACT_RANGE, /* any that was open at the allocation, as the program named it */
	/* of their own form */
	GM_FACT_LINE, /* FILE or FILE:LINE, of any frame */
	GM_FACT_SHAPE,
	/* without a comparison; of the agent's events: what a GradScaler found since the thread's
	 * event before */
	GM_FACT_OVERFLOW, /* a gradient that is not finite */
	GM_FACT_SKIPPED,  /* and so left out the optimizer's step */
	GM_FACT_COUNT,
};
const char *gm_fact_name(enum gm_fact fact);

enum gm_comparison { GM_IS, GM_IS_NOT, GM_LESS, GM_AT_MOST, GM_MORE, GM_AT_LEAST, GM_CONTAINS };
enum gm_truth { GM_FALSE, GM_TRUE, GM_UNKNOWN };

enum { GM_ANY_SIZE = -1, GM_ANY_SIZES = -2, GM_PATTERN_MAX = 32 };
struct gm_clause {
	enum gm_fact fact;
	enum gm_comparison compare;
	uint64_t number; /* of numbers; of a line: its number, 0: any of the file */
	char *text;      /* of texts; of a line: the file; owned by the condition */
	int64_t sizes[GM_PATTERN_MAX];
	size_t size_count;
};

/* What a condition is about, and so which facts it may name. */
enum gm_subject {
	GM_OF_BLOCKS, /* of a recording */
	GM_OF_EVENTS, /* at breakpoints, at the moment they happen: what only a whole recording
	               * tells is refused, with the reason */
	GM_OF_AGENT_EVENTS, /* the same, recorded by the agent */
};

/* Whether a condition about this subject may name the fact. */
bool gm_fact_is_known(enum gm_fact fact, enum gm_subject subject);
/* What = and != compare the fact with, word `i`; NULL: there are no more, or it is any text. */
const char *gm_fact_word(enum gm_fact fact, unsigned i);
/* Another name of one of these words, "half" for the dtype "float16"; NULL beyond the last. */
const char *gm_fact_other_word(enum gm_fact fact, unsigned i, const char **ret_word);

struct gm_condition;
enum gm_node_kind { GM_NODE_CLAUSE, GM_NODE_NOT, GM_NODE_AND, GM_NODE_OR };
/* The condition in postfix order, node `i`: a clause, or what combines the one or two results
 * before it. False: there are no more. `*ret_clause` is the condition's, NULL of other nodes. */
bool gm_condition_node(const struct gm_condition *condition, size_t i, enum gm_node_kind *ret_kind,
        const struct gm_clause **ret_clause);

/* GM_USAGE: the column at which the text cannot be read on, and what could stand there.
 * `ret_column` (may be NULL): that column, from 1; it is set where the function fails too, 0: there
 * is none. */
struct gm_error *gm_condition_parse(const char *text, enum gm_subject subject, size_t *ret_column,
        struct gm_condition **ret_condition);
void gm_condition_destroy(struct gm_condition *condition);

typedef enum gm_truth gm_judge(const void *subject, const struct gm_clause *clause);
enum gm_truth gm_condition_holds(
        const struct gm_condition *condition, gm_judge *judge, const void *subject);

/* Is there a clause about this fact? */
bool gm_condition_mentions(const struct gm_condition *condition, enum gm_fact fact);

/*
 * Whether no event from here on can meet it: two comparisons of one fact exclude each other, or it
 * wants a step or an event that is over. `step` and `event` are the lowest that may come.
 */
bool gm_condition_is_hopeless(const struct gm_condition *condition, uint64_t step, uint64_t event);

/* Comparisons, for such functions of callers. */
enum gm_truth gm_compare_numbers(uint64_t number, const struct gm_clause *clause);
enum gm_truth gm_compare_texts(const char *text, const struct gm_clause *clause);
/* For a name: "layers.*" with `=`. */
bool gm_name_fits(const char *name, const struct gm_clause *clause);
enum gm_truth gm_compare_shapes(const int64_t *sizes, size_t count, const struct gm_clause *clause);
/*
 * The stacks of an event or block, as whoever has them gives them: frame `i`, the innermost is 0.
 * Python: false where there are no more. Native: the function's name, "" where it has none, NULL
 * where there are no more.
 */
struct gm_condition_frame {
	const char *file, *function;
	uint32_t line;
};
struct gm_condition_stacks {
	const void *context;
	bool (*python)(const void *context, size_t i, struct gm_condition_frame *ret_frame);
	const char *(*native)(const void *context, size_t i);
};
/* For the facts that stacks tell: line, function, module, operator, node, collective. */
enum gm_truth gm_compare_stacks(
        const struct gm_condition_stacks *stacks, const struct gm_clause *clause);
/* Of several frames or names: `any` fits, and there are some. */
enum gm_truth gm_compare_several(bool there, bool any, const struct gm_clause *clause);
/* Whether "/a/b/train.py" is meant by "train.py", "b/train.py" or itself. */
int gm_is_file(const char *path, const char *name);

#endif
