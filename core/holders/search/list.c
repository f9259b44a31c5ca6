/*
 * The chains of a search, described and sorted. If there are too many, the best chain of each root
 * comes before other chains of the same root. So what is left out is first an additional chain of a
 * root, and last a root.
 */
#include "holders/search/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "holders/search/finding.h"
#include "holders/describe/describe.h"
#include "holders/holders.h"
#include "holders/search/chains.h"
#include "holders/search/garbage.h"
#include "holders/search/ways.h"

enum {
	MAX_LISTED = 64,
	MAX_DESCRIBED = 4096, /* before the items of one container are merged */
	LEAST_GROUP = 3,
};

static uint32_t storage_of(struct gm_finding *finding, const struct gm_chain *chain,
        const struct gm_unattributed *unattributed)
{
	if (chain->count > 0)
		return finding->graph->edges.items[chain->edges[chain->count - 1]].to;
	return unattributed ? unattributed->vertex : (uint32_t)GM_NO_VERTEX;
}

/* Proven chains in three groups: those from a variable, those from another root, those whose first
 * object has no known holder. */
static int rank_of(const struct gm_holder *holder)
{
	if (holder->class != GM_PROVEN || !holder->rooted || holder->step_count == 0)
		return 2;
	enum gm_step_form form = holder->steps[0].form;
	return form != GM_STEP_LOCAL && form != GM_STEP_GLOBAL;
}

/* Item 2 is before item 10. */
static int by_text(const char *left, const char *right)
{
	return strverscmp(left ? left : "", right ? right : "");
}

static int by_number(int64_t left, int64_t right)
{
	return left < right ? -1 : left > right;
}

/* In the order of a sentence's operands. `index`: the index of items counts. */
static int by_step(
        const struct gm_holder_step *left, const struct gm_holder_step *right, bool index)
{
	int order = by_number(left->form, right->form);
	order = order ? order : by_text(left->slot, right->slot);
	order = order ? order : by_text(left->name, right->name);
	order = order || !index ? order : by_number(left->index, right->index);
	order = order ? order : by_text(left->type, right->type);
	order = order ? order : by_text(left->of, right->of);
	order = order ? order : gm_native_owner_compare(left->native, right->native);
	order = order ? order : by_text(left->function, right->function);
	order = order ? order : by_text(left->file, right->file);
	return order ? order : by_number(left->line, right->line);
}

/* Compares what is shown, from the tensor outwards. `index`: the index of the first item counts. */
static int by_steps(const struct gm_holder *left, const struct gm_holder *right, bool index)
{
	size_t i = left->step_count, j = right->step_count;
	for (;; index = true) {
		while (i > 0 && !gm_step_speaks(&left->steps[i - 1]))
			i--;
		while (j > 0 && !gm_step_speaks(&right->steps[j - 1]))
			j--;
		if (i == 0 || j == 0)
			break;
		int order = by_step(&left->steps[--i], &right->steps[--j], index);
		if (order)
			return order;
	}
	return i || j ? (i ? 1 : -1) : by_number(left->end, right->end);
}

/* What is only looked up by the tensor, as an optimizer's state is, says less about it than what
 * has it as a value. */
static bool is_by_key(const struct gm_holder *holder)
{
	const struct gm_holder_step *first = gm_holder_first(holder);
	return first && first->form == GM_STEP_KEY_ITSELF;
}

static int by_class_and_length(const void *a, const void *b)
{
	const struct gm_holder *left = a, *right = b;
	if (left->class != right->class)
		return left->class < right->class ? -1 : 1;
	if (rank_of(left) != rank_of(right))
		return rank_of(left) - rank_of(right);
	if (is_by_key(left) != is_by_key(right))
		return is_by_key(left) - is_by_key(right);
	if (left->step_count != right->step_count)
		return left->step_count < right->step_count ? -1 : 1;
	return by_steps(left, right, true);
}

/* No typed reference to the chain's first object was found, but a plausible word: that word
 * describes the chain. */
static bool named_by_unattributed(const struct gm_finding *finding, const struct gm_chain *chain)
{
	if (chain->rooted || chain->count == 0)
		return false;
	uint32_t top = finding->graph->edges.items[chain->edges[0]].from;
	for (size_t i = 0; i < finding->chain_unattributed.count; i++)
		if (finding->chain_unattributed.items[i] &&
		        finding->chain_unattributed.items[i]->vertex == top)
			return true;
	return false;
}

/* The item of an ordered container directly at the tensor: its number; -1 if there is none. */
static int64_t item_of(const struct gm_holder *holder)
{
	const struct gm_holder_step *first = gm_holder_first(holder);
	return first && first->form == GM_STEP_ITEM ? first->index : -1;
}

/* How many holders from `first` on are adjacent items of one container. */
static size_t group_length(const struct gm_finding *finding, size_t first)
{
	const struct gm_holder *holders = finding->holders.items;
	int64_t number = item_of(&holders[first]);
	size_t count = 1;
	if (number < 0)
		return 1;
	while (first + count < finding->holders.count &&
	        holders[first + count].class == holders[first].class &&
	        holders[first + count].root == holders[first].root &&
	        item_of(&holders[first + count]) == number + (int64_t)count &&
	        by_steps(&holders[first], &holders[first + count], false) == 0)
		count++;
	return count < LEAST_GROUP ? 1 : count;
}

/* A list of a thousand views is one line: "items 0 to 999 of list: ...". Its path is that of the
 * first item. */
