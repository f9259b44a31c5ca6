#include "model/condition.h"

#include <stdlib.h>
#include <string.h>

#include "model/condition_nodes.h"

void gm_condition_destroy(struct gm_condition *condition)
{
	if (!condition)
		return;
	for (size_t i = 0; i < condition->nodes.count; i++)
		free(condition->nodes.items[i].clause.text);
	gm_array_deinit(&condition->nodes);
	free(condition);
}

bool gm_condition_node(const struct gm_condition *condition, size_t i, enum gm_node_kind *ret_kind,
        const struct gm_clause **ret_clause)
{
	if (i >= condition->nodes.count)
		return false;
	const struct gm_condition_node *node = &condition->nodes.items[i];
	*ret_kind = node->kind;
	*ret_clause = node->kind == GM_NODE_CLAUSE ? &node->clause : NULL;
	return true;
}

/* --- contradictions --------------------------------------------------------------------------- */

/* The values of each fact that remain possible if all comparisons must be true. */
struct left {
	uint64_t step; /* the lowest that is possible, besides 0: events outside of the loop */
	uint64_t least[GM_FACT_COUNT], most[GM_FACT_COUNT]; /* of numbers */
	const char *text[GM_FACT_COUNT];                    /* of texts, NULL: any */
};

static bool leaves_number(struct left *left, const struct gm_clause *clause)
{
	uint64_t *least = &left->least[clause->fact], *most = &left->most[clause->fact];
	bool below = clause->compare == GM_LESS, above = clause->compare == GM_MORE;
	if ((below && clause->number == 0) || (above && clause->number == UINT64_MAX))
		return false;
	bool lower = above || clause->compare == GM_AT_LEAST || clause->compare == GM_IS;
	bool upper = below || clause->compare == GM_AT_MOST || clause->compare == GM_IS;
	if (lower && clause->number + above > *least)
		*least = clause->number + above;
	if (upper && clause->number - below < *most)
		*most = clause->number - below;
	if (clause->fact == GM_FACT_STEP && *least > 0 && *most < left->step)
		return false;
	return *least <= *most;
}

static bool leaves_text(struct left *left, const struct gm_clause *clause)
{
	/* an event has several frames, but one phase */
	bool single = clause->fact == GM_FACT_PHASE || clause->fact == GM_FACT_ACTION ||
	              clause->fact == GM_FACT_CATEGORY || clause->fact == GM_FACT_DTYPE;
	if (!single || clause->compare != GM_IS)
		return true;
	const char **text = &left->text[clause->fact];
	if (!*text)
		*text = clause->text;
	return strcmp(*text, clause->text) == 0;
}

/* False: no value is possible. Clauses under `not` are not examined. */
static bool leaves(const struct gm_condition *condition, size_t index, struct left *left)
{
	const struct gm_condition_node *node = &condition->nodes.items[index];
	switch (node->kind) {
	case GM_NODE_CLAUSE:
		return gm_fact_is_number(node->clause.fact) ? leaves_number(left, &node->clause)
		                                            : leaves_text(left, &node->clause);
	case GM_NODE_AND:
		return leaves(condition, node->left, left) && leaves(condition, node->right, left);
	case GM_NODE_OR: {
		struct left one = *left, other = *left;
		return leaves(condition, node->left, &one) ||
		       leaves(condition, node->right, &other);
	}
	case GM_NODE_NOT:
		break;
	}
	return true;
}

bool gm_condition_is_hopeless(const struct gm_condition *condition, uint64_t step, uint64_t event)
{
	struct left left = {.step = step};
	for (size_t i = 0; i < GM_FACT_COUNT; i++)
		left.most[i] = UINT64_MAX;
	left.least[GM_FACT_EVENT] = event;
	return !leaves(condition, condition->root, &left);
}

bool gm_condition_mentions(const struct gm_condition *condition, enum gm_fact fact)
{
	for (size_t i = 0; i < condition->nodes.count; i++) {
		const struct gm_condition_node *node = &condition->nodes.items[i];
		if (node->kind == GM_NODE_CLAUSE && node->clause.fact == fact)
			return true;
	}
	return false;
}

/* --- evaluation ------------------------------------------------------------------------------- */

