/*
 * What the program said of itself while PyTorch recorded, as marks of the log: ranges of
 * record_function (external_annotations, where the recorder was told
 * global_record_annotations=True) by their times, and metadata of allocations. A snapshot does not
 * tell threads apart: all is said of one.
 */
#ifndef GM_IMPORT_ANNOTATIONS_H
#define GM_IMPORT_ANNOTATIONS_H

#include "import/pickle.h"

struct gm_log_writer;

/* A range begins or ends. */
struct gm_annotation {
	uint64_t time_us;
	uint32_t name;  /* string id of the pickle, later of the log */
	uint32_t order; /* in the file */
	bool ends;
};

struct gm_annotations {
	GM_ARRAY(struct gm_annotation) items; /* by time */
	GM_ARRAY(uint32_t) open;              /* names of the ranges that are, outermost first */
	size_t next;
	uint32_t metadata; /* as it was said last */
};

/* Reads the list; what is no annotation in it is passed over. */
struct gm_error *gm_annotations_read(
        struct gm_annotations *annotations, const struct gm_pickle *pickle, gm_value list);
void gm_annotations_deinit(struct gm_annotations *annotations);
/* Says what there is to be said before an event: its number and time, its metadata as a string of
 * the log. */
struct gm_error *gm_annotations_say(struct gm_annotations *annotations, struct gm_log_writer *log,
        uint64_t event, uint64_t time_us, uint32_t metadata);
/* The metadata of an entry: string id of the pickle, 0: none. */
uint32_t gm_annotations_metadata(const struct gm_pickle *pickle, uint32_t entry);

#endif
