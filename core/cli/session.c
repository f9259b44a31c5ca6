/* Sessions: the place where commands are run. Finds the command, runs it, and turns errors into
 * lines and statuses. */
#include "cli/session.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ask/target/pause.h"
#include "ask/context.h"
#include "base/allocation.h"
#include "base/cleanup.h"
#include "base/put.h"
#include "base/visible.h"
#include "cli/command.h"
#include "image/remote.h"
#include "log/log.h"
#include "render/json.h"

/* A process that the debugger reads for us, with its callbacks. */
struct gm_remote_process {
	struct gm_remote remote;
	gpumem_read_callback read;
	gpumem_registers_callback registers;
	gpumem_file_callback file;
	void *context; /* the debugger's */
	char *maps;
	pid_t *threads;
};

/* Recursive: a callback that reads for us may cause another question of the debugger. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

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

gpumem_session *gpumem_session_create(void)
{
	gpumem_session *session = calloc(1, sizeof(*session));
	gm_json_begin();
	if (session)
		gm_context_init(&session->context);
	return session;
}

static void free_remote(struct gm_remote_process *process)
{
	if (!process)
		return;
	free(process->maps);
	free(process->threads);
	free(process);
}

void gpumem_session_destroy(gpumem_session *session)
{
	if (!session)
		return;
	gm_context_deinit(&session->context);
	free_remote(session->remote);
	free(session->core);
	free(session->log);
	free(session->source.recording);
	free(session->source.core);
	free(session->source.sysroot);
	free(session->source.layouts);
	free(session->source.loop);
	free(session->notes);
	free(session);
}

void gpumem_session_set_process(gpumem_session *session, int pid)
{
	session->context.pid = pid;
}

void gpumem_session_set_thread(gpumem_session *session, int thread)
{
	session->context.thread = thread;
}

void gpumem_session_set_frame(gpumem_session *session, unsigned frame)
{
	session->context.frame = frame;
}

void gpumem_session_set_core(gpumem_session *session, const char *path)
{
	free(session->core);
	session->core = path ? strdup(path) : NULL;
}

void gpumem_session_set_log(gpumem_session *session, const char *path)
{
	free(session->log);
	session->log = path ? strdup(path) : NULL;
}

void gpumem_session_set_terminal(gpumem_session *session, int columns, int colors)
{
	session->context.columns = columns > 0 ? columns : 0;
	session->context.colors = colors != 0;
}

void gpumem_session_invalidate(gpumem_session *session)
{
	gm_context_invalidate(&session->context);
}

struct gm_context *gm_session_context(gpumem_session *session)
{
	return &session->context;
}

void gm_session_set_shell(gpumem_session *session)
{
	session->context.shell = true;
}

void gm_session_set_quiet(gpumem_session *session, bool quiet)
{
	session->quiet = quiet;
}

static void show_progress(void *context, enum gm_progress_kind kind, uint64_t done, uint64_t all)
{
	gm_progress_show(context, kind, done, all);
}

void gpumem_session_show_progress(gpumem_session *session, int on)
{
	session->line = gm_progress_begin(stderr);
	session->progress = (struct gm_progress){show_progress, &session->line};
	session->context.progress = on ? &session->progress : NULL;
}

/* --- a process read by the debugger ----------------------------------------------------------- */

static bool remote_registers(void *context, pid_t thread, uint64_t *words)
{
	const struct gm_remote_process *process = context;
	return process->registers(process->context, thread, words) != 0;
}

static bool remote_file(void *context, const char *name, char *path, size_t size)
{
	const struct gm_remote_process *process = context;
	return process->file(process->context, name, path, size) != 0;
}

static size_t remote_read(void *context, uint64_t address, void *buffer, size_t size)
{
	const struct gm_remote_process *process = context;
	return process->read(process->context, address, buffer, size);
}

