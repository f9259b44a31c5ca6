/* `core`: a core dump of a process, small enough to keep. */
#include <signal.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/target.h"
#include "image/core_write.h"
#include "image/remote.h"
#include "render/core.h"
#include "ask/context.h"

extern const struct gm_command gm_command_core;

enum { KEY_OUT = 'o', KEY_COMPRESS = 'z' };

struct request {
	struct gm_context *context;
	const char *path;
	bool compress;
};

static const struct argp_option options[] = {
        {"out", KEY_OUT, "FILE", 0, "-o FILE: the file to write (core.PID)", 0},
        {"compress", KEY_COMPRESS, NULL, 0, "compresses the core, as FILE.zst", 0},
        {"pid", GM_TARGET_PID, "PID", 0, "the process, like the argument PID", 0},
        {0},
};

static struct gm_error *take_option(void *input, int key, const char *argument)
{
	struct request *request = input;
	if (key == KEY_OUT)
		request->path = argument;
	else if (key == KEY_COMPRESS)
		request->compress = true;
	else
		return gm_target_option(request->context, key, argument);
	return NULL;
}

/* core.PID, core.PID.zst; caller frees. */
static char *default_path(int pid, bool compress)
{
	char *path;
	return asprintf(&path, "core.%d%s", pid, compress ? ".zst" : "") < 0 ? NULL : path;
}

/* --- interruption ----------------------------------------------------------------------------- */

static volatile int cancelled;

static void cancel(int signal)
{
	cancelled = 1;
}

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { SIGNAL_COUNT = sizeof(signals) / sizeof(*signals) };

/* In gdb Ctrl-C belongs to gdb. */
static void catch_signals(struct sigaction before[SIGNAL_COUNT])
{
	const struct sigaction action = {.sa_handler = cancel};
	for (size_t i = 0; i < SIGNAL_COUNT; i++)
		sigaction(signals[i], &action, &before[i]);
}

static void restore_signals(const struct sigaction before[SIGNAL_COUNT])
{
	for (size_t i = 0; i < SIGNAL_COUNT; i++)
		sigaction(signals[i], &before[i], NULL);
}

static void show(void *line, uint64_t done, uint64_t all)
{
	gm_progress_show(line, GM_PROGRESS_WRITING_CORE, done, all);
}

static struct gm_error *write_core(const struct request *request, const char *path, FILE *err,
        struct gm_core_written *ret_written)
{
	struct gm_context *context = request->context;
	struct gm_image *image;
	gm_try(gm_context_image(context, &image));
	cancelled = 0;
	struct gm_progress_line line = {0};
	struct gm_core_options core_options = {
	        .compress = request->compress, .thread = context->thread, .cancel = &cancelled};
	struct sigaction before[SIGNAL_COUNT];
	if (context->shell) {
		line = gm_progress_begin(err);
		core_options.progress = show;
		core_options.context = &line;
		catch_signals(before);
	}
	struct gm_error *error = gm_core_write(image, path, &core_options, ret_written);
	if (context->shell) {
		restore_signals(before);
		gm_progress_end(&line);
	}
	return error;
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct request request = {.context = context};
	struct gm_arguments arguments;
	gm_try(gm_arguments_parse(&gm_command_core, argc, argv, options, take_option, &request, 1,
	        false, out, &arguments));
	if (arguments.help)
		return NULL;
	if (arguments.positional_count > 0) {
		uint64_t pid;
		gm_try(gm_error_prefix(
		        gm_parse_number(arguments.positional[0], 1, 1 << 30, &pid), "core: PID"));
		context->pid = (int)pid;
	}
	int number = context->pid;
	if (context->remote && number <= 0)
		number = context->remote->main_thread;
	if (number <= 0)
		return gm_error_create(GM_USAGE,
		        context->shell
		                ? "core: no process given: name one, as in `gpumem core 4711`"
		                : "no process: the program is not running: start it with `run` or "
		                  "attach to it");
	_cleanup_free_ char *own = default_path(number, request.compress);
	if (!own)
		return &gm_error_no_memory;
	const char *path = request.path ? request.path : own;
	struct gm_core_written written;
	gm_try(write_core(&request, path, err, &written));
	if (arguments.json)
		return gm_render_core_json(path, number, &written, out);
	gm_render_core(path, number, &written, out);
	return NULL;
}

const struct gm_command gm_command_core = {
        .name = "core",
        .summary = "writes a small core dump of a running process, which continues",
        .usage = "PID [-o FILE] [--compress] [--json]\n"
                 "Writes the parts of a process that gdb, pystack and gpumem need: its threads and "
                 "the memory\n"
                 "that it changed. Device memory, pages that were never touched and unchanged "
                 "pages of\n"
                 "libraries are left out. The process is stopped meanwhile, needs no extra memory, "
                 "and continues\n"
                 "afterwards. In gdb: writes a core of the program under the debugger.\n"
                 "\n"
                 " Example: gpumem core 4711\n"
                 " Example: gpumem core 4711 -o /big/run.core --compress\n"
                 " Example: gpumem who-holds --core core.4711 0x7f2b40000000",
        .effect = GM_EFFECT_FILES,
        .shell = true,
        .gdb = true,
        .run = run,
};
