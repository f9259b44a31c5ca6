/* The sentences of `why`: what created a block, what released it, and what held it until then. */
#include "render/cause.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "ask/recording/place.h"
#include "ask/why.h"

static void put_place(const struct gm_frame_place *place, FILE *out)
{
	if (!place->code) {
		fputs("a place that was not recorded", out);
		return;
	}
	fprintf(out, "%s:%u", gm_place_base_name(place->file), place->line);
	if (strcmp(place->function, "<module>") != 0)
		fprintf(out, " in %s()", place->function);
}

static void put_step(uint32_t step, FILE *out)
{
	if (step)
		fprintf(out, " in step %u", step);
}

static void put_statement(const struct gm_why *why, FILE *out)
{
	const struct gm_frame_place *place = gm_why_statement(why);
	put_place(place, out);
	if (place->code != why->freed_at.code || place->line != why->freed_at.line) {
		fputs(", called from ", out);
		put_place(&why->freed_at, out);
	}
}

static void put_name(const char *name, const char *otherwise, FILE *out)
{
	if (name)
		fprintf(out, "`%s`", name);
	else
		fputs(otherwise, out);
}

static void put_autograd(const struct gm_why *why, FILE *out)
{
	const struct gm_cause *cause = &why->cause;
	fputs("the autograd graph released it", out);
	if (cause->teardown.node_name)
		fprintf(out, " (saved for backward by %.*s)", cause->teardown.node_name_length,
		        cause->teardown.node_name);
	else if (cause->teardown.leaf)
		fputs(" (as a leaf of it)", out);
	if (cause->name && !cause->dying.code)
		fprintf(out, " when the graph of `%s` was freed, because `%s` was released",
		        cause->name, cause->name);
	else if (cause->dying.code)
		fprintf(out, " when %s() returned and the graph that its %s kept was freed",
		        cause->dying.function, cause->name ? cause->name : "locals");
	else if (cause->teardown.engine || cause->in_backward)
		fputs(" during the backward pass", out);
}

/* What released it: "`outputs` was rebound". */
static void put_cause(const struct gm_why *why, FILE *out)
{
	const struct gm_cause *cause = &why->cause;
	switch (cause->kind) {
	case GM_CAUSE_REBOUND:
		fputs("released by the rebinding of ", out);
		put_name(cause->name, "a variable", out);
		break;
	case GM_CAUSE_DELETED:
		fputs("released by deleting ", out);
		put_name(cause->name, "a variable", out);
		break;
	case GM_CAUSE_FUNCTION_RETURN:
		if (cause->dying.code)
			fprintf(out, "released when %s() returned", cause->dying.function);
		else
			fputs("released when a function returned", out);
		if (cause->name)
			fprintf(out, ", whose local `%s` held it", cause->name);
		break;
	case GM_CAUSE_CONTAINER_CHANGE:
		fputs("released by a change of an item in a container", out);
		break;
	case GM_CAUSE_ATTRIBUTE_CHANGE:
		fputs("released by a change of the attribute ", out);
		put_name(cause->name, "of an object", out);
		break;
	case GM_CAUSE_AUTOGRAD_RELEASE:
		put_autograd(why, out);
		break;
	case GM_CAUSE_OPTIMIZER:
		fputs("released inside the optimizer", out);
		break;
	case GM_CAUSE_GC_CYCLE:
		fputs("released by Python's garbage collector: it was part of a reference cycle",
		        out);
		break;
	case GM_CAUSE_EXCEPTION_CLEARED:
		fputs("released when an exception, whose traceback held it, was cleared", out);
		break;
	case GM_CAUSE_GENERATOR_END:
		if (cause->dying.code)
			fprintf(out, "released when %s() ended", cause->dying.function);
		else
			fputs("released when a generator ended", out);
		if (cause->name)
			fprintf(out, ", whose local `%s` held it", cause->name);
		break;
	case GM_CAUSE_TEMPORARY:
		fputs(why->cause.teardown.engine
		                ? "an intermediate result of the backward pass, when nothing "
		                  "needed it any more,"
		                : "a temporary: no variable kept it beyond its statement,",
		        out);
		break;
	case GM_CAUSE_NATIVE:
		fputs("released by native code outside Python", out);
		break;
	case GM_CAUSE_STORAGE_CHANGE:
		fputs("released when its tensor got other memory, as set_() and resize_() do,",
		        out);
		break;
	case GM_CAUSE_AUTOCAST_CACHE:
		fputs("released when autocast exited and cleared its cache of cast weights,", out);
		break;
	case GM_CAUSE_RESULT_DROPPED:
		fprintf(out, "released with the result of %s(), which was not used,",
		        cause->dying.function);
		break;
	case GM_CAUSE_INTERPRETER_EXIT:
		fputs("released when the interpreter exited", out);
		break;
	default:
		if (cause->place.op == GM_OP_CALL)
			fputs("released during or just after a call, for an unknown reason", out);
		else if (cause->place.op_name)
			fprintf(out,
			        "released during an instruction on `%s`; whether that variable "
			        "held it is not known",
			        cause->place.op_name);
		else
			fputs("released for an unknown reason", out);
	}
}