int gpumem_session_set_remote(gpumem_session *session, int pid, const char *maps,
        const int *threads, size_t count, gpumem_read_callback read,
        gpumem_registers_callback registers, gpumem_file_callback file, void *context)
{
	struct gm_remote_process *process = read ? calloc(1, sizeof(*process)) : NULL;
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
	/* The image that was opened with the previous callbacks still refers to them. */
	if (session->context.close_target)
		session->context.close_target(&session->context);
	free_remote(session->remote);
	session->remote = process;
	session->context.remote = process ? &process->remote : NULL;
	session->context.remote_number++;
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

static void put_learned(const struct gm_learned_layout *learned, FILE *err)
{
	const char *what = learned->kind == GM_LEARNED_TORCH ? "PyTorch" : "CPython";
	if (learned->kind == GM_LEARNED_NOTHING)
		return;
	if (learned->why)
		gm_put(err,
		        "gpumem: learned %s %s in %.1f s, for this question only: the layout could "
		        "not be saved (%s)\n",
		        what, learned->version, learned->seconds, learned->why);
	else
		gm_put(err, "gpumem: learned %s %s in %.1f s, once for this build: saved in %s\n",
		        what, learned->version, learned->seconds, learned->path);
}

/* --- commands --------------------------------------------------------------------------------- */

/* What is reported of a file's end after the answer. */
static void put_end(const struct gm_context *context, FILE *err)
{
	const struct gm_log *log = context->log;
	uint64_t end;
	if (gm_log_truncated(log, &end))
		gm_put(err,
		        "gpumem: %s: the file is truncated at byte %" PRIu64
		        ": the answer covers only the part before\n",
		        gm_log_path(log), end);
	else if (!gm_log_event_count(log) && !gm_log_closed(log) && !context->log_imported &&
	         !context->log_live)
		gm_put(err,
		        "gpumem: %s: the recording has no events yet and is not closed: the "
		        "program "
		        "still runs, the recorder was killed, or the file was cut\n",
		        gm_log_path(log));
}

static struct gm_error *run_command(gpumem_session *session, const struct gm_command *command,
        int argc, const char *const *argv, FILE *out, FILE *err, int *ret_status)
{
	/* Answers are held back until they are known to be complete: at least their first megabyte.
	 * */
	static char held[1 << 20];
	if (session->context.shell && !command->streams && fileno(out) >= 0)
		setvbuf(out, held, _IOFBF, sizeof(held));
	gm_allocation_forget();
	/* argp reorders arguments, and commands may modify them: they get a copy. */
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
	/* A FILE argument or --pid, --core, --sysroot applies to this command only; afterwards the
	 * session's own are restored. */
	int pid = session->context.pid, thread = session->context.thread;
	if (!error)
		error = gm_context_set_log(&session->context, session->log);
	if (!error)
		error = gm_context_set_core(&session->context, session->core);
	_cleanup_fclose_ FILE *nothing = session->quiet ? fopen("/dev/null", "we") : NULL;
	FILE *notes = nothing ? nothing : err;
	if (!error)
		error = command->run(&session->context, argc, copy, out, notes, ret_status);
	gm_progress_end(&session->line);
	/* A search without memory has found nothing, without an error of its own. */
	if (gm_allocation_failed() && !command->streams) {
		gm_error_destroy(error);
		error = &gm_error_no_memory;
		__fpurge(out);
	}
	/* If the process ended meanwhile, its memory may be inconsistent, which is not its fault.
	 * */
	struct gm_error *ended = error ? gm_context_check_there(&session->context) : NULL;
	if (ended) {
		gm_error_destroy(error);
		error = ended;
	}
	if (!error && session->context.shell && session->context.log)
		put_end(&session->context, err);
	struct gm_pause pause = gm_context_last_pause(&session->context);
	if (pause.state == GM_PAUSED && isatty(fileno(notes)))
		gm_put(notes, "gpumem: process %d was paused for %.2f s\n", session->context.pid,
		        pause.seconds);
	put_learned(&session->context.learned, notes);
	gm_learned_layout_deinit(&session->context.learned);
	free(gm_take(session->context.unlearned));
	gm_error_destroy(gm_context_set_layouts(&session->context, NULL));
	session->context.no_learn = false;
	gm_error_destroy(gm_context_set_loop(&session->context, NULL));
	session->context.pid = pid;
	session->context.thread = thread;
	if (!session->context.shell)
		gm_error_destroy(gm_context_set_sysroot(&session->context, NULL));
	for (int i = 0; i < argc; i++)
		free(owned[i]);
	return error;
}

/* What was probably meant: a file, an option, or another command. */
static struct gm_error *unknown_command(const char *name, bool shell)
{
	const struct gm_command *nearest = gm_command_nearest(name, shell);
	const char *suffix = strrchr(name, '.');
	if (name[0] == '-')
		return gm_error_create(GM_USAGE, "unknown option '%s': see `gpumem --help`", name);
	if (shell && strcmp(name, "ranks") == 0)
		return gm_error_create(GM_USAGE,
		        "unknown command 'ranks': all ranks of a job are asked by a program of its "
		        "own: see `gpumem-ranks --help`");
	if (shell && suffix && strcmp(suffix, ".py") == 0)
		return gm_error_create(GM_USAGE,
		        "unknown command '%s': to run it: `gpumem run -- python %s`", name, name);
	if (suffix && access(name, F_OK) == 0)
		return gm_error_create(GM_USAGE,
		        "unknown command '%s': a question comes before the file, as in `gpumem "
		        "peak %s`",
		        name, name);
	if (nearest)
		return gm_error_create(GM_USAGE, "unknown command '%s': did you mean `gpumem %s`?",
		        name, nearest->name);
	return gm_error_create(GM_USAGE, "unknown command '%s': see `gpumem --help`", name);
}

static struct gm_error *dispatch(gpumem_session *session, int argc, const char *const *argv,
        FILE *out, FILE *err, int *ret_status)
{
	bool shell = session->context.shell;
	if (argc < 1 || strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) {
		if (argc == 2 && strcmp(argv[1], "--json") == 0)
			return gm_commands_help_json(shell, out);
		gm_commands_help(shell, out);
		return NULL;
	}
	if (strcmp(argv[0], "--version") == 0 || strcmp(argv[0], "-V") == 0) {
		gm_put(out, "gpumem %s\n", GPUMEM_VERSION);
		return NULL;
	}
	if (strcmp(argv[0], "help") == 0 && argc == 1) {
		gm_commands_help(shell, out);
		return NULL;
	}
	const char *name = strcmp(argv[0], "help") == 0 ? argv[1] : argv[0];
	const struct gm_command *command = gm_command_find(name);
	if (!command)
		return unknown_command(name, shell);
	if (name != argv[0]) {
		const char *const words[] = {name, "--help"};
		return run_command(session, command, 2, words, out, err, ret_status);
	}
	if ((shell ? !command->shell : !command->gdb) || (session->library && !command->gdb))
		return gm_error_create(GM_USAGE, "%s: not possible here: type it in %s",
		        command->name,
		        shell && !session->library ? "gdb, as `gpumem` there" : "a shell");
	return run_command(session, command, argc, argv, out, err, ret_status);
}

void gm_session_lock(void)
{
	pthread_mutex_lock(&lock);
}

void gm_session_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

struct gm_error *gm_session_ask(gpumem_session *session, int argc, const char *const *argv,
        FILE *out, FILE *err, int *ret_status)
{
	gm_session_lock();
	struct gm_error *error = dispatch(session, argc, argv, out, err, ret_status);
	gm_session_unlock();
	return error;
}

int gm_session_run(gpumem_session *session, int argc, const char *const *argv, FILE *out, FILE *err)
{
	int status = GM_OK;
	_cleanup_error_ struct gm_error *error =
	        gm_session_ask(session, argc, argv, out, err, &status);
	if (!error)
		return status;
	gm_put(err, "gpumem: %s\n", error->message);
	return error->status;
}

int gpumem_session_run(
        gpumem_session *session, int argc, const char *const *argv, char **ret_out, char **ret_err)
{
	char *out_text = NULL, *err_text = NULL;
	size_t out_size = 0, err_size = 0;
	*ret_out = *ret_err = NULL;
	FILE *out = open_memstream(&out_text, &out_size);
	FILE *err = open_memstream(&err_text, &err_size);
	int status = GM_INTERNAL;
	if (out && err)
		status = gm_session_run(session, argc, argv, out, err);
	/* A stream that could not grow has lost text: the answer is incomplete and is discarded. */
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

/* The data from which gdb's plugin makes its commands. */
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
