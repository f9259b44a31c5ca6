/* A context's copy of a layout that was learned for its question. */
#include "ask/context.h"

#include <stdlib.h>
#include <string.h>

void gm_learned_layout_deinit(struct gm_learned_layout *learned)
{
	free(learned->version);
	free(learned->path);
	free(learned->why);
	*learned = (struct gm_learned_layout){0};
}

struct gm_error *gm_context_note_learned(struct gm_context *context, enum gm_learned_kind kind,
        const char *version, double seconds, const char *path, const struct gm_error *error)
{
	struct gm_learned_layout made = {.kind = kind, .seconds = seconds};
	bool whole =
	        (made.version = strdup(version)) &&
	        (error ? (made.why = strdup(error->message)) : (made.path = strdup(path))) != NULL;
	if (!whole) {
		gm_learned_layout_deinit(&made);
		return &gm_error_no_memory;
	}
	gm_learned_layout_deinit(&context->learned);
	context->learned = made;
	return NULL;
}
