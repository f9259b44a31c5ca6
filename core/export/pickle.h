/*
 * A writer of pickles, protocol 4, plain data only. What is written once and remembered is read
 * back as the same object wherever it is told again, so a trace's stacks cost a few bytes an event.
 */
#ifndef GM_EXPORT_PICKLE_H
#define GM_EXPORT_PICKLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct gm_pickler {
	FILE *out;
	uint32_t memo; /* how many are remembered */
};

void gm_pickler_begin(struct gm_pickler *pickler, FILE *out);
void gm_pickler_end(struct gm_pickler *pickler);

/* What was written last is remembered under the number that comes back, which gm_pickler_again()
 * takes. */
uint32_t gm_pickler_remember(struct gm_pickler *pickler);
void gm_pickler_again(struct gm_pickler *pickler, uint32_t number);

void gm_pickler_number(struct gm_pickler *pickler, uint64_t number);
void gm_pickler_negative(struct gm_pickler *pickler, int32_t number);
void gm_pickler_bool(struct gm_pickler *pickler, bool value);
/* Bytes that are no UTF-8 are replaced by '?'. */
void gm_pickler_string(struct gm_pickler *pickler, const char *text);

/* A dictionary: begin, then a key and a value in turn, end. A list: begin, values, end. Both may be
 * nested. */
void gm_pickler_dict_begin(struct gm_pickler *pickler);
void gm_pickler_dict_end(struct gm_pickler *pickler);
void gm_pickler_list_begin(struct gm_pickler *pickler);
void gm_pickler_list_end(struct gm_pickler *pickler);

#endif
