#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

#include "base/nearest_word.h"

/* One line per command, in the order of `gpumem --help`. */
/* clang-format off: one a line, so that lines can be added side by side */
#define GM_COMMANDS(_) \
	_(info)        \
	_(events)      \
	_(blocks)      \
	_(at)          \
	_(timeline)    \
	_(peak)        \
	_(steps)       \
	_(phases)      \
	_(leaks)       \
	_(diff)        \
	_(assert)      \
	_(advise)      \
	_(segments)    \
	_(amp)         \
	_(zero)        \
	_(oom)         \
	_(export)      \
	_(view)        \
	_(why)         \
	_(who_holds)   \
	_(retained)    \
	_(frames)      \
	_(locals)      \
	_(run)         \
	_(attach)      \
	_(detach)      \
	_(top)         \
	_(gdb)         \
	_(core)        \
	_(fit)         \
	_(replay)      \
	_(estimate)    \
	_(learn)       \
	_(sim)         \
	_(mcp)         \
	_(doctor)
/* clang-format on */

#define DECLARE(name) extern const struct gm_command gm_command_##name;
GM_COMMANDS(DECLARE)
#undef DECLARE

#define ENTRY(name) &gm_command_##name,
const struct gm_command *const gm_commands[] = {GM_COMMANDS(ENTRY) NULL};
#undef ENTRY

const struct gm_command *gm_command_find(const char *name)
{
	for (size_t i = 0; gm_commands[i]; i++)
		if (strcmp(gm_commands[i]->name, name) == 0)
			return gm_commands[i];
	return NULL;
}

const struct gm_command *gm_command_nearest(const char *name, bool shell)
{
	const struct gm_command *best = NULL;
	size_t best_distance = SIZE_MAX;
	for (size_t i = 0; gm_commands[i]; i++) {
		const struct gm_command *command = gm_commands[i];
		if (shell ? !command->shell : !command->gdb)
			continue;
		size_t distance = gm_word_distance(name, command->name);
		if (distance < best_distance) {
			best = command;
			best_distance = distance;
		}
	}
	return best;
}
