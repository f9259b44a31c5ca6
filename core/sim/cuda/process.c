/* State of the whole process: the counters, whether it is a forked child, and how to report a
 * message. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cuda/sim.h"

GM_SIM_EXPORT struct gm_sim_account gpumem_sim_account = {
        .magic = GM_SIM_ACCOUNT_MAGIC,
        .version = GM_SIM_ACCOUNT_VERSION,
        .bytes = sizeof(struct gm_sim_account),
};

static bool forked;

bool gm_sim_forked(void)
{
	return forked;
}

void gm_sim_set_forked(void)
{
	forked = true;
}

void gm_sim_say(const char *format, ...)
{
	const char *quiet = getenv("GPUMEM_SIM_QUIET");
	if (quiet && *quiet && strcmp(quiet, "0") != 0)
		return;
	/* One write, so that lines of several processes and threads stay whole. */
	char line[1024];
	int at = snprintf(line, sizeof(line), "gpumem sim: ");
	va_list arguments;
	va_start(arguments, format);
	int more = vsnprintf(line + at, sizeof(line) - (size_t)at - 1, format, arguments);
	va_end(arguments);
	if (more < 0)
		return;
	size_t length = (size_t)at + (size_t)more;
	if (length > sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	ssize_t ignored = write(STDERR_FILENO, line, length);
	(void)ignored;
}
