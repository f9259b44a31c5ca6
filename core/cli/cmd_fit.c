/*
 * `gpumem fit`: the largest value of a word in a program's command line with which it fits a
 * simulated device.
 *
 * Each run is `gpumem run --sim` of the program, whose account says whether PyTorch ran out of
 * memory. Its output is kept in a file and shown only where it fails for another reason.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "base/size.h"
#include "cli/command.h"
#include "ask/fit.h"
#include "render/fit.h"
#include "sim/launch.h"
#include "sim/profile.h"

extern const struct gm_command gm_command_fit;

enum { TAIL = 2000 };

struct options {
	const char *profile;
	char name[64]; /* with its braces */
	int64_t from, to;
	bool json, help;
	char **program; /* NULL-terminated */
};

struct fitting {
	const struct options *options;
	struct gm_sim_choice device;
	char folder[PATH_MAX];
	FILE *out, *err;
	bool header;
};

/* --- arguments -------------------------------------------------------------------------------- */

static struct gm_error *vary(const char *text, struct options *options)
{
	const char *equals = strchr(text, '=');
	char *dots = NULL, *end = NULL;
	size_t length = equals ? (size_t)(equals - text) : 0;
	bool good =
	        equals && length > 0 && length < sizeof(options->name) - 3 && !strpbrk(text, "{}");
	if (good) {
		errno = 0;
		options->from = strtoll(equals + 1, &dots, 10);
		good = dots != equals + 1 && strncmp(dots, "..", 2) == 0;
		if (good) {
			options->to = strtoll(dots + 2, &end, 10);
			good = end != dots + 2 && !*end && !errno && options->from <= options->to;
		}
	}
	if (!good)
		return gm_error_create(GM_USAGE,
		        "fit: --vary %s: not NAME=A..B: give a name and two whole numbers, the "
		        "smaller one first, as in --vary batch=1..512",
		        text);
	snprintf(options->name, sizeof(options->name), "{%.*s}", (int)length, text);
	return NULL;
}

static struct gm_error *parse(int argc, char **argv, struct options *options)
{
	for (int i = 1; i < argc; i++) {
		const char *word = argv[i], *value = NULL;
		if (strcmp(word, "--") == 0) {
			options->program = &argv[i + 1];
			break;
		}
		if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
			options->help = true;
			return NULL;
		}
		if (strcmp(word, "--json") == 0) {
			options->json = true;
		} else if (strcmp(word, "--sim") == 0) {
			options->profile = "";
		} else if (strncmp(word, "--sim=", 6) == 0) {
			options->profile = word + 6;
		} else if (strncmp(word, "--vary=", 7) == 0) {
			value = word + 7;
		} else if (strcmp(word, "--vary") == 0) {
			value = i + 1 < argc ? argv[++i] : "";
		} else {
			return gm_error_create(GM_USAGE,
			        "fit: %s: unknown option: the program comes after --, as in "
			        "`gpumem fit --vary batch=1..512 -- python train.py --batch "
			        "{batch}`",
			        word);
		}
		struct gm_error *error = value ? vary(value, options) : NULL;
		if (error)
			return error;
	}
	if (!*options->name)
		return gm_error_create(GM_USAGE,
		        "fit: --vary is missing: add --vary NAME=A..B, as in --vary batch=1..512");
	if (!options->program || !options->program[0])
		return gm_error_create(GM_USAGE,
		        "fit: no program: add it after --, with %s in place of the value",
		        options->name);
	for (char **at = options->program; *at; at++)
		if (strstr(*at, options->name))
			return NULL;
	return gm_error_create(GM_USAGE,
	        "fit: %s is not in the program's arguments: put it in place of the value, as in "
	        "--batch %s",
	        options->name, options->name);
}

/* The word with each {NAME} replaced. NULL: no memory. */
static char *filled(const char *word, const char *name, int64_t value)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	if (!file)
		return NULL;
	for (const char *found; (found = strstr(word, name)); word = found + strlen(name))
		fprintf(file, "%.*s%" PRId64, (int)(found - word), word, value);
	fputs(word, file);
	fclose(file);
	return text;
}

/* --- one run ---------------------------------------------------------------------------------- */

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	stopped = signal;
}

