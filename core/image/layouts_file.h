/*
 * Files of learned layouts, and the folder in which they are kept. What a row says is for others
 * (cpython, torch): here a file is text, whole or not.
 *
 *     gpumem layouts 1
 *     [python]
 *     hexversion 51183856
 *     ...
 *     end 1c291ca3
 *
 * "[name]" begins a section; the last line has the CRC-32 of all that stands before it.
 */
#ifndef GM_IMAGE_LAYOUTS_FILE_H
#define GM_IMAGE_LAYOUTS_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define GM_LAYOUTS_HEAD "gpumem layouts 1"
enum { GM_LAYOUTS_MOST = 256 << 10, GM_LAYOUTS_LINE = 512 };

/* A line of one section, without its end. Returns NULL, or why it is refused. */
typedef const char *(*gm_layouts_line)(void *context, const char *line);

/* Reads the lines of a section in a file's text. `*ret_found`: it has that section. GM_CORRUPT:
 * names the path, the line, and what is wrong there. */
struct gm_error *gm_layouts_parse(const char *path, const char *text, size_t size,
        const char *section, gm_layouts_line take, void *context, bool *ret_found);
/* A regular file, of a size that is believed. The caller frees the text. */
struct gm_error *gm_layouts_load(const char *path, char **ret_text, size_t *ret_size);
/* `sections`: text from the first "[name]" on. Written beside and renamed: who reads finds the old
 * or the new file, whole. */
struct gm_error *gm_layouts_save(const char *path, const char *sections);

/* The path of a kept file in $XDG_CACHE_HOME/gpumem/layouts, or ~/.cache/gpumem/layouts; the caller
 * frees it. `make`: the folder is made. A folder or file that others can write is not believed. */
struct gm_error *gm_layouts_kept_path(const char *name, bool make, char **ret_path);
/* Its text; NULL: there is none. */
struct gm_error *gm_layouts_kept_load(
        const char *name, char **ret_path, char **ret_text, size_t *ret_size);

/* Two who would learn the same at once: the second waits, then finds it kept. To be closed; -1:
 * there is no such folder. */
int gm_layouts_kept_lock(void);

/* For tests of what is learned: shipped rows are not used (GPUMEM_HIDE_ROWS=1; =torch: PyTorch's
 * only). */
bool gm_layouts_are_hidden(void);
bool gm_layouts_of_torch_are_hidden(void);

#endif
