/*
 * Events as JSON, one on each line. Millions of events have some thousand stacks, so the text of
 * each stack is created once and cached. The rest of an event is written by render/json.c, as for a
 * single event.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "render/answers.h"
#include "render/json.h"

/* The most that is cached, for a recording whose stacks are all different. */
enum { SLOTS = 1 << 14, MOST_BYTES = 64 << 20 };

typedef json_t *stack_json(const struct gm_log *log, uint32_t stack);

/* The cached texts of one kind of stacks, each in the slot of its number; a new text replaces the
 * old one. */
struct texts {
	stack_json *make;
	size_t bytes;
	struct {
		uint32_t stack;
		char *text; /* NULL: none */
	} slots[SLOTS];
};

static void forget(struct texts *texts)
{
	for (size_t i = 0; i < SLOTS; i++) {
		free(texts->slots[i].text);
		texts->slots[i].text = NULL;
	}
	texts->bytes = 0;
}

/* *ret_text is valid until the next call. */
static struct gm_error *text_of(
        struct texts *texts, const struct gm_log *log, uint32_t stack, const char **ret_text)
{
	size_t slot = stack % SLOTS;
	char *text = texts->slots[slot].text;
	if (!text || texts->slots[slot].stack != stack) {
		gm_try(gm_json_text(texts->make(log, stack), JSON_COMPACT, &text));
		if (texts->bytes > MOST_BYTES)
			forget(texts);
		if (texts->slots[slot].text)
			texts->bytes -= strlen(texts->slots[slot].text);
		free(texts->slots[slot].text);
		texts->slots[slot].text = text;
		texts->slots[slot].stack = stack;
		texts->bytes += strlen(text);
	}
	*ret_text = text;
	return NULL;
}

struct writer {
	struct texts python, native;
};

static void destroy(struct writer **writer)
{
	if (!*writer)
		return;
	forget(&(*writer)->python);
	forget(&(*writer)->native);
	free(*writer);
}

/* The same text as that of gm_json_event(); nothing if memory runs out. */
static struct gm_error *write_event(
        struct writer *writer, const struct gm_model *model, uint32_t number, FILE *out)
{
	const struct gm_log *log = gm_model_log(model);
	struct gm_event event;
	const char *python, *native;
	_cleanup_free_ char *head = NULL, *forward = NULL;
	gm_log_event(log, number, &event);
	gm_try(gm_json_text(gm_json_event_head(model, number), JSON_COMPACT, &head));
	gm_try(text_of(&writer->python, log, event.python_stack, &python));
	gm_try(gm_json_text(gm_json_forward_stack(model, number), JSON_COMPACT, &forward));
	gm_try(text_of(&writer->native, log, event.native_stack, &native));
	/* without the closing brace */
	fwrite(head, 1, strlen(head) - 1, out);
	fprintf(out, ",\"python\":%s", python);
	if (strcmp(forward, "[]") != 0)
		fprintf(out, ",\"forward\":%s", forward);
	fprintf(out, ",\"native\":%s}\n", native);
	return NULL;
}

struct gm_error *gm_render_events_json(
        const struct gm_model *model, uint32_t from, uint32_t to, FILE *out)
{
	uint64_t count = gm_log_event_count(gm_model_log(model));
	_cleanup_(destroy) struct writer *writer = calloc(1, sizeof(*writer));
	if (!writer)
		return &gm_error_no_memory;
	writer->python.make = gm_json_python_stack;
	writer->native.make = gm_json_native_stack;
	for (uint64_t n = from; n <= to && n < count && !ferror(out); n++)
		gm_try(write_event(writer, model, (uint32_t)n, out));
	return NULL;
}
