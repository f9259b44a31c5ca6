/*
 * `gpumem gdb`: starts the debugger with the plugin loaded. All options that gpumem does not know
 * are passed to gdb, so a user who knows gdb need not learn anything.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/put.h"
#include "cli/command.h"
#include "cli/gdb_refusal.h"
#include "cli/sim_options.h"

enum { SHEBANG_MAX = 256 };

struct words {
	GM_ARRAY(char *) list; /* owned */
	bool no_memory;
};

static void add(struct words *words, const char *text)
{
	char *copy = strdup(text);
	if (!copy || !gm_array_push(&words->list, copy)) {
		free(copy);
		words->no_memory = true;
	}
}

static void words_deinit(struct words *words)
{
	for (size_t i = 0; i < words->list.count; i++)
		free(words->list.items[i]);
	gm_array_deinit(&words->list);
}

/* --- paths ------------------------------------------------------------------------------------ */

static bool is_file(const char *path)
{
	struct stat status;
	return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* The first of these that exists, relative to this program's folder: a build in a source tree, an
 * installed prefix. */
static char *near_us(const char *const *candidates)
{
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (length <= 0)
		return NULL;
	self[length] = 0;
	char *slash = strrchr(self, '/');
	if (!slash)
		return NULL;
	*slash = 0;
	for (size_t i = 0; candidates[i]; i++) {
		char *path = NULL;
		if (asprintf(&path, "%s/%s", self, candidates[i]) < 0)
			return NULL;
		char *real = realpath(path, NULL);
		free(path);
		if (real && is_file(real))
			return real;
		free(real);
	}
	return NULL;
}

/* A program's path as execvp() finds it; NULL if there is none. Caller frees. */
static char *find_program(const char *name)
{
	if (strchr(name, '/'))
		return is_file(name) && access(name, X_OK) == 0 ? strdup(name) : NULL;
	const char *path = getenv("PATH");
	for (const char *cursor = path ? path : "/usr/bin:/bin"; *cursor;) {
		size_t length = strcspn(cursor, ":");
		char *candidate = NULL;
		if (asprintf(&candidate, "%.*s/%s", (int)length, length ? cursor : ".", name) < 0)
			return NULL;
		if (is_file(candidate) && access(candidate, X_OK) == 0)
			return candidate;
		free(candidate);
		cursor += length;
		cursor += *cursor == ':';
	}
	return NULL;
}

/* --- the program to debug --------------------------------------------------------------------- */

/*
 * A script (torchrun, accelerate, ...) cannot be debugged itself: gdb gets the interpreter that its
 * first line names, as the kernel would run it.
 */
static struct gm_error *add_program(struct words *words, const char *program)
{
	_cleanup_free_ char *path = find_program(program);
	if (!path)
		return gm_error_create(GM_TARGET,
		        "%s: no such program: check the name, or give its path", program);
	char line[SHEBANG_MAX] = "";
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	size_t length = file ? fread(line, 1, sizeof(line) - 1, file) : 0;
	line[length] = 0;
	if (strncmp(line, "#!", 2) != 0) {
		add(words, program);
		return NULL;
	}
	line[strcspn(line, "\n")] = 0;
	char *interpreter = line + 2 + strspn(line + 2, " \t");
	char *argument = interpreter + strcspn(interpreter, " \t");
	if (*argument) {
		*argument++ = 0;
		argument += strspn(argument, " \t");
		argument[strcspn(argument, "\r")] = 0;
	}
	const char *last = strrchr(interpreter, '/');
	if (last && strcmp(last, "/env") == 0 && *argument && *argument != '-') {
		interpreter = argument;
		argument += strlen(argument);
	}
	_cleanup_free_ char *found = find_program(interpreter);
	if (!found)
		return gm_error_create(GM_TARGET,
		        "%s: its first line names %s, which does not exist: run it with its "
		        "interpreter",
		        program, interpreter);
	add(words, found);
	if (*argument)
		add(words, argument);
	add(words, path);
	return NULL;
}

extern const struct gm_command gm_command_gdb;

/* --- the command ------------------------------------------------------------------------------ */

struct options {
	bool cuda_gdb, help;
	bool no_path;    /* --gdb without an argument */
	const char *gdb; /* path or name; NULL: not given */
	bool sim;
	struct gm_sim_launch launch;
	bool attaches;
	bool silent;    /* gdb is to print nothing when it starts, or runs commands only */
	int first, end; /* gdb's own options: all of argv in [first, end) except ours */
	int program;    /* index of PROG, 0: none */
};

static struct gm_error *parse(int argc, char **argv, struct options *options, bool *ours)
{
	for (int i = 1; i < argc; i++) {
		const char *word = argv[i];
		if (strcmp(word, "--") == 0 || strcmp(word, "--args") == 0 ||
		        strcmp(word, "-args") == 0) {
			options->program = i + 1 < argc ? i + 1 : 0;
			options->end = i;
			return NULL;
		}
		bool is_sim = false;
		int first = i;
		gm_try(gm_sim_option("gdb", &options->launch, argc, argv, &i, &is_sim));
		for (int at = first; at <= i; at++)
			ours[at] = true;
		if (is_sim)
			continue;
		if (strcmp(word, "--sim") == 0 || strncmp(word, "--sim=", 6) == 0) {
			options->sim = true;
			options->launch.profile = word[5] ? word + 6 : "";
		} else if (strcmp(word, "--cuda-gdb") == 0)
			options->cuda_gdb = true;
		else if (strncmp(word, "--gdb=", 6) == 0)
			options->gdb = word + 6;
		else if (strcmp(word, "--gdb") == 0 && i + 1 < argc &&
		         strcmp(argv[i + 1], "--") != 0) {
			options->gdb = argv[++i];
			ours[i] = true;
			continue;
		} else if (strcmp(word, "--gdb") == 0)
			options->no_path = true;
		else if (strcmp(word, "--help") == 0)
			options->help = true;
		else
			ours[i] = false;
		options->attaches |= strncmp(word, "-p", 2) == 0 || strncmp(word, "--pid", 5) == 0;
		static const char *const silent[] = {"q", "quiet", "silent", "batch",
		        "batch-silent", "i", "interpreter", "version", "v", NULL};
		const char *name = word + strspn(word, "-");
		size_t length = strcspn(name, "=");
		for (size_t j = 0; name > word && silent[j]; j++)
			options->silent |= strlen(silent[j]) == length &&
			                   strncmp(silent[j], name, length) == 0;
	}
	options->end = argc;
	return NULL;
}

/* A command that gdb runs before it reads its other arguments. */
static void add_command(
        struct words *words, const char *before, const char *argument, const char *after)
{
	char *text = NULL;
	if (asprintf(&text, "%s%s%s", before, argument, after) < 0)
		text = NULL;
	add(words, "-iex");
	if (!text || !gm_array_push(&words->list, text)) {
		free(text);
		words->no_memory = true;
	}
}

/* The program's environment on the simulated device, but not gdb's: gdb must not load the simulated
 * libraries. */
static struct gm_error *add_simulation(struct words *words, const struct gm_sim_launch *launch)
{
	char **settings;
	gm_try(gm_sim_settings(launch, &settings));
	for (char **at = settings; *at; at++) {
		/* gdb's own command splits at the first space or '=' */
		(*at)[strcspn(*at, "=")] = ' ';
		add_command(words, "set environment ", *at, "");
	}
	gm_sim_settings_free(settings);
	return NULL;
}

/* A gdb in a Python package is started by a script that sets these for its Python: the program must
 * get them with their present values. */
static void add_python_settings(struct words *words)
{
	static const char *const names[] = {"PYTHONHOME", "PYTHONPATH", "PYTHONNOUSERSITE"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);
		_cleanup_free_ char *set = NULL;
		if (!value)
			add_command(words, "unset environment ", names[i], "");
		else if (!strchr(value, '\n') && asprintf(&set, "%s %s", names[i], value) >= 0)
			add_command(words, "set environment ", set, "");
	}
}