static void child(const struct fitting *fitting, int64_t value, char **settings)
{
	char path[PATH_MAX + 16];
	snprintf(path, sizeof(path), "%s/output", fitting->folder);
	int log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600),
	    nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (log < 0 || nothing < 0 || dup2(nothing, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
		_exit(126);
	for (char **at = settings; *at; at++)
		putenv(*at);
	setenv("GPUMEM_SIM_QUIET", "1", 1);
	size_t count = 0;
	while (fitting->options->program[count])
		count++;
	char **arguments = calloc(count + 1, sizeof(*arguments));
	for (size_t i = 0; arguments && i < count; i++)
		arguments[i] = filled(fitting->options->program[i], fitting->options->name, value);
	if (arguments && arguments[0])
		execvp(arguments[0], arguments);
	gm_put(stderr, "gpumem: %s: cannot be started: %s\n",
	        arguments && arguments[0] ? arguments[0] : "?", strerror(errno));
	fflush(stderr);
	_exit(127);
}

/* What the processes of the run said of their devices. */
static bool read_account(const char *path, struct gm_fit_run *ret)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	bool out_of_memory = false;
	json_t *account;
	while (file && (account = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL))) {
		size_t i;
		json_t *device;
		json_array_foreach(json_object_get(account, "devices"), i, device)
		{
			uint64_t reserved = (uint64_t)json_integer_value(
			        json_object_get(device, "peak_reserved"));
			uint64_t allocated = (uint64_t)json_integer_value(
			        json_object_get(device, "peak_allocated"));
			if (reserved > ret->peak_reserved)
				ret->peak_reserved = reserved;
			if (allocated > ret->peak_allocated)
				ret->peak_allocated = allocated;
			/* PyTorch may be refused memory and then find some; others end there. */
			const char *which = allocated ? "out_of_memory" : "refused";
			out_of_memory |= json_integer_value(json_object_get(device, which)) > 0;
		}
		json_decref(account);
	}
	return out_of_memory;
}

/* The end of what the program printed, for the error. */
static void tail(const char *path, char *text, size_t size)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	text[0] = 0;
	if (!file || fseek(file, 0, SEEK_END) != 0)
		return;
	long end = ftell(file), start = end > (long)size - 1 ? end - (long)size + 1 : 0;
	fseek(file, start, SEEK_SET);
	text[fread(text, 1, size - 1, file)] = 0;
	/* Whole lines. */
	char *line = start ? strchr(text, '\n') : NULL;
	if (line)
		memmove(text, line + 1, strlen(line + 1) + 1);
}

/* Indented, so that no line of the program's looks like ours. */
static void put_tail(const char *text, FILE *err)
{
	fputs("gpumem: fit: the program's last lines:\n", err);
	for (size_t length; *text; text += length + (text[length] == '\n')) {
		length = strcspn(text, "\n");
		gm_put(err, "  %.*s\n", (int)length, text);
	}
}

static void row(struct fitting *fitting, const struct gm_fit_run *run)
{
	if (fitting->options->json)
		return;
	char reserved[GM_SIZE_TEXT], allocated[GM_SIZE_TEXT];
	if (!fitting->header)
		gm_put(fitting->out, "%12.*s  %-12s %14s %14s %9s\n",
		        (int)strlen(fitting->options->name) - 2, fitting->options->name + 1, "",
		        "PEAK RESERVED", "PEAK ALLOCATED", "SECONDS");
	fitting->header = true;
	gm_put(fitting->out, "%12" PRId64 "  %-12s %14s %14s %9.1f\n", run->value,
	        run->fits ? "fits" : "does not fit", gm_text_size(run->peak_reserved, reserved),
	        gm_text_size(run->peak_allocated, allocated), run->seconds);
	fflush(fitting->out);
}

