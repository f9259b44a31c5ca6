/* `attach`: loads the agent into a running program. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "cli/arguments.h"
#include "cli/attach_existing.h"
#include "cli/attach_common.h"
#include "cli/attach_export.h"
#include "cli/attach_way.h"
#include "cli/sibling_library.h"
#include "cli/command.h"
#include "cli/packing.h"
#include "cli/record_options.h"
#include "inject/inject.h"
#include "ask/context.h"
#include "ask/target/family.h"
#include "ask/target/recording.h"

extern const struct gm_command gm_command_attach;

enum {
	KEY_OUT = 'o',
	KEY_TIMEOUT = 0x1301,
	KEY_DEVICES,
	KEY_STACKS,
	KEY_MAX_SIZE,
	KEY_KEEP,
	KEY_ON_OOM,
	KEY_NO_PACK,
	KEY_WAY,
	KEY_EXPORT,
	KEY_TEXTFILE,
	KEY_INTERVAL,
	SECONDS_MAX = 3600,
};

/* What gpumem_agent_start() returns (gpumem_agent.h). */
enum { RECORDED_BEFORE = 1, NO_TIME_STAMP_COUNTER = 3 };

struct request {
	const char *path, *devices, *stacks, *on_oom, *keep;
	uint64_t max_size, seconds;
	bool no_pack;
	struct gm_attach_way way;
	struct gm_attach_export export;
};

static const struct argp_option option_table[] = {
        {"out", KEY_OUT, "FILE", 0, "-o FILE: the file to write (gpumem-PID.gpumem)", 0},
        {"devices", KEY_DEVICES, "cuda,cpu", 0, "the devices to record (cuda)", 0},
        {"stacks", KEY_STACKS, "python,native|none", 0, "the call stacks to record (both)", 0},
        {"max-size", KEY_MAX_SIZE, "BYTES", 0,
                "the maximum size of the recording: the oldest events are dropped", 0},
        {"keep", KEY_KEEP, "newest|oldest", 0,
                "which events --max-size keeps; with oldest the recording ends there (newest)", 0},
        {"on-oom", KEY_ON_OOM, "report|core|stop|none", 0,
                "what to do when a device runs out of memory", 0},
        {"no-pack", KEY_NO_PACK, NULL, 0,
                "leaves the file as the agent writes it: no helper process packs it", 0},
        {"timeout", KEY_TIMEOUT, "SECONDS", 0, "how long to wait for a safe moment (30)", 0},
        {"way", KEY_WAY, "auto|python|thread", 0,
                "through its Python (3.14 and later), or through one of its threads (auto)", 0},
        {"export", KEY_EXPORT, ":PORT", 0,
                "serves figures for Prometheus at /metrics until the process ends: :9400 "
                "(loopback) or ADDRESS:PORT",
                0},
        {"textfile", KEY_TEXTFILE, "FILE", 0,
                "writes them to FILE.prom again and again, for node_exporter", GM_EFFECT_FILES},
        {"interval", KEY_INTERVAL, "SECONDS", 0, "how often --textfile is written (15)", 0},
        {0},
};

static struct gm_error *take_option(void *input, int key, const char *argument)
{
	struct request *request = input;
	switch (key) {
	case KEY_EXPORT:
		request->export.address = argument;
		return NULL;
	case KEY_TEXTFILE:
		request->export.textfile = argument;
		return NULL;
	case KEY_INTERVAL:
		return gm_error_prefix(
		        gm_parse_number(argument, 1, SECONDS_MAX, &request->export.interval),
		        "--interval");
	case KEY_OUT:
		request->path = argument;
		return NULL;
	case KEY_TIMEOUT:
		return gm_parse_number(argument, 1, SECONDS_MAX, &request->seconds);
	case KEY_WAY:
		return gm_attach_way_parse(argument, &request->way.wanted);
	case KEY_NO_PACK:
		request->no_pack = true;
		return NULL;
	case KEY_DEVICES:
		request->devices = argument;
		return gm_record_check_devices(argument);
	case KEY_STACKS:
		request->stacks = argument;
		return gm_record_check_stacks(argument);
	case KEY_KEEP:
		request->keep = argument;
		return gm_record_check_keep(argument, true);
	case KEY_ON_OOM:
		request->on_oom = argument;
		return gm_record_check_on_oom(argument);
	default:
		return gm_record_max_size(argument, &request->max_size);
	}
}