/* The allocations before its release. */
static void put_late(const struct gm_why *why, FILE *out)
{
	char size[GM_SIZE_TEXT];
	/* A tensor that the graph saved was released with another one: the successor of that one
	 * replaces it. */
	if (why->cause.kind == GM_CAUSE_AUTOGRAD_RELEASE) {
		if (why->replacement_block == GM_NO_BLOCK)
			return;
		const struct gm_block *replacement_block =
		        gm_model_block(why->model, why->replacement_block);
		fprintf(out, ", after that line had allocated another %s (#%u)",
		        gm_text_size(replacement_block->size, size), replacement_block->alloc);
	} else if (why->successor != GM_NO_BLOCK) {
		fprintf(out,
		        ", after the next block of the same line (#%u) had been allocated: both "
		        "were alive at the same time",
		        gm_model_block(why->model, why->successor)->alloc);
	}
}

/* What released it, and where. */
static void put_release(const struct gm_why *why, FILE *out)
{
	if (why->cause.kind == GM_CAUSE_TEMPORARY)
		fputs("freed as ", out);
	put_cause(why, out);
	if (gm_why_statement(why)->code) {
		fputs(" at ", out);
		put_statement(why, out);
	}
	put_step(why->cause.step, out);
}

static void put_sentence(const struct gm_why *why, FILE *out)
{
	const struct gm_block *block = &why->block;
	char size[GM_SIZE_TEXT];
	fprintf(out, "The block of %s", gm_text_size(block->size, size));
	if (block->alloc == GM_NO_EVENT) {
		fputs(" was allocated before the recording began", out);
	} else if (block->flags & GM_EVENT_PREEXISTING) {
		fputs(" was alive when recording began", out);
	} else {
		fputs(" was allocated at ", out);
		put_place(&why->made_at, out);
		put_step(gm_model_step(why->model, block->alloc), out);
	}
	if (why->freed == GM_NO_EVENT) {
		fputs(gm_log_closed(gm_model_log(why->model))
		                ? " and is still alive at the end of the recording."
		                : " and is still alive, as far as the recording goes.",
		        out);
		return;
	}
	fputs(why->cause.kind == GM_CAUSE_AUTOGRAD_RELEASE ? "; " : " and was ", out);
	put_release(why, out);
	put_late(why, out);
	fputs(".", out);
	if (block->free_requested == GM_NO_EVENT || block->free_completed == block->free_requested)
		return;
	if (block->free_completed == GM_NO_EVENT)
		fputs(" The allocator has not completed the free: the block waits for a stream.",
		        out);
	else if (block->free_completed > block->free_requested + 1)
		fprintf(out, " The allocator completed the free %u event%s later.",
		        block->free_completed - block->free_requested,
		        gm_text_s(block->free_completed - block->free_requested));
}

static void put_held_until(const struct gm_why *why, FILE *out)
{
	const struct gm_cause *cause = &why->cause;
	switch (cause->kind) {
	case GM_CAUSE_REBOUND:
	case GM_CAUSE_DELETED:
		put_name(cause->name, "a variable", out);
		break;
	case GM_CAUSE_AUTOGRAD_RELEASE:
		fputs("the autograd graph", out);
		if (cause->name && !cause->dying.code)
			fprintf(out, " of `%s`", cause->name);
		if (cause->teardown.node_name)
			fprintf(out, " (saved for backward by %.*s)",
			        cause->teardown.node_name_length, cause->teardown.node_name);
		break;
	case GM_CAUSE_FUNCTION_RETURN:
	case GM_CAUSE_GENERATOR_END:
		if (cause->name)
			fprintf(out, "the local `%s` of %s()", cause->name,
			        cause->dying.code ? cause->dying.function : "a function");
		else if (cause->dying.code)
			fprintf(out, "the locals of %s()", cause->dying.function);
		else
			fprintf(out, "the locals of a %s",
			        cause->kind == GM_CAUSE_GENERATOR_END ? "generator" : "function");
		break;
	case GM_CAUSE_RESULT_DROPPED:
		fprintf(out, "the result of %s()", cause->dying.function);
		break;
	case GM_CAUSE_AUTOCAST_CACHE:
		fputs("autocast's cache of cast weights", out);
		break;
	case GM_CAUSE_STORAGE_CHANGE:
		fputs("a tensor that has other memory now", out);
		break;
	case GM_CAUSE_ATTRIBUTE_CHANGE:
		fputs("the attribute ", out);
		put_name(cause->name, "of an object", out);
		break;
	case GM_CAUSE_CONTAINER_CHANGE:
		fputs("an item of a container", out);
		break;
	case GM_CAUSE_GC_CYCLE:
		fputs("a reference cycle", out);
		break;
	case GM_CAUSE_EXCEPTION_CLEARED:
		fputs("an exception's traceback", out);
		break;
	default:
		return;
	}
	if (!gm_why_statement(why)->code)
		return;
	fputs(" until ", out);
	put_statement(why, out);
	put_step(cause->step, out);
}

static struct gm_error *write_text(
        void (*put)(const struct gm_why *, FILE *), const struct gm_why *why, char **ret_text)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return &gm_error_no_memory;
	put(why, out);
	if (fclose(out) != 0) {
		free(text);
		return &gm_error_no_memory;
	}
	*ret_text = text;
	return NULL;
}

struct gm_error *gm_cause_sentence(const struct gm_why *why, char **ret_text)
{
	return write_text(put_sentence, why, ret_text);
}

struct gm_error *gm_cause_text(const struct gm_why *why, char **ret_text)
{
	return write_text(put_release, why, ret_text);
}

struct gm_error *gm_cause_held_until(const struct gm_why *why, char **ret_text)
{
	char *text;
	if (why->freed == GM_NO_EVENT) {
		*ret_text = NULL;
		return NULL;
	}
	gm_try(write_text(put_held_until, why, &text));
	if (!text[0]) {
		free(text);
		text = NULL;
	}
	*ret_text = text;
	return NULL;
}
