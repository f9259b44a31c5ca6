/*
 * Summaries that are kept next to the recordings, so that the next question, or the same one after
 * a machine died, need not read them again. A kept summary counts only where the recording has the
 * size and the time that it had, and where it was made by the same gpumem. It is a file that
 * somebody wrote: what is read of it is checked as a recording is.
 */
#ifndef GM_RANKS_KEEP_H
#define GM_RANKS_KEEP_H

#include "ranks/summary.h"

/* host: of who reads it. False: there is none that counts, or it lacks one of the sections;
 * *ret_others: those that it has, and that are worth keeping. */
bool gm_kept_read(const char *path, const char *host, unsigned sections, struct gm_strings *strings,
        struct gm_rank_summary *ret_summary, unsigned *ret_others);
/* The bytes of a kept summary, into which the summary points. False: they are none. */
bool gm_kept_decode(const uint8_t *bytes, size_t length, struct gm_strings *strings,
        struct gm_string_numbers *numbers, struct gm_rank_summary *ret_summary);
/* Keeps one, if it can: not of a recording that grows or has changed meanwhile, nor where the
 * folder cannot be written to. */
void gm_kept_write(const char *path, struct gm_strings *strings, struct gm_rank_summary *summary);

#endif