/* The path of the recording as the process sees it: its current folder may be another one. */
static struct gm_error *recording_path(
        const char *given, int pid, bool other_files, char **ret_path)
{
	_cleanup_free_ char *own = NULL;
	if (!given && asprintf(&own, other_files ? "/tmp/gpumem-%d.gpumem" : "gpumem-%d.gpumem",
	                      pid) < 0) {
		own = NULL;
		return &gm_error_no_memory;
	}
	const char *path = given ? given : own;
	if (strpbrk(path, ";%\n"))
		return gm_error_create(GM_USAGE,
		        "attach: -o %s: the name contains ';', '%%' or a newline: choose another "
		        "name",
		        path);
	if (path[0] == '/') {
		*ret_path = strdup(path);
		return *ret_path ? NULL : &gm_error_no_memory;
	}
	if (other_files)
		return gm_error_create(GM_USAGE,
		        "attach: -o %s: process %d has a file system of its own (a container): "
		        "give a full path inside it",
		        path, pid);
	char folder[PATH_MAX];
	if (!getcwd(folder, sizeof(folder)))
		return gm_error_os(GM_TARGET, errno, "attach: the current folder is not known");
	return asprintf(ret_path, "%s/%s", folder, path) < 0 ? &gm_error_no_memory : NULL;
}

/* The list to which the agent adds its recordings: the process's file, and those of its forked
 * children. */
static char *make_list(const struct gm_inject_identity *identity)
{
	const char *folder = getenv("TMPDIR");
	char *list;
	if (asprintf(&list, "%s/gpumem-attach-XXXXXX", folder && *folder ? folder : "/tmp") < 0)
		return NULL;
	_cleanup_close_ int fd = strpbrk(list, ";\n") ? -1 : mkostemp(list, O_CLOEXEC);
	if (fd >= 0 && geteuid() == 0)
		(void)!fchown(fd, identity->user, identity->group);
	if (fd < 0)
		free(gm_take(list));
	return list;
}

static struct gm_error *settings_of(const struct request *request, const char *path,
        const char *list, bool existing, char **ret_settings)
{
	char max[64] = "", self[PATH_MAX] = "";
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 || strpbrk(self, ";\n"))
		self[0] = 0;
	if (request->max_size)
		snprintf(max, sizeof(max), ";max=%llu;keep=%s",
		        (unsigned long long)request->max_size,
		        request->keep ? request->keep : "newest");
	return asprintf(ret_settings, "out=%s;devices=%s;stacks=%s;on_oom=%s%s%s%s%s;gpumem=%s",
	               path, request->devices, request->stacks, request->on_oom, max,
	               existing ? ";existing=1" : "", list ? ";list=" : "", list ? list : "",
	               self) < 0
	               ? &gm_error_no_memory
	               : NULL;
}

/* Why nothing is recorded into `path`; NULL: it is recorded. */
static struct gm_error *not_begun(int pid, const char *path, const struct gm_injected *injected)
{
	if (injected->state == GM_INJECT_WAITING)
		return gm_attach_still_waiting(pid, "start");
	if (injected->result == RECORDED_BEFORE)
		return gm_error_create(GM_TARGET,
		        "process %d: it is being recorded already: `gpumem detach %d` ends that "
		        "recording",
		        pid, pid);
	if (injected->result == NO_TIME_STAMP_COUNTER)
		return gm_error_create(GM_TARGET,
		        "process %d: it may not read the processor's time stamp counter "
		        "(PR_SET_TSC), which the agent needs for times: allow it",
		        pid);
	if (injected->result != 0)
		return gm_error_create(GM_TARGET,
		        "process %d: the agent is loaded but cannot record to %s: the program's "
		        "stderr shows the reason; most likely the program may not write there: "
		        "name another FILE",
		        pid, path);
	return NULL;
}

/* The agent is loaded, and records. *ret_before: it was there and is to record; NULL: that is an
 * error. */
