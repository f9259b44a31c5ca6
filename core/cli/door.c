/* Doors: where a command is typed. Finds the command, runs it, turns errors into lines and
 * statuses. */
#include "cli/door.h"

#include <inttypes.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ask/target/pause.h"
#include "base/allocation.h"
#include "base/cleanup.h"
#include "base/put.h"
#include "base/visible.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "image/remote.h"
#include "log/log.h"
#include "render/json.h"

/* A process that the debugger reads for us: what it handed over. */
struct remote_process {
	struct gm_remote remote;
	gpumem_read_callback read;
	gpumem_registers_callback registers;
	gpumem_file_callback file;
	void *context; /* the debugger's */
	char *maps;
	pid_t *threads;
};

struct gpumem_door {
	struct gm_context context;
	struct gm_progress_line line;
	struct gm_progress progress; /* writes to that line */
	char *core;                  /* the session's own, NULL: none */
	struct remote_process *remote;
	char *log; /* the session's own log; a FILE argument overrides it for one command */
};

const char *gpumem_version(void)
{
	return GPUMEM_VERSION;
}

void gpumem_free(void *pointer)
{
	free(pointer);
}

char *gpumem_visible(const char *text, size_t length)
{
	char *shown = NULL;
	size_t size;
	FILE *out = open_memstream(&shown, &size);
	if (!out)
		return NULL;
	gm_put_visible(text, length, out);
	if (fclose(out) == 0)
		return shown;
	free(shown);
	return NULL;
}

gpumem_door *gpumem_door_create(void)
{
	gpumem_door *door = calloc(1, sizeof(*door));
	gm_json_begin();
	if (door)
		gm_context_init(&door->context);
	return door;
}

static void free_remote(struct remote_process *process)
{
	if (!process)
		return;
	free(process->maps);
	free(process->threads);
	free(process);
}

void gpumem_door_destroy(gpumem_door *door)
{
	if (!door)
		return;
	gm_context_deinit(&door->context);
	free_remote(door->remote);
	free(door->core);
	free(door->log);
	free(door);
}

void gpumem_door_set_process(gpumem_door *door, int pid)
{
	door->context.pid = pid;
}

void gpumem_door_set_thread(gpumem_door *door, int thread)
{
	door->context.thread = thread;
}

void gpumem_door_set_core(gpumem_door *door, const char *path)
{
	free(door->core);
	door->core = path ? strdup(path) : NULL;
}

void gpumem_door_set_log(gpumem_door *door, const char *path)
{
	free(door->log);
	door->log = path ? strdup(path) : NULL;
}

void gpumem_door_set_terminal(gpumem_door *door, int columns, int colors)
{
	door->context.columns = columns > 0 ? columns : 0;
	door->context.colors = colors != 0;
}

void gpumem_door_invalidate(gpumem_door *door)
{
	gm_context_invalidate(&door->context);
}

struct gm_context *gm_door_context(gpumem_door *door)
{
	return &door->context;
}

void gm_door_set_shell(gpumem_door *door)
{
	door->context.shell = true;
}

static void show_progress(void *context, const char *what, uint64_t done, uint64_t all)
{
	gm_progress_show(context, what, done, all);
}

void gpumem_door_show_progress(gpumem_door *door, int on)
{
	door->line = gm_progress_begin(stderr);
	door->progress = (struct gm_progress){show_progress, &door->line};
	door->context.progress = on ? &door->progress : NULL;
}

/* --- a process that the debugger reads ------------------------------------------------------------- */

static bool remote_registers(void *context, pid_t thread, uint64_t *words)
{
	const struct remote_process *process = context;
	return process->registers(process->context, thread, words) != 0;
}

static bool remote_file(void *context, const char *name, char *path, size_t size)
{
	const struct remote_process *process = context;
	return process->file(process->context, name, path, size) != 0;
}

