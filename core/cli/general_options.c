#include "cli/general_options.h"

#include <stddef.h>
#include <string.h>

#include "cli/command.h"

static bool take(struct gm_general_options *options, const char *word)
{
	if (strcmp(word, "--quiet") == 0)
		return options->quiet = true;
	if (strcmp(word, "--no-pager") == 0)
		return options->no_pager = true;
	return false;
}

/* Where a program's words begin: at "--", which `run` and `fit` may leave out; then the words are
 * not ours to take. All of `gdb` are gdb's. */
static int end_of_own(int argc, char **argv, int command)
{
	const struct gm_command *known = gm_command_find(argv[command]);
	int end = command + 1;
	while (end < argc && strcmp(argv[end], "--") != 0)
		end++;
	bool program = known && known->effect == GM_EFFECT_PROGRAM;
	return program && (end == argc || strcmp(known->name, "gdb") == 0) ? command + 1 : end;
}

struct gm_general_options gm_general_options_take(int *argc, char **argv)
{
	struct gm_general_options options = {0};
	int kept = 1, at = 1;
	for (; at < *argc && (take(&options, argv[at]) || strcmp(argv[at], "-q") == 0); at++)
		options.quiet |= strcmp(argv[at], "-q") == 0;
	int end = at < *argc ? end_of_own(*argc, argv, at) : at;
	for (; at < *argc; at++)
		if (at >= end || !take(&options, argv[at]))
			argv[kept++] = argv[at];
	argv[kept] = NULL;
	*argc = kept;
	return options;
}