static struct gm_error *record(struct gm_context *context, const struct request *given, bool json,
        FILE *out, FILE *err, bool *ret_before)
{
	struct request request = *given;
	_cleanup_free_ char *agent = NULL, *path = NULL;
	gm_try(gm_library_sibling_path(
	        "libgpumem-agent.so", "GPUMEM_AGENT_LIBRARY", "recording", &agent));
	_cleanup_(gm_inject_identity_deinit) struct gm_inject_identity identity;
	struct gm_image *image;
	struct gm_symbols *symbols;
	gm_try(gm_attach_open(context, &identity, &image, &symbols));
	bool other_files = gm_inject_files_differ(context->pid);
	gm_try(recording_path(request.path, context->pid, other_files, &path));
	struct gm_attach_existing before;
	bool existing = strstr(request.devices, "cuda") &&
	                gm_attach_existing_prepare(&before, context, &identity);
	bool packs = !request.no_pack && !request.max_size && !other_files;
	_cleanup_free_ char *list = packs ? make_list(&identity) : NULL, *settings = NULL;
	gm_try(settings_of(&request, path, list, existing, &settings));
	/* as it is now */
	gm_try(gm_context_image(context, &image));
	struct gm_attach_waiting waiting = {err, context->pid, request.seconds};
	struct gm_inject_options options = {.identity = &identity,
	        .agent = agent,
	        .settings = settings,
	        .meanwhile = existing ? gm_attach_existing_answer : NULL,
	        .context = &before,
	        .waits = gm_attach_put_wait,
	        .waits_context = &waiting,
	        .seconds = (double)request.seconds};
	if (existing)
		gm_attach_existing_limit(&before, options.seconds);
	struct gm_injected injected;
	struct gm_error *error = gm_attach_way_prepare(&request.way, context, &options);
	if (!error)
		error = gm_inject_start(image, symbols, &options, &injected);
	bool before_us = !error && ret_before && injected.state != GM_INJECT_WAITING &&
	                 injected.result == RECORDED_BEFORE;
	if (!error && !before_us)
		error = not_begun(context->pid, path, &injected);
	if (error || before_us) {
		if (list)
			unlink(list);
		if (before_us)
			*ret_before = true;
		return error;
	}
	if (list)
		gm_packing_keep(&identity, path, list);
	if (json)
		return gm_attach_put_json(out, context->pid,
		        injected.stopped + (existing ? before.stopped : 0), &request.way,
		        &injected);
	gm_put(out, "recording process %d to %s%s; `gpumem detach %d` ends it\n", context->pid,
	        path, other_files ? " (in its own file system)" : "", context->pid);
	if (injected.way == GM_INJECT_BY_PYTHON)
		gm_put(out, "its Python loaded the agent; no thread was stopped\n");
	return NULL;
}

