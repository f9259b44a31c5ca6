/* `gpumem mcp`: becomes the server, a Python program, as the protocol's library is in Python. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/nearest_word.h"
#include "base/put.h"
#include "base/sibling_path.h"
#include "base/size.h"
#include "cli/arguments.h"
#include "cli/command.h"

extern const struct gm_command gm_command_mcp;

enum {
	KEY_ALLOW = 0x1501,
	KEY_PYTHON,
	KEY_MAX_ANSWER,
	KEY_TIMEOUT,
	ANSWER_LEAST = 1000,
	TIMEOUT_MOST = 86400,
};

struct request {
	const char *allow, *python;
	uint64_t max_answer, timeout;
};

static const struct argp_option option_table[] = {
        {"allow", KEY_ALLOW, "files,processes,programs", 0,
                "also offers commands that write files, change processes, start programs", 0},
        {"max-answer", KEY_MAX_ANSWER, "SIZE", 0, "cuts longer answers, and reports it (60000)", 0},
        {"timeout", KEY_TIMEOUT, "SECONDS", 0, "ends questions that take longer (600)", 0},
        {"python", KEY_PYTHON, "PYTHON", 0, "the Python that has the package mcp (python3)", 0},
        {0},
};

static struct gm_error *check_allowed(const char *text)
{
	static const char *const known[] = {"files", "processes", "programs", NULL};
	return gm_words_check("--allow", text, known);
}

static struct gm_error *take_option(void *input, int key, const char *argument)
{
	struct request *request = input;
	switch (key) {
	case KEY_ALLOW:
		request->allow = argument;
		return check_allowed(argument);
	case KEY_PYTHON:
		request->python = argument;
		return NULL;
	case KEY_MAX_ANSWER:
		gm_try(gm_error_prefix(
		        gm_parse_bytes(argument, &request->max_answer), "--max-answer"));
		return request->max_answer >= ANSWER_LEAST
		               ? NULL
		               : gm_error_create(
		                         GM_USAGE, "--max-answer: give %d at least", ANSWER_LEAST);
	default:
		return gm_error_prefix(
		        gm_parse_number(argument, 1, TIMEOUT_MOST, &request->timeout), "--timeout");
	}
}

/* The command line replaces ours: the protocol is spoken on the same stdin and stdout. */
static struct gm_error *become_server(
        const char *program, const char *self, const struct request *request)
{
	char max[32], timeout[32];
	snprintf(max, sizeof(max), "%llu", (unsigned long long)request->max_answer);
	snprintf(timeout, sizeof(timeout), "%llu", (unsigned long long)request->timeout);
	const char *const words[] = {
	        request->python, "-u", program, self, request->allow, max, timeout, NULL};
	fflush(NULL);
	execvp(request->python, (char *const *)words);
	return gm_error_os(GM_TARGET, errno,
	        "mcp: %s: cannot be started: name a Python that has the package mcp with --python",
	        request->python);
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	const char *python = getenv("GPUMEM_MCP_PYTHON");
	struct request request = {
	        .allow = "",
	        .python = python && *python ? python : "python3",
	        .max_answer = 60000,
	        .timeout = 600,
	};
	struct gm_arguments arguments;
	gm_try(gm_arguments_parse(&gm_command_mcp, argc, argv, option_table, take_option, &request,
	        0, false, out, &arguments));
	if (arguments.help)
		return NULL;
	if (arguments.json)
		return gm_error_create(GM_USAGE, "mcp: --json: the protocol is JSON already");
	_cleanup_free_ char *program = gm_installed_path("gpumem-mcp/server.py");
	if (!program)
		return gm_error_create(GM_INTERNAL,
		        "mcp: gpumem-mcp/server.py is not installed next to this program: install "
		        "all of gpumem");
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (length <= 0)
		return gm_error_os(GM_INTERNAL, errno, "mcp: the path of this program");
	self[length] = 0;
	if (isatty(STDIN_FILENO))
		gm_put(err, "gpumem: mcp: waits for a client on stdin; clients start `gpumem mcp` "
		            "themselves (docs/mcp.md); Ctrl-D ends it\n");
	return become_server(program, self, &request);
}

const struct gm_command gm_command_mcp = {
        .name = "mcp",
        .summary = "offers the questions to AI agents, by the Model Context Protocol",
        .usage = "[--allow files,processes,programs] [--max-answer SIZE] [--timeout SECONDS] "
                 "[--python PYTHON]\n"
                 "Runs a server of the Model Context Protocol on stdin and stdout. Clients start "
                 "it. Each question is\n"
                 "a tool, whose schema is made from the same tables as --help. It contains a guide "
                 "for AI agents.\n"
                 "By default it offers only commands that read. With --allow it also offers "
                 "commands that "
                 "write files (view,\n"
                 "export, core), change processes (attach, detach) or start programs (replay, "
                 "learn). It needs the Python\n"
                 "package mcp, which the wheel's extra [mcp] installs.\n"
                 "\n"
                 " Example: gpumem mcp\n"
                 " Example: gpumem mcp --allow files --python .venv/bin/python",
        .effect = GM_EFFECT_PROGRAM,
        .shell = true,
        .streams = true,
        .run = run,
};
