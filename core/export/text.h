/* What the text forms share. Internal to core/export. */
#ifndef GM_EXPORT_TEXT_H
#define GM_EXPORT_TEXT_H

#include <stdio.h>

#include "model/model.h"

/* A string of JSON with its quotes; what is no UTF-8 becomes '?'. */
void gm_export_json_string(FILE *out, const char *text);
/*
 * The text as people are shown it (base/visible.h), for forms that terminals, spreadsheets and
 * scripts read by lines. `*ret_made` is what the caller frees after it.
 */
const char *gm_export_visible(const char *text, char **ret_made);
/* "cuda:0", "cpu" */
void gm_export_device_name(const struct gm_model_device *device, char name[32]);

/* A Python frame's names and line. False: there is none so far out. */
struct gm_export_frame {
	const char *file, *name;
	uint32_t line;
};
bool gm_export_frame(
        const struct gm_log *log, uint32_t stack, size_t index, struct gm_export_frame *ret_frame);
/* The innermost frame of the program's own, else the innermost. */
bool gm_export_site(const struct gm_log *log, uint32_t stack, struct gm_export_frame *ret_frame);

#endif
