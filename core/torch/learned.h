/*
 * Rows of layouts that were learned (core/learn), as a section of a file of layouts
 * (image/layouts_file.h).
 *
 * A row belongs to builds, not to a version: it is known by the GNU build-ids of PyTorch's
 * libraries.
 *
 *     [torch]
 *     version 2.15.0+cu132
 *     build libc10.so 8a77af199fee41d006ecf9057c403ca29219bb60
 *     fields 104
 *     field storage.size_of 96
 *     missing storage.context fits nowhere
 */
#ifndef GM_TORCH_LEARNED_H
#define GM_TORCH_LEARNED_H

#include "image/build_id.h"
#include "symbols/symbols.h"
#include "torch/layout.h"

enum { GM_TORCH_LIBRARIES = 4 };
extern const char *const gm_torch_libraries[GM_TORCH_LIBRARIES];

/* Which PyTorch it is. */
struct gm_torch_builds {
	char version[64]; /* "2.15.0+cu132" */
	bool old_strings;
	struct gm_build_id ids[GM_TORCH_LIBRARIES]; /* of gm_torch_libraries; size 0: not loaded */
};

struct gm_torch_learned {
	struct gm_torch_builds builds;
	size_t fields; /* that the gpumem which learned it looked for; 0: it does not say */
	struct gm_torch_layout layout;
};

/* The build-ids of what is loaded; version and old_strings stay as they are. */
void gm_torch_builds_read(const struct gm_symbols *symbols, struct gm_torch_builds *builds);
/* The first library that is not of the same build; NULL: all are. A library without a build-id is
 * of none. */
const char *gm_torch_builds_differ(
        const struct gm_torch_builds *left, const struct gm_torch_builds *right);

/* GM_CORRUPT: names the path, the line and what is wrong there. */
struct gm_error *gm_torch_learned_parse(
        const char *path, const char *text, size_t size, struct gm_torch_learned *ret_learned);
struct gm_error *gm_torch_learned_load(const char *path, struct gm_torch_learned *ret_learned);
/* Its section, for gm_layouts_save(); the caller frees it. */
struct gm_error *gm_torch_learned_text(const struct gm_torch_learned *learned, char **ret_text);

/* In the folder of kept rows (image/layouts_file.h). */
struct gm_error *gm_torch_kept_find(const struct gm_torch_builds *builds,
        struct gm_torch_learned *ret_learned, bool *ret_found);
/* *ret_path: the file, which the caller frees. */
struct gm_error *gm_torch_kept_save(const struct gm_torch_learned *learned, char **ret_path);

#endif
