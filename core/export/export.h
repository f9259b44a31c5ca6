/*
 * Export: a recording in other tools' forms. PyTorch's own snapshot pickle (memory_viz,
 * _memory_viz.py), Chrome's trace events (Perfetto), folded stacks (flamegraph.pl, speedscope), an
 * SQLite database, CSV.
 *
 * Each writer streams: memory does not grow with the events, but for the tables that intern frames
 * and stacks. This room may include base, log and model. It computes no figures of its own: what it
 * writes is what the model says.
 */
#ifndef GM_EXPORT_EXPORT_H
#define GM_EXPORT_EXPORT_H

#include <stdio.h>

#include "model/categories.h"
#include "model/model.h"

/* A snapshot as torch.cuda.memory._dump_snapshot writes it, pickle protocol 4. What was allocated
 * before the record began is in its segments and not in its trace, as in PyTorch's own. */
struct gm_error *gm_export_pytorch(struct gm_model *model, FILE *out);
/* {"traceEvents": […]}: counters of allocated and reserved bytes by device, slices for steps,
 * phases and the largest blocks. */
struct gm_error *gm_export_perfetto(struct gm_model *model, FILE *out);
/* One line a stack: frames from the outermost in, joined by ';', and the bytes that it has
 * allocated at the main device's peak. The lines' bytes add up to the peak. */
struct gm_error *gm_export_folded(struct gm_model *model, FILE *out);
/* One line an event, RFC 4180. */
struct gm_error *gm_export_csv(struct gm_model *model, FILE *out);
/* The words for a reason (core/render/category.h); the caller frees them. */
typedef char *gm_reason_words(enum gm_category_reason reason);
/* A database of its own at `path`, which must not exist; its schema is in docs/export.md. */
struct gm_error *gm_export_sqlite(struct gm_model *model, gm_reason_words *words, const char *path);

#endif
