#include "cli/help.h"

#include <stdint.h>
#include <string.h>

#include "base/put.h"
#include "cli/command.h"

enum { WORD_MAX = 63 };

size_t gm_edit_distance(const char *a, const char *b)
{
	size_t length_a = strlen(a), length_b = strlen(b);
	if (length_a > WORD_MAX || length_b > WORD_MAX)
		return SIZE_MAX;
	size_t row[WORD_MAX + 1];
	for (size_t j = 0; j <= length_b; j++)
		row[j] = j;
	for (size_t i = 1; i <= length_a; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= length_b; j++) {
			size_t above = row[j];
			size_t best = diagonal + (a[i - 1] != b[j - 1]);
			if (above + 1 < best)
				best = above + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diagonal = above;
			row[j] = best;
		}
	}
	return row[length_b];
}

void gm_command_help(const struct gm_command *command, FILE *out)
{
	fprintf(out, "Usage: gpumem %s%s%s\n", command->name, command->usage[0] ? " " : "",
	        command->usage);
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
	fputs("Exit status: 0 answered, 1 a negative answer, 2 wrong usage, 3 corrupt input,\n"
	      "4 the target cannot be read, 5 internal.\n",
	        out);
}
