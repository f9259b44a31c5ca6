/* Translates conditions into what the agent can evaluate: sets of truth values
 * (agent/stop_filter.h). */
#include "walk/filter.h"
#include "walk/judge.h"

/* The possible truth values of a clause if only some kinds of facts are known. */
typedef unsigned set_of(void *context, const struct gm_clause *clause);

static unsigned set_of_truth(enum gm_truth truth)
{
	return truth == GM_TRUE    ? GM_MAY_BE_TRUE
	       : truth == GM_FALSE ? GM_MAY_BE_FALSE
	                           : GM_MAY_BE_UNKNOWN;
}

static enum gm_stop_kind kind_of(enum gm_node_kind kind)
{
	return kind == GM_NODE_NOT ? GM_STOP_NOT : kind == GM_NODE_AND ? GM_STOP_AND : GM_STOP_OR;
}

/* ---- for the agent --------------------------------------------------------------------------- */

static enum gm_stop_fact fact_of(enum gm_fact fact)
{
	switch (fact) {
	case GM_FACT_SIZE:
		return GM_STOP_SIZE;
	case GM_FACT_REQUESTED:
		return GM_STOP_REQUESTED;
	case GM_FACT_STREAM:
		return GM_STOP_STREAM;
	case GM_FACT_ADDRESS:
		return GM_STOP_ADDRESS;
	case GM_FACT_DEVICE:
		return GM_STOP_DEVICE;
	case GM_FACT_ALLOCATED:
		return GM_STOP_ALLOCATED;
	case GM_FACT_RESERVED:
		return GM_STOP_RESERVED;
	case GM_FACT_EVENT:
		return GM_STOP_EVENT;
	case GM_FACT_ACTION:
		return GM_STOP_ACTION;
	case GM_FACT_OVERFLOW:
	case GM_FACT_SKIPPED:
		return GM_STOP_FOUND;
	default:
		return 0;
	}
}

static enum gm_stop_compare compare_of(enum gm_comparison compare)
{
	switch (compare) {
	case GM_IS:
		return GM_STOP_IS;
	case GM_IS_NOT:
		return GM_STOP_IS_NOT;
	case GM_LESS:
		return GM_STOP_LESS;
	case GM_AT_MOST:
		return GM_STOP_AT_MOST;
	case GM_MORE:
		return GM_STOP_MORE;
	case GM_AT_LEAST:
		return GM_STOP_AT_LEAST;
	case GM_CONTAINS:
		break;
	}
	return 0;
}

static uint64_t actions_of(const struct gm_clause *clause)
{
	uint64_t bits = 0;
	for (unsigned action = 0; action < 64 && action < GM_ACTION_COUNT; action++) {
		const char *name = gm_action_name((enum gm_action)action);
		if (name && gm_compare_texts(name, clause) == GM_TRUE)
			bits |= UINT64_C(1) << action;
	}
	return bits;
}

static struct gm_stop_op is(enum gm_stop_fact fact, uint64_t number)
{
	return (struct gm_stop_op){.kind = GM_STOP_CLAUSE,
	        .fact = (uint8_t)fact,
	        .compare = GM_STOP_IS,
	        .number = number};
}

/* `block=N`: while the block is live, it is identified by its address, which no other has
 * meanwhile. Before, the clause is true only for event N. */
static struct gm_stop_op op_of_block(struct gm_walk *walk, const struct gm_clause *clause)
{
	if (clause->compare != GM_IS)
		return (struct gm_stop_op){.kind = GM_STOP_SET, .number = GM_MAY_BE_ANY};
	if (clause->number >= walk->seen) {
		if (!walk->waits_for_block || clause->number < walk->block_waited_for)
			walk->block_waited_for = clause->number;
		walk->waits_for_block = true;
		return is(GM_STOP_EVENT, clause->number);
	}
	const struct gm_walk_block *block = gm_walk_block_of(walk, clause->number);
	if (!block)
		return (struct gm_stop_op){
		        .kind = GM_STOP_SET, .number = GM_MAY_BE_FALSE | GM_MAY_BE_UNKNOWN};
	return is(GM_STOP_ADDRESS, block->key[0]);
}

static struct gm_stop_op op_of(struct gm_walk *walk, const struct gm_clause *clause)
{
	enum gm_stop_fact fact = fact_of(clause->fact);
	if (clause->fact == GM_FACT_BLOCK)
		return op_of_block(walk, clause);
	if (!fact)
		return (struct gm_stop_op){.kind = GM_STOP_SET, .number = GM_MAY_BE_ANY};
	return (struct gm_stop_op){
	        .kind = GM_STOP_CLAUSE,
	        .fact = (uint8_t)fact,
	        .compare = (uint8_t)compare_of(clause->compare),
	        .number = fact == GM_STOP_ACTION ? actions_of(clause) : clause->number,
	};
}

