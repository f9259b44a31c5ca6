/*
 * The largest value with which a program still fits a device: bisection over runs. And the table of
 * it: for devices, values of other variables, and measures.
 *
 * The search assumes that more never needs less: if a value fits, every smaller one does. The
 * caller says what a run is. The search knows nothing of programs or devices; the table only has
 * their names, sizes and prices.
 */
#ifndef GM_ASK_FIT_H
#define GM_ASK_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct gm_fit_run {
	int64_t value;
	bool fits;
	uint64_t peak_reserved, peak_allocated; /* bytes, of the device that used most */
	double seconds;
};

/* Runs once; an error stops the search: it is not about memory. */
typedef struct gm_error *gm_fit_try(void *data, int64_t value, struct gm_fit_run *ret);

enum { GM_FIT_RUNS_MAX = 200 };

struct gm_fit {
	int64_t from, to; /* inclusive */
	/* A value near which the answer is supposed to be, from another search; else bisection
	 * alone. It changes how many runs it takes, never the answer. */
	bool guessed;
	int64_t guess;
	bool any;        /* one fits; then `largest` is it */
	int64_t largest; /* it fits, and the next one does not, unless it is `to` */
	struct gm_fit_run runs[GM_FIT_RUNS_MAX]; /* in the order in which they ran */
	unsigned count;
};

/* from <= to. What ran is in *fit also where an error is returned. */
struct gm_error *gm_fit_search(struct gm_fit *fit, gm_fit_try *run, void *data);
/* The run of a value; NULL: it was not tried. */
const struct gm_fit_run *gm_fit_run_of(const struct gm_fit *fit, int64_t value);
/* Where a search on a device with `room` bytes will end, by the peaks of an earlier one: a straight
 * line through two of its runs. False: it has no two that fit. */
bool gm_fit_guess(const struct gm_fit *earlier, uint64_t room, int64_t *ret_value);

/* ---- the table ------------------------------------------------------------------------------- */

enum { GM_FIT_VARIABLES_MAX = 8, GM_FIT_MEASURES_MAX = 8, GM_FIT_CELLS_MAX = 4096 };

struct gm_fit_device {
	char name[40];    /* as it was asked for: "a100-40gbx2" */
	char profile[32]; /* of one of them: "a100-40gb" */
	uint64_t total;   /* bytes */
	uint64_t room;    /* of these, without the context */
	bool priced;
	double price;
};

/* Of a variable the values that are tried, as text; the one that is searched for is not here. */
struct gm_fit_variable {
	char name[64];
	const char **values; /* owned */
	size_t count;
};

/* A way to run the program: without a measure, or with some. */
struct gm_fit_way {
	char name[128];                            /* "": none */
	const char *measures[GM_FIT_MEASURES_MAX]; /* that gpumem applies; NULL: `arguments` */
	const char *arguments;                     /* for the program; NULL: none */
	size_t measure_count;
};

enum gm_fit_outcome {
	GM_FIT_NOT_RUN,
	GM_FIT_FITS,
	GM_FIT_DOES_NOT_FIT,
	GM_FIT_FAILED, /* for another reason than memory: `why` */
};

struct gm_fit_cell {
	unsigned device, way;
	unsigned values[GM_FIT_VARIABLES_MAX]; /* of each variable, its number */
	enum gm_fit_outcome outcome;
	/* Of the way's measures those that found nothing in the program to change, as bits. */
	unsigned not_applied;
	struct gm_fit search; /* without a range: one run, of the value 0 */
	char why[256];
};

struct gm_fit_table {
	const char *range; /* the name of the value that is searched for; NULL: none */
	int64_t from, to;
	struct gm_fit_device *devices;
	size_t device_count;
	struct gm_fit_variable variables[GM_FIT_VARIABLES_MAX];
	size_t variable_count;
	struct gm_fit_way *ways; /* the first is without a measure */
	size_t way_count;
	struct gm_fit_cell *cells; /* by device, then by values, then by way; owned */
	size_t count;
};

/* Makes the cells. GM_USAGE: there are too many. */
struct gm_error *gm_fit_table_fill(struct gm_fit_table *table);
/* Gives the cell's search a guess, from the cells before it. */
void gm_fit_table_guess(const struct gm_fit_table *table, struct gm_fit_cell *cell);

/* Of a combination of values the cell with the cheapest device on which `from` fits: by price if
 * any device has one, else by memory. Of equal ones the earliest way. NULL: it fits nowhere. */
const struct gm_fit_cell *gm_fit_cheapest(const struct gm_fit_table *table, size_t combination);
bool gm_fit_has_prices(const struct gm_fit_table *table);
/* How many combinations of values there are. */
size_t gm_fit_combinations(const struct gm_fit_table *table);

#endif
