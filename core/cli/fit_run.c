#include "cli/fit_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/put.h"
#include "base/sibling_path.h"
#include "sim/launch.h"

static volatile sig_atomic_t stopped;
static struct sigaction interrupt, terminate;

static void stop(int signal)
{
	stopped = signal;
}

void gm_fit_take_signals(void)
{
	struct sigaction ours = {.sa_handler = stop};
	sigaction(SIGINT, &ours, &interrupt);
	sigaction(SIGTERM, &ours, &terminate);
}

int gm_fit_release_signals(void)
{
	sigaction(SIGINT, &interrupt, NULL);
	sigaction(SIGTERM, &terminate, NULL);
	return stopped;
}

/* ---- the files of a run ---------------------------------------------------------------------- */

enum file { ACCOUNT, OUTPUT, APPLIED, FILES };
enum { FILE_PATH = PATH_MAX + 16 };

static const char *path_of(const struct gm_fit_running *running, enum file file, char *path)
{
	static const char *const names[FILES] = {
	        [ACCOUNT] = "account", [OUTPUT] = "output", [APPLIED] = "applied"};
	snprintf(path, FILE_PATH, "%s/%s", running->folder, names[file]);
	return path;
}

struct gm_error *gm_fit_running_init(struct gm_fit_running *running)
{
	const char *folder = getenv("TMPDIR");
	if (snprintf(running->folder, sizeof(running->folder), "%s/gpumem-fit-XXXXXX",
	            folder && *folder ? folder : "/tmp") >= (int)sizeof(running->folder))
		return gm_error_create(
		        GM_USAGE, "fit: TMPDIR: the path is too long: use another folder");
	if (!mkdtemp(running->folder))
		return gm_error_os(GM_TARGET, errno,
		        "fit: %s cannot be created: use another folder in TMPDIR", running->folder);
	return NULL;
}

static void unlink_all(const struct gm_fit_running *running)
{
	char path[FILE_PATH];
	for (int i = 0; i < FILES; i++)
		unlink(path_of(running, (enum file)i, path));
}

void gm_fit_running_deinit(const struct gm_fit_running *running)
{
	unlink_all(running);
	rmdir(running->folder);
}

/* ---- the program's arguments ----------------------------------------------------------------- */

struct words {
	GM_ARRAY(char *) list;
};

/* The word with each {NAME} replaced. NULL: no memory. */
static char *filled(const struct gm_fit_running *running, const char *word, int64_t value)
{
	const struct gm_fit_table *table = running->table;
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	if (!file)
		return NULL;
	while (*word) {
		size_t length = *word == '{' ? strcspn(word, "}") : 0, taken = 0;
		for (size_t i = 0; word[length] == '}' && i < table->variable_count; i++) {
			const struct gm_fit_variable *variable = &table->variables[i];
			if (strlen(variable->name) != length - 1 ||
			        strncmp(variable->name, word + 1, length - 1) != 0)
				continue;
			fputs(variable->values[running->cell->values[i]], file);
			taken = length + 1;
		}
		if (word[length] == '}' && table->range && strlen(table->range) == length - 1 &&
		        strncmp(table->range, word + 1, length - 1) == 0) {
			fprintf(file, "%" PRId64, value);
			taken = length + 1;
		}
		if (!taken)
			fprintf(file, "%c", *word);
		word += taken ? taken : 1;
	}
	fclose(file);
	return text;
}

/* The way's arguments, split at white space. */
static bool put_arguments(const struct gm_fit_running *running, int64_t value, struct words *words)
{
	const char *text = running->table->ways[running->cell->way].arguments;
	_cleanup_free_ char *copy = text ? strdup(text) : NULL;
	char *next = copy;
	bool good = !text || copy;
	for (char *word; next && good && (word = strsep(&next, " \t\n"));)
		good = !*word || gm_array_push(&words->list, filled(running, word, value));
	return good;
}

/* All words; in the child, which frees nothing. False: no memory. */
static bool put_words(const struct gm_fit_running *running, int64_t value, struct words *words)
{
	bool placed = false, good = true;
	for (char **at = running->program; *at && good; at++) {
		bool here = strcmp(*at, "{with}") == 0;
		placed |= here;
		good = here ? put_arguments(running, value, words)
		            : gm_array_push(&words->list, filled(running, *at, value));
	}
	good = good && (placed || put_arguments(running, value, words));
	for (size_t i = 0; i < words->list.count && good; i++)
		good = words->list.items[i] != NULL;
	return good && gm_array_push(&words->list, (char *)NULL);
}

/* ---- the program ----------------------------------------------------------------------------- */