/* Parts of the C library, in which nothing is ever recorded. */
static bool is_of_libc(const char *name)
{
	static const char *const names[] = {"libc.so", "ld-linux", "libm.so", "libpthread.so",
	        "libdl.so", "librt.so", "libgcc_s.so", "linux-vdso", "[vdso]"};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strncmp(name, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

/* Whether something may be recorded later: it has other libraries, or calls dlopen(). Of a program
 * without a C library others say why it cannot be recorded. */
static struct gm_error *may_load(struct gm_context *context, bool *ret_may)
{
	struct gm_symbols *symbols;
	size_t count, own = 0;
	uint64_t ignored;
	gm_try(gm_context_symbols(context, &symbols));
	const struct gm_module *modules = gm_symbols_modules(symbols, &count);
	*ret_may = !gm_symbols_find_module(symbols, "libc.so.6");
	for (size_t i = 0; i < count && !*ret_may; i++) {
		if (is_of_libc(modules[i].name))
			continue;
		*ret_may =
		        own++ || gm_symbols_lookup_import(symbols, &modules[i], "dlopen", &ignored);
	}
	return NULL;
}

/* The id of a shell, of a launcher, or of a program in which nothing can ever be recorded. */
static struct gm_error *check_process(struct gm_context *context, FILE *err)
{
	struct gm_relative process = gm_relative_look(context->pid);
	bool none = !process.python && !process.cuda, may = true;
	int child = 0;
	_cleanup_free_ char *meant =
	        process.device ? NULL : gm_relatives_text(context->pid, !none, &child);
	if (none && meant)
		return gm_error_create(GM_TARGET,
		        "process %d: neither Python nor CUDA is loaded in it, but in %s: `gpumem "
		        "attach %d`",
		        context->pid, meant, child);
	if (meant)
		gm_put(err,
		        "gpumem: process %d uses no device so far, but %s: did you mean `gpumem "
		        "attach %d`?\n",
		        context->pid, meant, child);
	if (none)
		gm_try(may_load(context, &may));
	return may ? NULL
	           : gm_error_create(GM_TARGET,
	                     "process %d: neither Python nor CUDA is loaded in it, and it cannot "
	                     "load them (nothing in it calls dlopen): name the process of the "
	                     "program that uses the device",
	                     context->pid);
}

static struct gm_error *check(const struct request *request, bool json)
{
	const struct gm_attach_export *export = &request->export;
	bool exports = export->address || export->textfile;
	if (json && exports)
		return gm_error_create(GM_USAGE,
		        "attach: --json: not with --export or --textfile, which go on: attach "
		        "first, then export");
	if (export->interval && !export->textfile)
		return gm_error_create(GM_USAGE,
		        "attach: --interval: only with --textfile: with --export Prometheus "
		        "decides how often it asks");
	return gm_arguments_wrong("attach", gm_record_check_keep(request->keep, request->max_size));
}

/* A process that is recorded already, by `run` or an earlier `attach`, is only exported. */
static struct gm_error *record_and_export(
        struct gm_context *context, struct request *request, FILE *out, FILE *err)
{
	_cleanup_free_ char *path = NULL;
	request->export.interval = request->export.interval ? request->export.interval : 15;
	gm_try(gm_attach_export_prepare(&request->export, context));
	gm_try(gm_recording_find(context->pid, &path));
	bool before = path;
	if (path)
		gm_put(out, "process %d is recorded already, to %s\n", context->pid, path);
	else
		gm_try(record(context, request, false, out, err, &before));
	if (!path)
		gm_try(gm_recording_find(context->pid, &path));
	if (!path && before)
		gm_put(out,
		        "process %d is recorded already, and has used no device so far: there "
		        "will be figures when it does\n",
		        context->pid);
	else if (!path)
		return gm_error_create(GM_TARGET,
		        "process %d: its recording was not found: it may have ended", context->pid);
	return gm_attach_export_run(&request->export, gm_take(path), out);
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct request request = {
	        .devices = "cuda", .stacks = "python,native", .on_oom = "none", .seconds = 30};
	struct gm_arguments arguments;
	gm_try(gm_arguments_parse(&gm_command_attach, argc, argv, option_table, take_option,
	        &request, 1, false, out, &arguments));
	if (arguments.help)
		return NULL;
	gm_try(check(&request, arguments.json));
	gm_try(gm_attach_take_pid(context, "attach", &arguments));
	gm_try(check_process(context, err));
	if (!request.export.address && !request.export.textfile)
		return record(context, &request, arguments.json, out, err, NULL);
	struct gm_error *error = record_and_export(context, &request, out, err);
	gm_attach_export_deinit(&request.export);
	return error;
}

const struct gm_command gm_command_attach = {
        .name = "attach",
        .summary = "records a program that is already running",
        .usage = "PID [-o FILE] [--devices cuda,cpu] [--stacks python,native] [--max-size BYTES "
                 "[--keep newest|oldest]] [--on-oom report|core|stop|none] [--no-pack] [--timeout "
                 "SECONDS] [--way "
                 "auto|python|thread] [--export=:PORT] [--textfile=FILE [--interval=SECONDS]] "
                 "[--json]\n"
                 "Loads the agent into the process, which then records to FILE. The program is not "
                 "restarted and keeps\n"
                 "running. Blocks that were allocated before have no stack.\n"
                 "With --export it then serves the process's memory by category, library and NCCL "
                 "communicator to\n"
                 "Prometheus until the process ends; a process that is recorded already is only "
                 "exported. The port\n"
                 "is of the loopback unless an address is given. --textfile writes the same to a "
                 "file.\n"
                 "\n"
                 " Example: gpumem attach 4711 -o run.gpumem\n"
                 " Example: gpumem attach 4711 --export :9400\n"
                 " Example: gpumem detach 4711",
        .effect = GM_EFFECT_PROCESS,
        .shell = true,
        .streams = true,
        .run = run,
};