/* The chosen debugger: by an option, by the environment, or gdb. */
static struct gm_error *find_debugger(const struct options *options, char **ret_path)
{
	const char *from_environment = getenv("GPUMEM_GDB");
	if (options->no_path || (options->gdb && !*options->gdb))
		return gm_error_create(GM_USAGE,
		        "gdb: --gdb: PATH is missing: name a gdb, as in --gdb /usr/bin/gdb");
	bool named = options->gdb || (!options->cuda_gdb && from_environment && *from_environment);
	const char *debugger = options->gdb        ? options->gdb
	                       : options->cuda_gdb ? "cuda-gdb"
	                       : named             ? from_environment
	                                           : "gdb";
	char *path = find_program(debugger);
	if (!path && named)
		return gm_error_create(GM_TARGET, "%s: no such program: name a gdb with %s",
		        debugger, options->gdb ? "--gdb" : "GPUMEM_GDB");
	if (!path)
		return gm_error_create(GM_TARGET,
		        "%s: not found on the PATH: install it (Debian: apt-get install %s)",
		        debugger, options->cuda_gdb ? "nvidia-cuda-gdb, from non-free" : "gdb");
	*ret_path = path;
	return NULL;
}

static struct gm_error *build(
        int argc, char **argv, const struct options *options, const bool *ours, struct words *words)
{
	_cleanup_free_ char *path = NULL;
	gm_try(find_debugger(options, &path));
	_cleanup_free_ char *plugin = near_us((const char *const[]){
	        "../share/gpumem/gdb/gpumem-gdb.py", "../../gdb/gpumem-gdb.py", NULL});
	if (!plugin)
		return gm_error_create(GM_INTERNAL, "gdb's plugin gpumem-gdb.py is not next to "
		                                    "this program: install gpumem again");
	_cleanup_free_ char *library = near_us(
	        (const char *const[]){"../lib/libgpumem.so.0", "../lib/gpumem/libgpumem.so.0",
	                "../lib/x86_64-linux-gnu/libgpumem.so.0", "../lib64/libgpumem.so.0", NULL});
	add(words, path);
	/* only gdb's Python sees it: the program's environment was copied before */
	if (library)
		add_command(words, "python import os; os.environ['GPUMEM_LIBRARY'] = r'''", library,
		        "'''");
	add_command(words, "source ", plugin, "");
	if (!options->silent && isatty(STDOUT_FILENO))
		add_command(words, "python print('",
		        "gpumem " GPUMEM_VERSION ": `gpumem record`, then `run`, records the "
		        "program; `help gpumem` lists the "
		        "questions",
		        "')");
	if (options->attaches)
		add_command(words, "python gpumem.libraries.quiet_loading()", "", "");
	add_python_settings(words);
	if (options->sim)
		gm_try(add_simulation(words, &options->launch));
	for (int i = 1; i < options->end; i++)
		if (!ours[i])
			add(words, argv[i]);
	if (options->program) {
		add(words, "--args");
		gm_try(add_program(words, argv[options->program]));
		for (int i = options->program + 1; i < argc; i++)
			add(words, argv[i]);
	}
	return words->no_memory ? &gm_error_no_memory : NULL;
}

