#include "render/chain.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ask/recording/place.h"
#include "render/native_owner.h"

static const char *known(const char *text, const char *otherwise)
{
	return text ? text : otherwise;
}

static void put_place(const struct gm_holder_step *step, FILE *out)
{
	fprintf(out, "%s() at %s:%u", known(step->function, "?"),
	        gm_place_base_name(known(step->file, "?")), step->line);
}

static void put_named(const char *what, const struct gm_holder_step *step, FILE *out)
{
	fprintf(out, "%s '%s' of %s", what, known(step->name, "?"), known(step->type, "object"));
}

/* `count`: adjacent items that are one line. */
static void put_item(const struct gm_holder_step *step, size_t count, FILE *out)
{
	if (step->index < 0)
		fputs("item", out);
	else if (count > 1)
		fprintf(out, "items %" PRId64 " to %" PRId64, step->index,
		        step->index + (int64_t)count - 1);
	else
		fprintf(out, "item %" PRId64, step->index);
	fprintf(out, " of %s", known(step->type, "object"));
}

static void put_global(const struct gm_holder_step *step, FILE *out)
{
	const char *module = known(step->function, "?");
	fprintf(out, "global '%s' of module %s", known(step->name, "?"), module);
	if (step->file && strcmp(module, "__main__") == 0)
		fprintf(out, " (%s)", gm_place_base_name(step->file));
}

static void put_kept_local(const struct gm_holder_step *step, FILE *out)
{
	if (step->name)
		fprintf(out, "local '%s' of ", step->name);
	else
		fputs("an operand of ", out);
	if (step->form == GM_STEP_GENERATOR_LOCAL)
		fprintf(out, "%s ", known(step->type, "generator"));
	fprintf(out, "%s()", known(step->function, "?"));
}

static void put_saved(const struct gm_holder_step *step, FILE *out)
{
	if (step->slot)
		fprintf(out, "saved '%s' of ", step->slot);
	else
		fputs("saved by ", out);
	fputs(known(step->of, "a node"), out);
}

static void put_optimizer_state(const struct gm_holder_step *step, FILE *out)
{
	put_named("optimizer state", step, out);
	if (step->of)
		fprintf(out, " for parameter '%s'", step->of);
}

/* Variables, and the parts of frames and functions. */
static void put_variable(const struct gm_holder_step *step, FILE *out)
{
	const char *name = known(step->name, "?"), *function = known(step->function, "?");
	switch (step->form) {
	case GM_STEP_LOCAL:
		fprintf(out, "local '%s' of ", name);
		put_place(step, out);
		break;
	case GM_STEP_CLOSURE_LOCAL:
		fprintf(out, "closure variable '%s' of ", name);
		put_place(step, out);
		break;
	case GM_STEP_OPERAND:
		fputs("an operand of ", out);
		put_place(step, out);
		break;
	case GM_STEP_CLOSURE:
		fprintf(out, "closure variable '%s' of %s()", name, function);
		break;
	case GM_STEP_DEFAULT:
		fprintf(out, "default argument of %s()", function);
		break;
	case GM_STEP_KEYWORD_DEFAULT:
		fprintf(out, "default of argument '%s' of %s()", name, function);
		break;
	case GM_STEP_BOUND_SELF:
		fprintf(out, "self of bound method %s", function);
		break;
	case GM_STEP_THREAD:
		fputs(name, out);
		if (step->function)
			fprintf(out, " of %s()", step->function);
		break;
	default:
		break;
	}
}