static bool put(struct gm_stop_filter *filter, struct gm_stop_op op)
{
	if (filter->count == GM_STOP_OPS_MAX)
		return false;
	filter->ops[filter->count++] = op;
	return true;
}

bool gm_walk_compile(struct gm_walk *walk, struct gm_stop_filter *ret_filter)
{
	size_t due = 0;
	ret_filter->count = 0;
	walk->waits_for_block = false;
	for (size_t i = 0; i < walk->watches.list.count; i++) {
		const struct gm_watch *condition = &walk->watches.list.items[i];
		enum gm_node_kind kind;
		const struct gm_clause *clause;
		if (!gm_watch_is_due(condition))
			continue;
		for (size_t j = 0; gm_condition_node(condition->condition, j, &kind, &clause);
		        j++) {
			struct gm_stop_op op = {.kind = (uint8_t)kind_of(kind)};
			if (kind == GM_NODE_CLAUSE)
				op = op_of(walk, clause);
			if (!put(ret_filter, op))
				return false;
		}
		if (due++ && !put(ret_filter, (struct gm_stop_op){.kind = GM_STOP_OR}))
			return false;
	}
	/* a stop there, at which the address is found */
	return !walk->waits_for_block ||
	       (put(ret_filter, is(GM_STOP_EVENT, walk->block_waited_for)) &&
	               put(ret_filter, (struct gm_stop_op){.kind = GM_STOP_OR}));
}

/* ---- what rules conditions out --------------------------------------------------------------- */

enum known_by { BY_PYTHON, BY_NATIVE, BY_TENSOR };

struct known {
	const struct gm_walk *walk;
	const struct gm_event *event;
	enum known_by by;
};

static unsigned set_known(const struct known *known, const struct gm_clause *clause)
{
	switch (clause->fact) {
	case GM_FACT_DTYPE:
	case GM_FACT_SHAPE:
		/* for a release, the agent does not know the stack of the block's allocation */
		if (known->by != BY_TENSOR || known->event->action != GM_ALLOC)
			return GM_MAY_BE_ANY;
		return set_of_truth(
		        gm_walk_judge_tensor(known->walk, known->event->tensor, clause));
	case GM_FACT_LINE:
	case GM_FACT_FUNCTION:
	case GM_FACT_MODULE:
		if (known->by != BY_PYTHON)
			return GM_MAY_BE_ANY;
		break;
	case GM_FACT_OPERATOR:
	case GM_FACT_NODE:
		if (known->by != BY_NATIVE)
			return GM_MAY_BE_ANY;
		break;
	default: /* a collective may be on either stack */
		return GM_MAY_BE_ANY;
	}
	return set_of_truth(gm_walk_judge_stacks(known->walk, known->event, clause));
}

static bool may_hold(const struct gm_condition *condition, const struct known *known)
{
	uint8_t sets[GM_STOP_DEPTH_MAX];
	uint32_t depth = 0;
	enum gm_node_kind kind;
	const struct gm_clause *clause;
	for (size_t i = 0; gm_condition_node(condition, i, &kind, &clause); i++) {
		if (kind == GM_NODE_CLAUSE && depth == GM_STOP_DEPTH_MAX)
			return true;
		if (kind == GM_NODE_CLAUSE)
			sets[depth++] = (uint8_t)set_known(known, clause);
		else
			depth = gm_stop_combine((uint8_t)kind_of(kind), sets, depth);
		if (!depth)
			return true;
	}
	return depth != 1 || sets[0] & GM_MAY_BE_TRUE;
}

void gm_walk_rule_out(
        struct gm_walk *walk, const struct gm_event *event, struct gm_walk_ruled_out *ret)
{
	bool out[3];
	for (int by = BY_PYTHON; by <= BY_TENSOR; by++) {
		const struct known known = {walk, event, (enum known_by)by};
		out[by] = true;
		for (size_t i = 0; i < walk->watches.list.count; i++)
			out[by] &= !gm_watch_is_due(&walk->watches.list.items[i]) ||
			           !may_hold(walk->watches.list.items[i].condition, &known);
	}
	*ret = (struct gm_walk_ruled_out){out[BY_PYTHON], out[BY_NATIVE], out[BY_TENSOR]};
}
