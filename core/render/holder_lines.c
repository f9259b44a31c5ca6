#include "render/holder_lines.h"

#include <stdlib.h>
#include <string.h>

#include "model/wrapper_frames.h"
#include "render/chain.h"

enum {
	HIDDEN_LEAST = 3, /* fewer are listed */
	KEPT = 2,         /* of an object to which only frames of libraries lead */
};

/* Does the path begin at a frame of PyTorch's or Python's own code? */
static bool begins_in_library(const struct gm_holder *holder)
{
	const struct gm_holder_step *root = &holder->steps[0];
	const char *package;
	size_t length;
	if (root->form != GM_STEP_LOCAL && root->form != GM_STEP_OPERAND &&
	        root->form != GM_STEP_CLOSURE_LOCAL && root->form != GM_STEP_THREAD)
		return false;
	if (!root->file)
		return true;
	enum gm_code_owner owner = gm_code_owner(root->file, &package, &length);
	return owner == GM_CODE_TORCH || owner == GM_CODE_PYTHON;
}

/* The index of the step next to the tensor; SIZE_MAX: the path has no step between it and its
 * root. */
static size_t object_of(const struct gm_holder *holder)
{
	for (size_t i = holder->step_count; i-- > 1;)
		if (gm_step_speaks(&holder->steps[i]))
			return i;
	return SIZE_MAX;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Do both lead to the same object, and on to the tensor in the same way? */
static bool same_object(const struct gm_holder *a, const struct gm_holder *b)
{
	size_t i = object_of(a), k = object_of(b);
	if (i == SIZE_MAX || k == SIZE_MAX || a->class != b->class)
		return false;
	const struct gm_holder_step *one = &a->steps[i], *other = &b->steps[k];
	return one->form == other->form && one->address == other->address &&
	       one->index == other->index && same_text(one->name, other->name) &&
	       same_text(one->type, other->type);
}

/* Hides what may be hidden of the holders that lead to the same object as `first`, the first of
 * them. */
static void hide(const struct gm_holders_answer *answer, size_t first, struct gm_holder_line *lines)
{
	const struct gm_holder *object = &answer->holders[first];
	size_t own = 0, libraries = 0, hidden = 0, last = first;
	for (size_t i = first; i < answer->holder_count; i++)
		if (same_object(object, &answer->holders[i]))
			*(begins_in_library(&answer->holders[i]) ? &libraries : &own) += 1;
	size_t kept = own ? 0 : KEPT;
	if (libraries < kept + HIDDEN_LEAST)
		return;
	for (size_t i = first; i < answer->holder_count; i++) {
		if (!same_object(object, &answer->holders[i]))
			continue;
		if (!begins_in_library(&answer->holders[i])) {
			last = i;
		} else if (kept > 0) {
			kept--;
			last = i;
		} else {
			lines[i].hidden = true;
			hidden++;
		}
	}
	lines[last].further = hidden;
}

struct gm_holder_line *gm_holder_lines(const struct gm_holders_answer *answer, bool all)
{
	struct gm_holder_line *lines = calloc(answer->holder_count + 1, sizeof(*lines));
	for (size_t i = 0; lines && !all && i < answer->holder_count; i++) {
		bool first = answer->holders[i].class == GM_PROVEN;
		for (size_t k = 0; first && k < i; k++)
			first = !same_object(&answer->holders[k], &answer->holders[i]);
		if (first)
			hide(answer, i, lines);
	}
	return lines;
}

char *gm_holder_object_text(const struct gm_holder *holder)
{
	size_t i = object_of(holder);
	struct gm_holder object = *holder;
	if (i != SIZE_MAX) {
		object.steps = &holder->steps[i];
		object.step_count -= i;
	}
	object.end = GM_CHAIN_ROOTED;
	return gm_chain_text(&object);
}