static struct gm_error *run_once(void *data, int64_t value, struct gm_fit_run *ret)
{
	struct fitting *fitting = data;
	char account[PATH_MAX + 16], output[PATH_MAX + 16], text[TAIL];
	snprintf(account, sizeof(account), "%s/account", fitting->folder);
	snprintf(output, sizeof(output), "%s/output", fitting->folder);
	unlink(account);
	struct gm_sim_launch launch = {.profile = fitting->options->profile, .json = account};
	char **settings;
	struct gm_error *error = gm_sim_settings(&launch, &settings);
	if (error)
		return error;
	struct timespec start, end;
	clock_gettime(CLOCK_MONOTONIC, &start);
	pid_t pid = fork();
	if (pid == 0)
		child(fitting, value, settings);
	int status = 0, code = errno;
	bool waited = pid > 0;
	while (waited && waitpid(pid, &status, 0) < 0) {
		code = errno;
		waited = code == EINTR;
		if (stopped) /* the program had the key too; another signal is passed on */
			kill(pid, stopped);
	}
	gm_sim_settings_free(settings);
	if (!waited)
		return gm_error_os(GM_INTERNAL, code, "fit: the program cannot be started");
	clock_gettime(CLOCK_MONOTONIC, &end);
	ret->seconds =
	        (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
	if (stopped)
		return gm_error_create(GM_TARGET, "fit: stopped");
	bool out_of_memory = read_account(account, ret);
	bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	ret->fits = good && !out_of_memory;
	if (good || out_of_memory) {
		row(fitting, ret);
		return NULL;
	}
	tail(output, text, sizeof(text));
	if (*text)
		put_tail(text, fitting->err);
	char how[64];
	if (WIFSIGNALED(status))
		snprintf(how, sizeof(how), "was killed by signal %d", WTERMSIG(status));
	else
		snprintf(how, sizeof(how), "ended with status %d", WEXITSTATUS(status));
	return gm_error_create(GM_TARGET,
	        "fit: with %s = %" PRId64
	        " the program %s, but not because device memory ran out: fix that first",
	        fitting->options->name, value, how);
}

static void tidy(const struct fitting *fitting)
{
	static const char *const files[] = {"account", "output"};
	char path[PATH_MAX + 16];
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", fitting->folder, files[i]);
		unlink(path);
	}
	rmdir(fitting->folder);
}

static struct gm_error *run_fit(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct options options = {.profile = ""};
	struct gm_error *error = parse(argc, argv, &options);
	if (error)
		return error;
	if (options.help) {
		gm_command_help(&gm_command_fit, out);
		return NULL;
	}
	struct fitting fitting = {.options = &options, .out = out, .err = err};
	const char *folder = getenv("TMPDIR");
	if (snprintf(fitting.folder, sizeof(fitting.folder), "%s/gpumem-fit-XXXXXX",
	            folder && *folder ? folder : "/tmp") >= (int)sizeof(fitting.folder))
		return gm_error_create(
		        GM_USAGE, "fit: TMPDIR: the path is too long: use another folder");
	error = gm_sim_profile_parse(options.profile, &fitting.device);
	if (error)
		return error;
	if (!mkdtemp(fitting.folder))
		return gm_error_os(GM_TARGET, errno,
		        "fit: %s cannot be created: use another folder in TMPDIR", fitting.folder);
	/* Ctrl-C reaches the program too; we go on to tidy up. */
	struct sigaction ours = {.sa_handler = stop}, interrupt, terminate;
	sigaction(SIGINT, &ours, &interrupt);
	sigaction(SIGTERM, &ours, &terminate);
	struct gm_fit *fit = calloc(1, sizeof(*fit));
	if (fit) {
		const struct gm_fit_view view = {
		        options.name, fitting.device.spec, fitting.device.profile.memory};
		fit->from = options.from;
		fit->to = options.to;
		error = gm_fit_search(fit, run_once, &fitting);
		if (!error && options.json)
			error = gm_render_fit_json(fit, &view, out);
		else if (!error)
			gm_render_fit_text(fit, &view, out);
		if (!error && !fit->any)
			*ret_status = GM_NEGATIVE;
	} else {
		error = &gm_error_no_memory;
	}
	free(fit);
	tidy(&fitting);
	sigaction(SIGINT, &interrupt, NULL);
	sigaction(SIGTERM, &terminate, NULL);
	if (stopped) {
		/* As the program would have ended, had it been alone. */
		gm_error_destroy(error);
		signal(stopped, SIG_DFL);
		fflush(NULL);
		raise(stopped);
	}
	return error;
}

const struct gm_command gm_command_fit = {
        .name = "fit",
        .summary = "finds the largest value that fits a device, by simulation",
        .usage =
                "[--sim=PROFILE] --vary NAME=A..B [--json] -- PROG … {NAME} …\n"
                "Runs a program repeatedly on a simulated device, with whole numbers from A to B "
                "in place of {NAME} in\n"
                "its arguments. By bisection it finds the largest number with which the program "
                "does not run out of\n"
                "memory. If the program fails for another reason, the search stops. The program's "
                "output is not shown.\n"
                "\n"
                "  --sim=PROFILE     the device (see `gpumem sim list`; default: its first)\n"
                "  --vary NAME=A..B  the name and the range of the value\n"
                "  --json            prints the answer as JSON\n"
                "\n"
                "Exit status: 0 found; 1 not even A fits; 4 the program fails for another reason.\n"
                "\n"
                "Example: gpumem fit --sim=a100-40gb --vary batch=1..512 -- python train.py "
                "--batch {batch}",
        .effect = GM_EFFECT_PROGRAM,
        .shell = true,
        .streams = true,
        .run = run_fit,
};
