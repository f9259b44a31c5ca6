/*
 * Learning a CPython that has no shipped row, as learn.h does of a PyTorch: the very interpreter is
 * started as a probe (core/learn/python/probe.py), passes a row and what it says of itself, and
 * is stopped. gpumem's readers open it with that row, and must say the same.
 */
#ifndef GM_LEARN_PYTHON_H
#define GM_LEARN_PYTHON_H

#include "cpython/cpython.h"
#include "cpython/versions/learned.h"
#include "learn/learn.h"

struct gm_learn_python_result {
	struct gm_python_learned *learned; /* owned; NULL where it was taken */
	char version[48];
	double seconds;
	char *missing; /* a line "NAME WHY" for each field left out; owned */
};
void gm_learn_python_result_deinit(struct gm_learn_python_result *result);

/* GM_TARGET: the probe did not come to an end, or its row is not whole or not proved: says
 * which. */
struct gm_error *gm_learn_python(
        const struct gm_learn_options *options, struct gm_learn_python_result *ret_result);

/* Of a process that runs; see gm_learn_of_process(). `build` tells which CPython it has loaded. */
struct gm_error *gm_learn_python_of_process(
        int pid, const struct gm_python_build *build, struct gm_learn_python_result *ret_result);

/* --- for tests, and inside --- */

/* A row of a probe's text. GM_TARGET: it is no answer of a probe's, or the row is not whole. */
struct gm_error *gm_learn_python_row(
        const char *text, struct gm_python_learned **ret_learned, char **ret_missing);

#endif