static size_t remote_read(void *context, uint64_t address, void *buffer, size_t size)
{
	const struct remote_process *process = context;
	return process->read(process->context, address, buffer, size);
}

int gpumem_door_set_remote(gpumem_door *door, int pid, const char *maps, const int *threads,
        size_t count, gpumem_read_callback read, gpumem_registers_callback registers,
        gpumem_file_callback file, void *context)
{
	struct remote_process *process = read ? calloc(1, sizeof(*process)) : NULL;
	if (process) {
		process->maps = strdup(maps);
		process->threads = calloc(count + 1, sizeof(*process->threads));
		process->read = read;
		process->registers = registers;
		process->file = file;
		process->context = context;
	}
	if (read && (!process || !process->maps || !process->threads)) {
		free_remote(process);
		return GM_INTERNAL;
	}
	/* The image that was opened with the one before holds on to it. */
	if (door->context.close_target)
		door->context.close_target(&door->context);
	free_remote(door->remote);
	door->remote = process;
	door->context.remote = process ? &process->remote : NULL;
	door->context.remote_number++;
	if (!process)
		return GM_OK;
	for (size_t i = 0; i < count; i++)
		process->threads[i] = threads[i];
	process->remote = (struct gm_remote){.context = process,
	        .read = remote_read,
	        .registers = remote_registers,
	        .file = remote_file,
	        .maps = process->maps,
	        .threads = process->threads,
	        .thread_count = count,
	        .main_thread = pid};
	return GM_OK;
}

/* --- commands -------------------------------------------------------------------------------------- */

static struct gm_error *run_command(gpumem_door *door, const struct gm_command *command, int argc,
        const char *const *argv, FILE *out, FILE *err, int *ret_status)
{
	/* Answers are held back until it is known that they are some: their first megabyte at least. */
	static char held[1 << 20];
	if (door->context.shell && !command->streams)
		setvbuf(out, held, _IOFBF, sizeof(held));
	gm_allocation_forget();
	/* argp moves arguments about, and commands may cut them: they get a copy. */
	_cleanup_free_ char **copy = calloc((size_t)argc + 1, sizeof(*copy));
	_cleanup_free_ char **owned = calloc((size_t)argc + 1, sizeof(*owned));
	if (!copy || !owned)
		return &gm_error_no_memory;
	struct gm_error *error = NULL;
	for (int i = 0; i < argc && !error; i++) {
		copy[i] = owned[i] = strdup(argv[i]);
		if (!copy[i])
			error = &gm_error_no_memory;
	}
	/* A FILE argument or --pid, --core, --sysroot is for this one command; the session's own come back after it.
	 */
	int pid = door->context.pid, thread = door->context.thread;
	if (!error)
		error = gm_context_set_log(&door->context, door->log);
	if (!error)
		error = gm_context_set_core(&door->context, door->core);
	if (!error)
		error = command->run(&door->context, argc, copy, out, err, ret_status);
	gm_progress_end(&door->line);
	/* A search that got no memory has found nothing, without an error of its own. */
	if (gm_allocation_failed() && !command->streams) {
		gm_error_destroy(error);
		error = &gm_error_no_memory;
		__fpurge(out);
	}
	/* What does not make sense in the memory of a process that ended meanwhile is not its fault. */
	struct gm_error *ended = error ? gm_context_check_there(&door->context) : NULL;
	if (ended) {
		gm_error_destroy(error);
		error = ended;
	}
	uint64_t end;
	if (!error && door->context.shell && door->context.log &&
	        gm_log_truncated(door->context.log, &end))
		gm_put(err,
		        "gpumem: %s: the file is cut short at byte %" PRIu64
		        ": the answer is about what stands before\n",
		        gm_log_path(door->context.log), end);
	struct gm_pause pause = gm_context_last_pause(&door->context);
	if (pause.state == GM_PAUSED && isatty(fileno(err)))
		gm_put(err, "gpumem: process %d was paused for %.2f s\n", door->context.pid,
		        pause.seconds);
	if (door->context.learned)
		gm_put(err, "gpumem: %s\n", door->context.learned);
	free(gm_take(door->context.learned));
	free(gm_take(door->context.unlearned));
	gm_error_destroy(gm_context_set_layouts(&door->context, NULL));
	door->context.no_learn = false;
	gm_error_destroy(gm_context_set_loop(&door->context, NULL));
	door->context.pid = pid;
	door->context.thread = thread;
	if (!door->context.shell)
		gm_error_destroy(gm_context_set_sysroot(&door->context, NULL));
	for (int i = 0; i < argc; i++)
		free(owned[i]);
	return error;
}