/* Parts of an object that are not shown as a name in quotes. */
static void put_part(const struct gm_holder_step *step, FILE *out)
{
	const char *type = known(step->type, "object"), *of = known(step->of, "tensor");
	switch (step->form) {
	case GM_STEP_KEY:
		if (step->name)
			put_named("key", step, out);
		else
			fprintf(out, "value of %s", type); /* its key is not text */
		break;
	case GM_STEP_KEY_ITSELF:
		fprintf(out, "a key itself of %s", type);
		break;
	case GM_STEP_CLASS:
		fprintf(out, "class of a %s", type);
		break;
	case GM_STEP_TRACEBACK:
		fprintf(out, "traceback of %s", type);
		break;
	case GM_STEP_FIELD:
		fprintf(out, "%s of %s", known(step->name, "part"), known(step->of, type));
		break;
	case GM_STEP_OBJECT:
		fputs(type, out);
		break;
	case GM_STEP_PART:
		fprintf(out, "%s of a %s", known(step->name, "part"), of);
		break;
	case GM_STEP_GRAD:
		fprintf(out, ".grad of a %s", of);
		break;
	case GM_STEP_TANGENT:
		fprintf(out, "tangent of a %s", of);
		break;
	case GM_STEP_METADATA:
		fprintf(out, "metadata of %s", of);
		break;
	case GM_STEP_HOOK:
		fprintf(out, "hook of %s", known(step->of, "a tensor"));
		break;
	default:
		break;
	}
}

static void put_step(const struct gm_holder_step *step, size_t count, FILE *out)
{
	switch (step->form) {
	case GM_STEP_GLOBAL:
		put_global(step, out);
		break;
	case GM_STEP_ITEM:
		put_item(step, count, out);
		break;
	case GM_STEP_FRAME_LOCAL:
	case GM_STEP_GENERATOR_LOCAL:
		put_kept_local(step, out);
		break;
	case GM_STEP_ATTRIBUTE:
		put_named("attribute", step, out);
		break;
	case GM_STEP_PARAMETER:
		put_named("parameter", step, out);
		break;
	case GM_STEP_BUFFER:
		put_named("buffer", step, out);
		break;
	case GM_STEP_CHILD:
		put_named("module", step, out);
		break;
	case GM_STEP_OPTIMIZER_STATE:
		put_optimizer_state(step, out);
		break;
	case GM_STEP_SAVED:
		put_saved(step, out);
		break;
	case GM_STEP_GRAPH:
		fputs("in the graph of", out);
		break;
	case GM_STEP_LEAF:
		fputs("leaf of the autograd graph", out);
		break;
	case GM_STEP_VIEW_BASE:
		fputs("base of a view", out);
		break;
	case GM_STEP_CELL:
		fputs("a cell", out);
		break;
	case GM_STEP_MEMORY_OWNER:
		fputs("external owner of a tensor's memory", out);
		break;
	case GM_STEP_DLTENSOR:
		fputs("tensor of dltensor capsule", out);
		break;
	case GM_STEP_NATIVE:
		gm_put_native_owner(step->native, out);
		break;
	default:
		put_variable(step, out);
		put_part(step, out);
	}
}

static void put_end(enum gm_chain_end end, bool is_first, FILE *out)
{
	if (end == GM_CHAIN_ROOTED)
		return;
	fputs(is_first ? "" : ": ", out);
	static const char *const texts[] = {
	        [GM_CHAIN_GARBAGE] =
	                "a garbage cycle: nothing else holds it, gc.collect() would free it",
	        [GM_CHAIN_CYCLE] = "a cycle through PyTorch's C++ objects: nothing else holds it, "
	                           "and gc.collect() cannot free it",
	        [GM_CHAIN_UNKNOWN] = "nothing was found that refers to it",
	};
	fputs(texts[end], out);
}

char *gm_chain_text(const struct gm_holder *holder)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	const struct gm_holder_step *before = NULL;
	for (size_t i = holder->step_count; i-- > 0;) {
		const struct gm_holder_step *step = &holder->steps[i];
		bool in_graph = step->form == GM_STEP_GRAPH;
		/* the graph is shown as one step, however many of its nodes are Python objects */
		if (!gm_step_speaks(step) || (in_graph && before && before->form == step->form))
			continue;
		fputs(in_graph ? ", " : before ? ": " : "", out);
		put_step(step, before ? 1 : holder->references, out);
		before = step;
	}
	put_end(holder->end, !before, out);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

const char *gm_chain_class_name(enum gm_reference_class class)
{
	return class == GM_PROVEN ? "proven" : class == GM_PLAUSIBLE ? "plausible" : "stale";
}
