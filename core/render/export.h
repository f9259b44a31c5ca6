/* export: which file was written, and which tool reads it. */
#ifndef GM_RENDER_EXPORT_H
#define GM_RENDER_EXPORT_H

#include <stdint.h>
#include <stdio.h>

/* `form`: "pytorch", "sqlite", ... */
void gm_render_export_text(
        const char *path, const char *form, uint64_t events, uint64_t bytes, FILE *out);

#endif