static struct gm_error *dispatch(
        gpumem_door *door, int argc, const char *const *argv, FILE *out, FILE *err, int *ret_status)
{
	bool shell = door->context.shell;
	if (argc < 1 || strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) {
		gm_commands_help(shell, out);
		return NULL;
	}
	if (strcmp(argv[0], "--version") == 0) {
		gm_put(out, "gpumem %s\n", GPUMEM_VERSION);
		return NULL;
	}
	if (strcmp(argv[0], "help") == 0 && argc == 2 && gm_command_find(argv[1])) {
		gm_command_help(gm_command_find(argv[1]), out);
		return NULL;
	}
	const struct gm_command *command = gm_command_find(argv[0]);
	if (!command) {
		const struct gm_command *nearest = gm_command_nearest(argv[0], shell);
		if (nearest)
			return gm_error_create(GM_USAGE,
			        "unknown command '%s': there is none so named: did you mean "
			        "`gpumem %s`?",
			        argv[0], nearest->name);
		return gm_error_create(GM_USAGE,
		        "unknown command '%s': there is none so named: see `gpumem --help`",
		        argv[0]);
	}
	if (shell ? !command->shell : !command->gdb)
		return gm_error_create(GM_USAGE, "%s: not possible here: it is typed in %s",
		        command->name, shell ? "gdb, as `gpumem` there" : "a shell");
	return run_command(door, command, argc, argv, out, err, ret_status);
}

int gm_door_run(gpumem_door *door, int argc, const char *const *argv, FILE *out, FILE *err)
{
	int status = GM_OK;
	_cleanup_error_ struct gm_error *error = dispatch(door, argc, argv, out, err, &status);
	if (!error)
		return status;
	gm_put(err, "gpumem: %s\n", error->message);
	return error->status;
}

int gpumem_door_run(
        gpumem_door *door, int argc, const char *const *argv, char **ret_out, char **ret_err)
{
	char *out_text = NULL, *err_text = NULL;
	size_t out_size = 0, err_size = 0;
	*ret_out = *ret_err = NULL;
	FILE *out = open_memstream(&out_text, &out_size);
	FILE *err = open_memstream(&err_text, &err_size);
	int status = GM_INTERNAL;
	if (out && err)
		status = gm_door_run(door, argc, argv, out, err);
	/* A stream that could not grow has lost text: half an answer is none. */
	if (!out || fclose(out) != 0 || !err || fclose(err) != 0)
		status = GM_INTERNAL;
	if (out_size)
		*ret_out = gm_take(out_text);
	if (err_size)
		*ret_err = gm_take(err_text);
	free(out_text);
	free(err_text);
	return status;
}

/* What gdb's plugin makes commands of. */
static const struct gm_command *gdb_command(size_t index)
{
	for (size_t i = 0; gm_commands[i]; i++)
		if (gm_commands[i]->gdb && index-- == 0)
			return gm_commands[i];
	return NULL;
}

const char *gpumem_command_name(size_t index)
{
	const struct gm_command *command = gdb_command(index);
	return command ? command->name : NULL;
}

const char *gpumem_command_summary(size_t index)
{
	const struct gm_command *command = gdb_command(index);
	return command ? command->summary : NULL;
}
