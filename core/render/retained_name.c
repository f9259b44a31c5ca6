#include "render/retained_name.h"

#include <stdio.h>
#include <stdlib.h>

#include "render/native_owner.h"

static void put_name(const struct gm_retained_name *name, FILE *out);

/* A logger's handler is held by every logger of every library: the first few names are enough. */
enum { NAMES_SHOWN = 3 };

static void put_names(const struct gm_retained_name *names, size_t count, bool more, FILE *out)
{
	size_t shown = count > NAMES_SHOWN + 1 ? NAMES_SHOWN : count;
	size_t left = count - shown;
	for (size_t i = 0; i < shown; i++) {
		bool last = i + 1 == shown && !left && !more;
		fputs(i == 0 ? "" : last ? " and " : ", ", out);
		put_name(&names[i], out);
	}
	if (left)
		fprintf(out, " and %s%zu others", more ? "at least " : "", left);
	else if (more)
		fputs(" and others", out);
}

static void put_shared(const struct gm_retained_name *name, FILE *out)
{
	fputs(name->member_count > 1 ? "shared by " : "held by ", out);
	put_names(name->members, name->member_count, name->more, out);
	if (name->graph_count) {
		fputs(name->graph_count > 1 ? ", and the graphs of " : ", and the graph of ", out);
		put_names(name->graphs, name->graph_count, false, out);
	}
}

static void put_thread(const struct gm_retained_name *name, FILE *out)
{
	fprintf(out, "%s", name->name ? name->name : "a thread");
	if (name->of)
		fprintf(out, " of %s()", name->of);
}

static void put_name(const struct gm_retained_name *name, FILE *out)
{
	const char *own = name->name ? name->name : "?", *of = name->of ? name->of : "?";
	switch (name->form) {
	case GM_NAME_ATTRIBUTE:
		fprintf(out, ".%s", own);
		break;
	case GM_NAME_GRAD:
		fputs(".grad", out);
		break;
	case GM_NAME_ITEMS:
		fprintf(out, name->count > 1 ? "%u items" : "%u item", name->count);
		break;
	case GM_NAME_VALUES:
		fprintf(out, name->count > 1 ? "%u values" : "%u value", name->count);
		break;
	case GM_NAME_KEYS:
		fprintf(out, name->count > 1 ? "%u keys" : "%u key", name->count);
		break;
	case GM_NAME_KEY:
		fprintf(out, "['%s']", own);
		break;
	case GM_NAME_OPERAND:
		fprintf(out, "an operand of %s()", of);
		break;
	case GM_NAME_VIEW_BASE:
		fputs("base of views", out);
		break;
	case GM_NAME_NO_TENSOR:
		fputs("blocks of no tensor", out);
		break;
	case GM_NAME_BUFFERS:
		fputs("buffers", out);
		break;
	case GM_NAME_STATES:
		fputs("by parameter", out);
		break;
	case GM_NAME_CLOSURE_VARIABLE:
		fprintf(out, "closure variable '%s' of %s()", own, of);
		break;
	case GM_NAME_RUNNING:
		fputs("running functions", out);
		break;
	case GM_NAME_GARBAGE:
		fputs("garbage cycles", out);
		break;
	case GM_NAME_CYCLES:
		fputs("cycles through C++ that gc.collect() cannot free", out);
		break;
	case GM_NAME_GLOBAL:
		fprintf(out, "global '%s'", own);
		if (name->of)
			fprintf(out, " of module %s", of);
		break;
	case GM_NAME_HOOKS:
		fputs("hooks", out);
		break;
	case GM_NAME_ITSELF:
		fputs("itself", out);
		break;
	case GM_NAME_GRAPH_LEAVES:
		fputs("leaves of the autograd graph", out);
		break;
	case GM_NAME_LOCAL:
	case GM_NAME_KEPT_LOCAL:
		fprintf(out, "local '%s' of %s()", own, of);
		break;
	case GM_NAME_PARAMETERS:
		fputs("parameters", out);
		break;
	case GM_NAME_MISSING:
		fputs("references that were not found", out);
		break;
	case GM_NAME_SAVED:
		fputs("saved for backward", out);
		break;
	case GM_NAME_SHARED:
		put_shared(name, out);
		break;
	case GM_NAME_THREAD:
		put_thread(name, out);
		break;
	case GM_NAME_TRACEBACK:
		fputs("traceback", out);
		break;
	case GM_NAME_NATIVE:
		if (name->native)
			gm_put_native_owner(name->native, out);
		else /* for an answer that was saved without it */
			fprintf(out, "%s", own);
		break;
	case GM_NAME_PART:
	case GM_NAME_MODULE_PART:
	case GM_NAME_FORM_COUNT:
		fprintf(out, "%s", own);
	}
}

/* The separator of two names that are shown as one. */
static const char *between(enum gm_retained_form upper, enum gm_retained_form lower)
{
	switch (lower) {
	case GM_NAME_ATTRIBUTE:
	case GM_NAME_GRAD:
	case GM_NAME_KEY:
		return gm_retained_form_is_root(upper) ? " " : "";
	default:
		return ": ";
	}
}

static char *names_text(const struct gm_retained_name *names, size_t count)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		if (i)
			fprintf(out, "%s", between(names[i - 1].form, names[i].form));
		put_name(&names[i], out);
	}
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

char *gm_retained_name_text(const struct gm_retained_name *name)
{
	return names_text(name, 1);
}

char *gm_retained_node_text(const struct gm_retained_node *node)
{
	return names_text(node->names, node->name_count);
}