static enum gm_truth holds(
        const struct gm_condition *condition, size_t index, gm_judge *judge, const void *subject)
{
	const struct gm_condition_node *node = &condition->nodes.items[index];
	if (node->kind == GM_NODE_CLAUSE)
		return judge(subject, &node->clause);
	enum gm_truth left = holds(condition, node->left, judge, subject);
	if (node->kind == GM_NODE_NOT)
		return left == GM_UNKNOWN ? GM_UNKNOWN : left == GM_TRUE ? GM_FALSE : GM_TRUE;
	/* the value that decides alone: false for `and`, true for `or` */
	enum gm_truth decides = node->kind == GM_NODE_AND ? GM_FALSE : GM_TRUE;
	if (left == decides)
		return left;
	enum gm_truth right = holds(condition, node->right, judge, subject);
	return right == decides || left != GM_UNKNOWN ? right : GM_UNKNOWN;
}

enum gm_truth gm_condition_holds(
        const struct gm_condition *condition, gm_judge *judge, const void *subject)
{
	return holds(condition, condition->root, judge, subject);
}

static enum gm_truth truth(bool value)
{
	return value ? GM_TRUE : GM_FALSE;
}

enum gm_truth gm_compare_numbers(uint64_t number, const struct gm_clause *clause)
{
	switch (clause->compare) {
	case GM_IS:
		return truth(number == clause->number);
	case GM_IS_NOT:
		return truth(number != clause->number);
	case GM_LESS:
		return truth(number < clause->number);
	case GM_AT_MOST:
		return truth(number <= clause->number);
	case GM_MORE:
		return truth(number > clause->number);
	case GM_AT_LEAST:
		return truth(number >= clause->number);
	default:
		return GM_UNKNOWN;
	}
}

enum gm_truth gm_compare_texts(const char *text, const struct gm_clause *clause)
{
	if (clause->compare == GM_CONTAINS)
		return truth(strstr(text, clause->text));
	return truth((strcmp(text, clause->text) == 0) == (clause->compare == GM_IS));
}

static bool matches(const int64_t *sizes, size_t count, const int64_t *pattern, size_t length)
{
	/* `...` matches as few as possible: if the rest fails, the last `...` takes one more */
	size_t at = 0, in_pattern = 0, resume_at = 0, resume = SIZE_MAX;
	while (at < count) {
		if (in_pattern < length && pattern[in_pattern] == GM_ANY_SIZES) {
			resume = ++in_pattern;
			resume_at = at;
		} else if (in_pattern < length && (pattern[in_pattern] == GM_ANY_SIZE ||
		                                          pattern[in_pattern] == sizes[at])) {
			at++;
			in_pattern++;
		} else if (resume != SIZE_MAX) {
			in_pattern = resume;
			at = ++resume_at;
		} else {
			return false;
		}
	}
	while (in_pattern < length && pattern[in_pattern] == GM_ANY_SIZES)
		in_pattern++;
	return in_pattern == length;
}

enum gm_truth gm_compare_shapes(const int64_t *sizes, size_t count, const struct gm_clause *clause)
{
	return truth(matches(sizes, count, clause->sizes, clause->size_count) ==
	             (clause->compare == GM_IS));
}

/* `*` matches as little as possible: if the rest fails, the last `*` takes one more */
static bool matches_text(const char *text, const char *pattern)
{
	const char *resume = NULL, *resume_at = NULL;
	while (*text) {
		if (*pattern == '*') {
			resume = ++pattern;
			resume_at = text;
		} else if (*pattern == *text) {
			pattern++;
			text++;
		} else if (resume) {
			pattern = resume;
			text = ++resume_at;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

bool gm_name_fits(const char *name, const struct gm_clause *clause)
{
	return clause->compare == GM_CONTAINS ? strstr(name, clause->text) != NULL
	                                      : matches_text(name, clause->text);
}

enum gm_truth gm_compare_several(bool there, bool any, const struct gm_clause *clause)
{
	if (!there)
		return GM_UNKNOWN;
	return truth(any == (clause->compare != GM_IS_NOT));
}

int gm_is_file(const char *path, const char *name)
{
	size_t length = strlen(path), wanted = strlen(name);
	if (wanted > length || strcmp(path + length - wanted, name) != 0)
		return 0;
	return wanted == length || path[length - wanted - 1] == '/' || name[0] == '/';
}