/* The measures that gpumem applies itself: sitecustomize.py reads these. */
static void set_measures(const struct gm_fit_running *running, const char *folder)
{
	const struct gm_fit_way *way = &running->table->ways[running->cell->way];
	const char *before = getenv("PYTHONPATH");
	char path[FILE_PATH], names[sizeof(way->name)] = "";
	if (!way->measure_count)
		return;
	for (size_t i = 0; i < way->measure_count; i++) {
		size_t length = strlen(names);
		snprintf(names + length, sizeof(names) - length, "%s%s", i ? "," : "",
		        way->measures[i]);
	}
	setenv("GPUMEM_FIT_MEASURES", names, 1);
	setenv("GPUMEM_FIT_APPLIED", path_of(running, APPLIED, path), 1);
	char *paths;
	if (asprintf(&paths, "%s%s%s", folder, before && *before ? ":" : "",
	            before ? before : "") >= 0)
		setenv("PYTHONPATH", paths, 1);
}

static void child(
        const struct gm_fit_running *running, int64_t value, char **settings, const char *measures)
{
	char path[FILE_PATH];
	int log = open(
	            path_of(running, OUTPUT, path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600),
	    nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (log < 0 || nothing < 0 || dup2(nothing, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
		_exit(126);
	for (char **at = settings; *at; at++)
		putenv(*at);
	setenv("GPUMEM_SIM_QUIET", "1", 1);
	set_measures(running, measures);
	struct words words = {0};
	bool good = put_words(running, value, &words);
	if (good)
		execvp(words.list.items[0], words.list.items);
	gm_put(stderr, "gpumem: %s: cannot be started: %s\n", good ? words.list.items[0] : "?",
	        strerror(errno));
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

/* Which of the way's measures found something to change. */
static void read_applied(struct gm_fit_running *running)
{
	const struct gm_fit_way *way = &running->table->ways[running->cell->way];
	char path[FILE_PATH], line[256];
	_cleanup_fclose_ FILE *file =
	        way->measure_count ? fopen(path_of(running, APPLIED, path), "re") : NULL;
	running->applied = 0;
	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		for (size_t i = 0; i < way->measure_count; i++)
			if (strcmp(way->measures[i], line) == 0)
				running->applied |= 1U << i;
	}
}

/* The end of what the program printed, for the error. */
static void read_tail(const char *path, char *text, size_t size)
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

/* Did the program end with PyTorch's error for it? */
static bool said_so(struct gm_fit_running *running)
{
	char path[FILE_PATH];
	read_tail(path_of(running, OUTPUT, path), running->tail, sizeof(running->tail));
	return strstr(running->tail, "OutOfMemoryError") != NULL;
}

/* Waits for the end of the process; false: it was not started (*ret_code). */
static bool await(pid_t pid, int *ret_status, int *ret_code)
{
	int code = errno;
	bool waited = pid > 0;
	while (waited && waitpid(pid, ret_status, 0) < 0) {
		code = errno;
		waited = code == EINTR;
		if (stopped) /* the program had the key too; another signal is passed on */
			kill(pid, stopped);
	}
	*ret_code = code;
	return waited;
}

static struct gm_error *explain(struct gm_fit_running *running, int64_t value, int status)
{
	char path[FILE_PATH], how[64], with[96] = "";
	running->failed = true;
	read_tail(path_of(running, OUTPUT, path), running->tail, sizeof(running->tail));
	if (WIFSIGNALED(status))
		snprintf(how, sizeof(how), "was killed by signal %d", WTERMSIG(status));
	else
		snprintf(how, sizeof(how), "ended with status %d", WEXITSTATUS(status));
	if (running->table->range)
		snprintf(with, sizeof(with), "with {%s} = %" PRId64 " ", running->table->range,
		        value);
	return gm_error_create(GM_TARGET,
	        "fit: %sthe program %s, but not because device memory ran out: fix that first",
	        with, how);
}

struct gm_error *gm_fit_run_once(void *data, int64_t value, struct gm_fit_run *ret_run)
{
	struct gm_fit_running *running = data;
	char account[FILE_PATH];
	_cleanup_free_ char *file = gm_installed_path("gpumem-measures/sitecustomize.py");
	if (!file && running->table->ways[running->cell->way].measure_count)
		return gm_error_create(GM_INTERNAL,
		        "fit: gpumem-measures/sitecustomize.py is not installed next to this "
		        "program: install all of gpumem");
	if (file)
		*strrchr(file, '/') = 0;
	unlink_all(running);
	running->failed = false;
	struct gm_sim_launch launch = {
	        .profile = running->table->devices[running->cell->device].name,
	        .json = path_of(running, ACCOUNT, account)};
	char **settings;
	gm_try(gm_sim_settings(&launch, &settings));
	double start = gm_seconds();
	pid_t pid = fork();
	if (pid == 0)
		child(running, value, settings, file);
	int status = 0, code;
	bool waited = await(pid, &status, &code);
	gm_sim_settings_free(settings);
	if (!waited)
		return gm_error_os(GM_INTERNAL, code, "fit: the program cannot be started");
	ret_run->seconds = gm_seconds() - start;
	if (stopped)
		return gm_error_create(GM_TARGET, "fit: stopped");
	/* A program that aborts behind PyTorch's error leaves no account. */
	bool out_of_memory =
	        access(account, F_OK) == 0 ? read_account(account, ret_run) : said_so(running);
	bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	ret_run->fits = good && !out_of_memory;
	read_applied(running);
	return good || out_of_memory ? NULL : explain(running, value, status);
}
