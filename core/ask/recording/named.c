#include "ask/recording/named.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ask/recording/cause.h"
#include "ask/recording/where.h"

enum { FILE_MAX = 4096 };

/* "train.py:31" as a condition's clause; false if it does not have this form. */
static bool read_place(const char *text, char file[FILE_MAX], struct gm_clause *ret_clause)
{
	const char *colon = strrchr(text, ':');
	size_t length = colon ? (size_t)(colon - text) : 0;
	char *end;
	if (!length || length >= FILE_MAX || !isdigit((unsigned char)colon[1]))
		return false;
	uint64_t line = strtoull(colon + 1, &end, 10);
	if (*end || line == 0)
		return false;
	memcpy(file, text, length);
	file[length] = '\0';
	*ret_clause = (struct gm_clause){
	        .fact = GM_FACT_LINE, .compare = GM_IS, .number = line, .text = file};
	return true;
}

/* Is this the name of a tensor in it? */
static bool is_called(const struct gm_model *model, uint32_t block, const char *text)
{
	const struct gm_clause clause = {
	        .fact = GM_FACT_NAME, .compare = GM_IS, .text = (char *)(uintptr_t)text};
	const struct gm_where_block subject = {.model = model, .block = block};
	return gm_where_judge(&subject, &clause) == GM_TRUE;
}

static bool was_released(const struct gm_block *block)
{
	return block->free_requested != GM_NO_EVENT || block->free_completed != GM_NO_EVENT;
}

static bool is_kept_by(const struct gm_model *model, const struct gm_block *block, const char *name)
{
	struct gm_cause cause;
	if (!was_released(block))
		return false;
	gm_cause_find(model, block, &cause);
	return cause.name && strcmp(cause.name, name) == 0;
}

/* Was it released after `other` (GM_NO_BLOCK: ever), and not because the interpreter ended? */
static bool is_released_after(
        const struct gm_model *model, const struct gm_block *block, uint32_t other)
{
	uint32_t earlier = other == GM_NO_BLOCK ? 0 : gm_block_end(gm_model_block(model, other));
	struct gm_cause cause;
	if (!was_released(block) || gm_block_end(block) <= earlier)
		return false;
	gm_cause_find(model, block, &cause);
	return cause.kind != GM_CAUSE_INTERPRETER_EXIT;
}

struct gm_error *gm_block_by_name(
        const struct gm_model *model, const char *text, uint32_t *ret_block, size_t *ret_count)
{
	char file[FILE_MAX];
	struct gm_clause clause;
	bool is_place = read_place(text, file, &clause);
	bool names = !is_place && gm_model_has_names(model);
	uint32_t last = GM_NO_BLOCK, last_released = GM_NO_BLOCK;
	size_t count = 0;
	for (size_t i = 0; i < gm_model_block_count(model); i++) {
		const struct gm_block *block = gm_model_block(model, i);
		const struct gm_where_block subject = {.model = model, .block = (uint32_t)i};
		bool meant = is_place ? gm_where_judge(&subject, &clause) == GM_TRUE
		                      : (names && is_called(model, (uint32_t)i, text)) ||
		                                is_kept_by(model, block, text);
		if (!meant)
			continue;
		count++;
		last = (uint32_t)i;
		if (is_released_after(model, block, last_released))
			last_released = (uint32_t)i;
	}
	if (!count && is_place)
		return gm_error_create(GM_USAGE,
		        "no block '%s': nothing was allocated at that line: `gpumem blocks --by "
		        "line` "
		        "lists the lines",
		        text);
	if (!count && !names && strchr(text, '.'))
		return gm_error_create(GM_USAGE,
		        "no block '%s': no variable or attribute of that name released one, and "
		        "the recording has no names of tensors: record with `gpumem run --names`, "
		        "or name a block by 0x… or #N, as `gpumem blocks` does, or by FILE:LINE",
		        text);
	if (!count)
		return gm_error_create(GM_USAGE,
		        "no block '%s': no variable or attribute of that name released one: name a "
		        "block by 0x… or #N, as `gpumem blocks` does, or by FILE:LINE",
		        text);
	*ret_block = last_released != GM_NO_BLOCK ? last_released : last;
	*ret_count = count;
	return NULL;
}
