#include "cli/sim_options.h"

#include <string.h>

struct gm_error *gm_value_option(const char *command, const struct gm_value_option *options,
        int argc, char **argv, int *index, bool *ret_is)
{
	const char *word = argv[*index];
	for (; options->name; options++) {
		size_t length = strlen(options->name);
		if (strncmp(word, options->name, length) != 0)
			continue;
		if (word[length] == '=') {
			*options->value = word + length + 1;
		} else if (word[length]) {
			continue;
		} else if (*index + 1 >= argc || strcmp(argv[*index + 1], "--") == 0) {
			return gm_error_create(GM_USAGE,
			        "%s: %s: needs a value: see `gpumem %s --help`", command,
			        options->name, command);
		} else {
			*options->value = argv[++*index];
		}
		*ret_is = true;
		return NULL;
	}
	*ret_is = false;
	return NULL;
}

struct gm_error *gm_sim_option(const char *command, struct gm_sim_launch *launch, int argc,
        char **argv, int *index, bool *ret_is)
{
	const struct gm_value_option options[] = {
	        {"--compute-below", &launch->compute_below},
	        {"--overflow-at", &launch->overflow_at},
	        {"--rank", &launch->rank},
	        {"--world", &launch->world},
	        {0},
	};
	return gm_value_option(command, options, argc, argv, index, ret_is);
}

struct gm_error *gm_sim_options_check(
        const char *command, const struct gm_sim_launch *launch, bool simulated)
{
	if (simulated)
		return NULL;
	const char *options = launch->compute_below || launch->overflow_at
	                              ? "--compute-below, --overflow-at: they need"
	                      : launch->rank || launch->world ? "--rank, --world: they need"
	                                                      : NULL;
	return options ? gm_error_create(GM_USAGE,
	                         "%s: %s the simulated device: add --sim, or leave them out",
	                         command, options)
	               : NULL;
}
