/*
 * What drives the machine of pickle.h: opcodes or JSON push values and put them together. Internal
 * to core/import.
 */
#ifndef GM_IMPORT_MACHINE_H
#define GM_IMPORT_MACHINE_H

#include "base/cleanup.h"
#include "import/pickle.h"

enum {
	GM_PICKLE_BUFFER = 1 << 18, /* bytes; more than the longest string that is kept */
	GM_PICKLE_SLACK = 64,       /* zeroes after them, so that looking ahead needs no care */
	GM_PICKLE_DEPTH_MAX = 1000, /* marks at once; a snapshot has six */
};

/* The offset in the file of what comes next. */
static inline uint64_t gm_pickle_now(const struct gm_pickle *pickle)
{
	return pickle->before + pickle->at;
}

/* Makes `size` (at most GM_PICKLE_BUFFER) bytes lie at `at`, or says that the file was cut. */
struct gm_error *gm_pickle_fetch(struct gm_pickle *pickle, size_t size);
/* The same as far as the file goes. */
struct gm_error *gm_pickle_fill(struct gm_pickle *pickle, size_t size);

static inline struct gm_error *gm_pickle_need(struct gm_pickle *pickle, size_t size)
{
	return pickle->end - pickle->at >= size ? NULL : gm_pickle_fetch(pickle, size);
}

static inline struct gm_error *gm_pickle_push(struct gm_pickle *pickle, gm_value value)
{
	return gm_array_push(&pickle->stack, value) ? NULL : &gm_error_no_memory;
}

static inline size_t gm_pickle_bottom(const struct gm_pickle *pickle)
{
	return pickle->marks.count ? pickle->marks.items[pickle->marks.count - 1] : 0;
}

struct gm_error *gm_pickle_mark(struct gm_pickle *pickle);
/* The values above the last mark, which is taken away. */
struct gm_error *gm_pickle_pop_mark(struct gm_pickle *pickle, size_t *ret_start);
/* Are there so many values above the last mark? */
struct gm_error *gm_pickle_require(const struct gm_pickle *pickle, size_t count);

struct gm_error *gm_pickle_push_wide(struct gm_pickle *pickle, uint64_t value, bool unsigned_64);
struct gm_error *gm_pickle_push_int(struct gm_pickle *pickle, int64_t value);
struct gm_error *gm_pickle_push_object(struct gm_pickle *pickle, enum gm_object_kind kind);
/* The number of a string of at most GM_LOG_STRING_MAX bytes; 0: no memory. */
uint32_t gm_pickle_string_id(struct gm_pickle *pickle, const uint8_t *bytes, size_t length);

/* Values from `start` on the stack go into the list or dictionary below them. */
struct gm_error *gm_pickle_append_items(struct gm_pickle *pickle, size_t start);
struct gm_error *gm_pickle_set_items(struct gm_pickle *pickle, size_t start);

/* The memo holds values in 32 bits: those that do not fit lie in a table next to it. */
#define GM_MEMO_EMPTY UINT32_MAX
bool gm_memo_pack(struct gm_pickle *pickle, gm_value value, uint32_t *ret_packed);
gm_value gm_memo_unpack(const struct gm_pickle *pickle, size_t index);
struct gm_error *gm_pickle_memo_put(struct gm_pickle *pickle, uint64_t index);
struct gm_error *gm_pickle_memo_get(struct gm_pickle *pickle, uint64_t index);

#endif