static void group_items(struct gm_finding *finding)
{
	size_t kept = 0;
	for (size_t i = 0; i < finding->holders.count;) {
		struct gm_holder holder = finding->holders.items[i];
		holder.references = group_length(finding, i);
		for (size_t k = 1; k < holder.references; k++)
			gm_holder_deinit(&finding->holders.items[i + k]);
		finding->holders.items[kept++] = holder;
		i += holder.references;
	}
	finding->holders.count = kept;
}

/* First the chains that are the first of their root, then all others. */
static uint32_t *order_chains(struct gm_finding *finding, size_t *ret_first)
{
	uint32_t *order = calloc(finding->chains.count + 1, sizeof(*order));
	bool *is_first = calloc(finding->chains.count + 1, sizeof(*is_first));
	struct gm_map seen = {0};
	size_t count = 0;
	bool made = order && is_first;
	for (size_t i = 0; i < finding->chains.count && made; i++) {
		const struct gm_chain *chain = &finding->chains.items[i];
		bool is_new = true;
		if (chain->rooted && chain->count > 0)
			made = gm_map_put(&seen,
			               gm_finding_root_key(finding->graph, chain->edges[0]),
			               &is_new) != NULL;
		is_first[i] = is_new;
		if (is_new && made)
			order[count++] = (uint32_t)i;
	}
	*ret_first = seen.count;
	for (size_t i = 0; i < finding->chains.count && made; i++)
		if (!is_first[i])
			order[count++] = (uint32_t)i;
	gm_map_deinit(&seen);
	free(is_first);
	if (made)
		return order;
	free(order);
	return NULL;
}

static void set_root(
        struct gm_finding *finding, const struct gm_chain *chain, struct gm_holder *holder)
{
	if (!holder->rooted || chain->count == 0)
		return;
	const struct gm_edge *edge = &finding->graph->edges.items[chain->edges[0]];
	const struct gm_mark *mark = gm_finding_mark_at(finding, edge->to);
	holder->root = gm_finding_root_key(finding->graph, chain->edges[0]);
	holder->ways = mark ? finding->ways[mark - finding->marks.items] : 1;
}

static void describe(struct gm_finding *finding, struct gm_chain *chain,
        const struct gm_unattributed *unattributed)
{
	struct gm_holder holder;
	if (!unattributed) /* that word is what the chain begins with */
		gm_finding_judge_garbage(finding, chain);
	if (!gm_graph_describe(finding->graph, chain, storage_of(finding, chain, unattributed),
	            unattributed, &holder)) {
		finding->no_memory = true;
		return;
	}
	set_root(finding, chain, &holder);
	if (!gm_array_push(&finding->holders, holder)) {
		gm_holder_deinit(&holder);
		finding->no_memory = true;
	}
}

static void describe_chains(struct gm_finding *finding, const uint32_t *order)
{
	for (size_t i = 0; i < finding->chains.count && !finding->no_memory; i++) {
		const struct gm_unattributed *unattributed =
		        finding->chain_unattributed.items[order[i]];
		struct gm_chain *chain = &finding->chains.items[order[i]];
		if (!unattributed && named_by_unattributed(finding, chain))
			continue;
		if (finding->holders.count < MAX_DESCRIBED)
			describe(finding, chain, unattributed);
		else
			finding->answer->omitted++;
	}
}

/* Numbers the roots in the order of the holders, and marks the holders whose root is also the root
 * of an earlier one. */
static void number_roots(struct gm_finding *finding)
{
	struct gm_map seen = {0};
	for (size_t i = 0; i < finding->holders.count && !finding->no_memory; i++) {
		struct gm_holder *holder = &finding->holders.items[i];
		bool is_new = false;
		if (!holder->root)
			continue;
		uint64_t *number = gm_map_put(&seen, holder->root, &is_new);
		finding->no_memory |= !number;
		if (number && is_new)
			*number = seen.count;
		holder->root = number ? (uint32_t)*number : 0;
		holder->further = !is_new;
	}
	gm_map_deinit(&seen);
}

static void omit(struct gm_finding *finding, struct gm_holder *holder)
{
	finding->answer->omitted += holder->references;
	gm_holder_deinit(holder);
}

/* Removes additional chains of a root first, from the end of the list; then further holders from
 * the end. */
static void cut(struct gm_finding *finding)
{
	size_t count = finding->holders.count, kept = 0;
	size_t over = count > MAX_LISTED ? count - MAX_LISTED : 0, further = 0;
	for (size_t i = 0; i < count; i++)
		further += finding->holders.items[i].further;
	size_t keep_further = further > over ? further - over : 0;
	for (size_t i = 0; i < count; i++) {
		struct gm_holder holder = finding->holders.items[i];
		if (holder.further && keep_further == 0 && over > 0)
			omit(finding, &holder);
		else
			finding->holders.items[kept++] = holder;
		keep_further -= holder.further && keep_further > 0;
	}
	while (kept > MAX_LISTED)
		omit(finding, &finding->holders.items[--kept]);
	finding->holders.count = kept;
}

void gm_finding_list_holders(struct gm_finding *finding)
{
	size_t listed = 0;
	struct gm_holders_answer *answer = finding->answer;
	finding->ways = gm_finding_count_ways(finding);
	gm_finding_collect(finding);
	_cleanup_free_ uint32_t *order = order_chains(finding, &answer->roots);
	if (!finding->ways || !finding->collected || !order) {
		finding->no_memory = true;
		return;
	}
	describe_chains(finding, order);
	if (finding->holders.count)
		qsort(finding->holders.items, finding->holders.count,
		        sizeof(*finding->holders.items), by_class_and_length);
	group_items(finding);
	number_roots(finding);
	cut(finding);
	for (size_t i = 0; i < finding->holders.count; i++)
		listed += finding->holders.items[i].root && !finding->holders.items[i].further;
	answer->omitted_roots = answer->roots - listed;
}
