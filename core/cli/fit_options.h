/* The words of `gpumem fit`. */
#ifndef GM_CLI_FIT_OPTIONS_H
#define GM_CLI_FIT_OPTIONS_H

#include "ask/fit.h"

struct gm_fit_options {
	struct gm_fit_table table; /* devices, variables and ways; no cells yet; owned */
	bool json, help;
	bool tabled;    /* more than one search was asked for */
	char **program; /* NULL-terminated; the caller's */
	char *words;    /* owned: what the table's names point into */
	char range[64];
};

struct gm_error *gm_fit_options_parse(int argc, char **argv, struct gm_fit_options *ret_options);
void gm_fit_options_deinit(struct gm_fit_options *options);

#endif
