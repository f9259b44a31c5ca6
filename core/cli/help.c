/* Help texts. */
#include <stdint.h>
#include <string.h>

#include "base/put.h"
#include "cli/command.h"

void gm_command_help(const struct gm_command *command, FILE *out)
{
	fprintf(out, "Usage: %s %s%s%s\n", command->program ? command->program : "gpumem",
	        command->name, command->usage[0] ? " " : "", command->usage);
}

void gm_commands_help(bool shell, FILE *out)
{
	gm_put(out,
	        "gpumem %s: answers questions about GPU memory in PyTorch programs.\n\n"
	        "Usage: gpumem COMMAND [ARGUMENTS]\n\nCommands:\n",
	        GPUMEM_VERSION);
	int width = 0;
	for (size_t i = 0; gm_commands[i]; i++) {
		int length = (int)strlen(gm_commands[i]->name);
		width = length > width ? length : width;
	}
	for (size_t i = 0; gm_commands[i]; i++) {
		const struct gm_command *command = gm_commands[i];
		if (shell ? command->shell : command->gdb)
			gm_put(out, "  %-*s  %s\n", width, command->name, command->summary);
	}
	fputs("\n"
	      "`gpumem COMMAND --help` describes a command, with an example.\n",
	        out);
	if (shell)
		fputs("All commands also take --quiet (only errors on stderr) and --no-pager (long "
		      "answers do not go through\n"
		      "GPUMEM_PAGER, PAGER or less), before or after COMMAND.\n",
		        out);
	fputs("Exit status: 0 answered, 1 a negative answer, 2 wrong usage, 3 corrupt input,\n"
	      "4 the target cannot be read, 5 internal error.\n",
	        out);
}