static struct gm_error *run_gdb(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct options options = {0};
	_cleanup_free_ bool *ours = calloc((size_t)argc + 1, sizeof(*ours));
	if (!ours)
		return &gm_error_no_memory;
	gm_try(parse(argc, argv, &options, ours));
	if (options.help) {
		gm_command_help(&gm_command_gdb, out);
		return NULL;
	}
	gm_try(gm_sim_options_check("gdb", &options.launch, options.sim));
	struct words words = {0};
	struct gm_error *error = build(argc, argv, &options, ours, &words);
	if (!error && !gm_array_push(&words.list, NULL))
		error = &gm_error_no_memory;
	_cleanup_free_ char *note =
	        options.sim ? gm_sim_real_device_note(options.launch.profile) : NULL;
	_cleanup_free_ char *refusal =
	        error ? NULL : gm_gdb_refusal(argv, options.end, options.program > 0);
	if (!error) {
		if (note)
			gm_put(err, "%s\n", note);
		if (refusal)
			gm_put(err, "%s\n", refusal);
		fflush(NULL);
		execv(words.list.items[0], words.list.items);
		error = gm_error_os(GM_TARGET, errno, "%s: cannot be started", words.list.items[0]);
	}
	words_deinit(&words);
	return error;
}

const struct gm_command gm_command_gdb = {
        .name = "gdb",
        .summary = "starts gdb or cuda-gdb with gpumem's commands loaded",
        .usage = "[--sim[=PROFILE]] [--overflow-at STEP] [--rank R --world W] [--cuda-gdb] [--gdb "
                 "PATH] [GDB OPTIONS] -- PROG ARGS\n"
                 "Starts the debugger on a program, with the gpumem commands loaded.\n"
                 "\n"
                 "  --sim[=PROFILE]  on a simulated CUDA device (see `gpumem sim list`): needs no "
                 "GPU\n"
                 "  --overflow-at STEP[,STEP], --compute-below BYTES, --rank R --world W\n"
                 "                   with --sim, as for `gpumem run`\n"
                 "  --cuda-gdb       cuda-gdb instead of gdb\n"
                 "  --gdb PATH       uses this gdb (also: $GPUMEM_GDB)\n"
                 "\n"
                 "All other options are gdb's own: `-p PID` attaches, `-batch -ex COMMAND` runs "
                 "commands.\n"
                 "\n"
                 "Example: gpumem gdb --sim -ex 'gpumem record' -ex run -- python train.py",
        .effect = GM_EFFECT_PROGRAM,
        .shell = true,
        .streams = true,
        .run = run_gdb,
};
