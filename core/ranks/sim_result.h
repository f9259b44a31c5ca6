/*
 * What is kept of one simulated rank: a file of a few hundred bytes, by which a later run of the
 * command goes on, and which tells whether two ranks did the same.
 */
#ifndef GM_RANKS_SIM_RESULT_H
#define GM_RANKS_SIM_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum gm_sim_outcome {
	GM_SIM_RAN,           /* to its end, with exit status 0 */
	GM_SIM_OUT_OF_MEMORY, /* of the device, whether or not the program went on */
	GM_SIM_FAILED,        /* another exit status than 0 */
	GM_SIM_CRASHED,       /* a signal ended it, which came from itself */
	GM_SIM_TIMED_OUT,     /* it took longer than --timeout, and was killed for that */
	GM_SIM_KILLED,        /* a signal from outside: it is not finished */
	GM_SIM_NOT_STARTED,   /* the program, or `gpumem run`, could not be started */
	GM_SIM_OUTCOMES,
};
/* Whether it is a result of the rank, and not of what was around it. */
static inline bool gm_sim_outcome_counts(enum gm_sim_outcome outcome)
{
	return outcome != GM_SIM_KILLED && outcome != GM_SIM_NOT_STARTED;
}
/* "ran", "out_of_memory" ... */
const char *gm_sim_outcome_name(enum gm_sim_outcome outcome);

enum { GM_SIM_HOST_MAX = 256, GM_SIM_LINE_MAX = 400 };

struct gm_sim_result {
	uint32_t rank;
	enum gm_sim_outcome outcome;
	uint32_t status;                        /* the exit status, or the signal */
	uint64_t digest;                        /* sim_digest.h */
	uint64_t events;                        /* recorded ones */
	uint64_t peak_allocated, peak_reserved; /* bytes, of the device with the highest peak */
	uint64_t ooms, requested; /* out-of-memory errors; bytes that the first one asked for */
	uint64_t total;           /* bytes of the device; 0: not known */
	double seconds;
	char host[GM_SIM_HOST_MAX];
	char line[GM_SIM_LINE_MAX]; /* the last line that a program wrote which failed */
};

/* Equal ranks: the same outcome, peaks and recording. */
uint64_t gm_sim_result_class(const struct gm_sim_result *result);

/* As JSON, and back. Reading: `name` is for the message; every value is checked. */
struct gm_error *gm_sim_result_text(const struct gm_sim_result *result, char **ret_text);
struct gm_error *gm_sim_result_read(
        const char *name, const char *text, size_t size, struct gm_sim_result *ret_result);

#endif
