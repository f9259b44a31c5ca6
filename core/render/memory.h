/* The memory of a process, a core or a moment of a recording: `segments`, and `info` and `blocks`
 * of a process. */
#ifndef GM_RENDER_MEMORY_H
#define GM_RENDER_MEMORY_H

#include <jansson.h>

#include "ask/target/memory.h"
#include "ask/target/request.h"
#include "ask/target/target_info.h"
#include "ask/target/target_blocks.h"
#include "render/text.h"

/* request: NULL: none was asked about. */
struct gm_error *gm_render_segments_text(const struct gm_memory *memory,
        const struct gm_request *request, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_segments_json(
        const struct gm_memory *memory, const struct gm_request *request, FILE *out);

/* A line for each figure of the allocator's that its blocks do not add up to; nothing where they
 * agree. */
void gm_put_memory_gaps(const struct gm_memory *memory, const char *indent, FILE *out);
/* The same lines appended to an array. */
void gm_json_memory_gaps(json_t *gaps, const struct gm_memory *memory);
/* Sets "complete" and "gaps" of an answer about the memory. */
void gm_json_set_memory_gaps(json_t *value, const struct gm_memory *memory);

void gm_render_target_info_text(const struct gm_target_info *info, FILE *out);
struct gm_error *gm_render_target_info_json(const struct gm_target_info *info, FILE *out);

/* groups: the head of the column that names them; NULL: blocks one by one. */
struct gm_error *gm_render_target_blocks_text(const struct gm_target_blocks *blocks,
        const char *groups, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_target_blocks_json(
        const struct gm_target_blocks *blocks, bool list, FILE *out);
/* "category", "module" or "shape". Static. */
const char *gm_target_blocks_by(const struct gm_target_blocks *blocks);
/* What changed since the answer in `path`, which gm_render_target_blocks_json() wrote. GM_CORRUPT:
 * it is none; GM_USAGE: it is of another device, or has other groups. */
struct gm_error *gm_render_blocks_since(const struct gm_target_blocks *blocks, const char *path,
        bool json, const struct gm_style *style, FILE *out);

#endif
