/* One pair of functions per question about a recording: its text and its JSON. */
#ifndef GM_RENDER_ANSWERS_H
#define GM_RENDER_ANSWERS_H

#include "ask/blocks.h"
#include "ask/info.h"
#include "ask/peak.h"
#include "ask/why.h"
#include "render/text.h"

struct gm_error *gm_render_info_text(
        const struct gm_info *info, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_info_json(const struct gm_info *info, FILE *out);
/* What is missing, in words. The caller frees it; NULL: no memory. */
char *gm_render_gap(const struct gm_gap *gap);

/* Events [from, to], inclusive; one a line, and with `stacks` their frames below each. */
struct gm_error *gm_render_events_text(const struct gm_model *model, uint32_t from, uint32_t to,
        bool stacks, const struct gm_style *style, FILE *out);
void gm_render_event_stacks(const struct gm_log *log, const struct gm_event *event, FILE *out);
struct gm_error *gm_render_events_json(
        const struct gm_model *model, uint32_t from, uint32_t to, FILE *out);

/* groups: as groups rather than one by one. */
/* Each block's category, and why it is one. */
struct gm_error *gm_render_blocks_explained(
        const struct gm_blocks *blocks, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_blocks_text(
        const struct gm_blocks *blocks, bool groups, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_blocks_json(const struct gm_blocks *blocks, bool list, FILE *out);
/* modules: the same by module, where their paths are known; without groups: they are not. */
struct gm_error *gm_render_peak_text(const struct gm_blocks *blocks,
        const struct gm_blocks *modules, const struct gm_secondary_peak *secondary,
        const struct gm_style *style, FILE *out);
struct gm_error *gm_render_peak_json(const struct gm_blocks *blocks,
        const struct gm_blocks *modules, const struct gm_secondary_peak *secondary, FILE *out);
struct gm_error *gm_render_history_text(const struct gm_model *model, const uint32_t *blocks,
        size_t count, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_history_json(const struct gm_model *model, uint64_t address,
        const uint32_t *blocks, size_t count, FILE *out);

struct gm_error *gm_render_why_text(
        const struct gm_why *why, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_why_json(const struct gm_why *why, FILE *out);

#endif
