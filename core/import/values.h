/*
 * Looking at what the pickle machine made: strings, numbers, lists, dictionaries; and making
 * entries and frames of dictionaries' items.
 */
#ifndef GM_IMPORT_VALUES_H
#define GM_IMPORT_VALUES_H

#include "import/pickle.h"

bool gm_pickle_text_is(const struct gm_pickle *pickle, gm_value value, const char *text);
/* The bytes of a string; not ended by 0. */
const char *gm_pickle_string(const struct gm_pickle *pickle, uint32_t id, size_t *ret_length);
/* Files of frames that were recorded on Windows get the slashes of other systems in their names
 * ("C:\\a\\b.py" becomes "C:/a/b.py"): all that looks at names knows those only. To be called once
 * all is read. */
void gm_pickle_slash_files(struct gm_pickle *pickle);
/* False: no number, negative, or wider than 64 bits. */
bool gm_pickle_number(const struct gm_pickle *pickle, gm_value value, uint64_t *ret_number);
/* The last value of a key in a dictionary; GM_VALUE_NONE: no such key, or no dictionary. */
gm_value gm_pickle_get(const struct gm_pickle *pickle, gm_value dict, enum gm_key key);

/* Goes through a list: for (at = gm_pickle_first(p, list, &i); gm_pickle_next(p, &at, &value);) */
struct gm_pickle_place {
	uint32_t chunk, index;
};
struct gm_pickle_place gm_pickle_first(const struct gm_pickle *pickle, gm_value list);
bool gm_pickle_next(
        const struct gm_pickle *pickle, struct gm_pickle_place *place, gm_value *ret_value);
/* The same, but *ret_count entries that follow one another come at once; 1: it may be anything. */
bool gm_pickle_next_row(const struct gm_pickle *pickle, struct gm_pickle_place *place,
        gm_value *ret_value, uint32_t *ret_count);

/* The number of a stream; 0: that of stream 0. False: no memory. */
bool gm_pickle_stream_number(struct gm_pickle *pickle, uint64_t stream, uint32_t *ret_number);
uint64_t gm_pickle_stream(const struct gm_pickle *pickle, uint32_t number);

/* An entry's metadata, the newest's; `text`: string id, 0: none. False: no memory. */
bool gm_pickle_note_metadata(struct gm_pickle *pickle, uint32_t entry, uint32_t text);
/* What a dictionary's items (keys and values in turn) say it is. */
enum gm_object_kind gm_pickle_kind(
        const struct gm_pickle *pickle, const gm_value *items, size_t count);
/* Fills in an entry or a frame from such items. */
struct gm_error *gm_pickle_fill_entry(
        struct gm_pickle *pickle, struct gm_entry *entry, const gm_value *items, size_t count);
struct gm_error *gm_pickle_fill_frame(const struct gm_pickle *pickle, struct gm_frame_record *frame,
        const gm_value *items, size_t count);
/* The key that a string is. */
enum gm_key gm_pickle_key(const void *bytes, size_t length);

#endif
