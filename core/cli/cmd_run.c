/*
 * `gpumem run`: runs a program, on the simulated device if requested. It replaces itself by the
 * program (exec), so the streams, the exit status and every signal are the program's own; if it
 * records, it waits next to it instead (run_record.c).
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "base/whole_file.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/nvidia_tool.h"
#include "cli/preload.h"
#include "cli/record_options.h"
#include "cli/run_record.h"
#include "cli/sim_options.h"
#include "cli/spooled.h"

extern const struct gm_command gm_command_run;

struct options {
	bool sim, help, no_record, collect;
	struct gm_sim_launch launch;
	struct gm_run_record record;
	int program; /* index of PROG, 0: none */
};

static struct gm_error *option_with_value(
        int argc, char **argv, int *index, struct options *options)
{
	const struct gm_value_option all[] = {
	        {"--json", &options->launch.json},
	        {"-o", &options->record.out},
	        {"--devices", &options->record.devices},
	        {"--stacks", &options->record.stacks},
	        {"--max-size", &options->record.max_size},
	        {"--keep", &options->record.keep},
	        {"--on-oom", &options->record.on_oom},
	        {"--spool", &options->record.spool},
	        {0},
	};
	static const char *const known[] = {"--json", "--devices", "--stacks", "--max-size",
	        "--keep", "--on-oom", "--names", "--no-record", "--sim", "--compute-below",
	        "--overflow-at", "--rank", "--world", "--help", NULL};
	bool is = false;
	gm_try(gm_sim_option("run", &options->launch, argc, argv, index, &is));
	if (!is)
		gm_try(gm_value_option("run", all, argc, argv, index, &is));
	return is ? NULL : gm_arguments_wrong("run", gm_arguments_unknown(argv[*index], known));
}

static struct gm_error *parse(int argc, char **argv, struct options *options)
{
	for (int i = 1; i < argc; i++) {
		const char *word = argv[i];
		if (strcmp(word, "--") == 0) {
			options->program = i + 1 < argc ? i + 1 : 0;
			break;
		}
		if (word[0] != '-') { /* the program, without a `--` before it */
			options->program = i;
			break;
		}
		if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
			options->help = true;
			return NULL;
		} else if (strcmp(word, "--no-record") == 0) {
			options->no_record = true;
			continue;
		} else if (strcmp(word, "--collect") == 0) {
			options->collect = true;
			continue;
		} else if (strcmp(word, "--names") == 0) {
			options->record.names = true;
			continue;
		} else if (strcmp(word, "--sim") == 0 || strncmp(word, "--sim=", 6) == 0) {
			options->sim = true;
			options->launch.profile = word[5] ? word + 6 : "";
			continue;
		}
		gm_try(option_with_value(argc, argv, &i, options));
	}
	if (options->collect) {
		if (options->program || !options->record.spool)
			return gm_error_create(GM_USAGE,
			        "run: --collect: needs --spool DIR, and no program: type `gpumem "
			        "run --collect --spool /dev/shm`");
		return NULL;
	}
	if (options->record.spool && !options->record.out)
		return gm_error_create(GM_USAGE,
		        "run: --spool %s: needs -o FILE, to which the recording is moved: add it",
		        options->record.spool);
	if (!options->program)
		return gm_error_create(
		        GM_USAGE, "run: no program: type `gpumem run --sim -- python train.py`");
	const struct gm_run_record *record = &options->record;
	const char *on_oom = getenv("GPUMEM_ON_OOM");
	if (!record->on_oom && !options->no_record && on_oom && *on_oom)
		options->record.on_oom = on_oom;
	if (options->no_record && record->out)
		return gm_error_create(GM_USAGE,
		        "run: --no-record and -o %s exclude each other: choose one", record->out);
	uint64_t ignored;
	gm_try(gm_arguments_wrong("run", gm_record_check_on_oom(record->on_oom)));
	gm_try(gm_arguments_wrong("run", gm_record_check_keep(record->keep, record->max_size)));
	gm_try(gm_arguments_wrong("run", gm_record_check_devices(record->devices)));
	gm_try(gm_arguments_wrong("run", gm_record_check_stacks(record->stacks)));
	gm_try(gm_arguments_wrong("run", gm_record_max_size(record->max_size, &ignored)));
	if (record->names && (options->no_record || record->max_size))
		return gm_error_create(GM_USAGE,
		        "run: --names excludes --no-record and --max-size: leave one of them out");
	if (options->no_record &&
	        (record->devices || record->stacks || record->max_size || record->on_oom))
		return gm_error_create(GM_USAGE, "run: --devices, --stacks, --max-size, --on-oom: "
		                                 "they need a recording: leave --no-record out");
	gm_try(gm_sim_options_check("run", &options->launch, options->sim));
	if (options->launch.json && !options->sim)
		return gm_error_create(GM_USAGE,
		        "run: --json: needs the simulated device: add --sim, or leave --json out");
	return NULL;
}

/* Each process appends its counters. So a new, empty file is created first, or the name is rejected
 * at once. A FIFO or a device stays: only the processes open it. */
static struct gm_error *empty(const char *path)
{
	struct stat about;
	struct gm_whole_file file;
	if (lstat(path, &about) == 0 && (S_ISFIFO(about.st_mode) || S_ISCHR(about.st_mode)))
		return NULL;
	struct gm_error *error = gm_whole_file_open(path, 0666, GM_WHOLE_FILE_ANY, &file);
	if (!error)
		error = gm_whole_file_finish(&file);
	return gm_error_prefix(error, "run: --json");
}

static struct gm_error *run_program(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct options options = {0};
	struct gm_error *error = parse(argc, argv, &options);
	if (error)
		return error;
	if (options.help) {
		gm_command_help(&gm_command_run, out);
		return NULL;
	}
	if (options.collect)
		return gm_spooled_collect(options.record.spool, err);
	if ((options.sim || !options.no_record) && gm_program_is_of_musl(argv[options.program])) {
		gm_put(err,
		        "gpumem: nothing is recorded or simulated: %s is linked with musl, and "
		        "gpumem's libraries need glibc (PyTorch does, too): it runs unchanged\n",
		        argv[options.program]);
		options.sim = false;
		options.no_record = true;
		options.record.out = options.launch.json = NULL;
	}
	char *json = NULL;
	if (options.launch.json) {
		error = empty(options.launch.json);
		if (error)
			return error;
		/* The program may change its current folder before it ends. */
		json = realpath(options.launch.json, NULL);
		options.launch.json = json;
	}
	char **settings = NULL;
	if (options.sim)
		error = gm_sim_settings(&options.launch, &settings);
	free(json);
	if (error)
		return error;
	if (!options.no_record && !options.record.out)
		gm_run_record_by_default(&options.record, err);
	if (options.record.out) {
		options.record.tool = gm_nvidia_tool(argv[options.program]);
		error = gm_run_record(
		        &options.record, &argv[options.program], settings, err, ret_status);
		gm_sim_settings_free(settings);
		return error;
	}
	for (char **at = settings; at && *at; at++) {
		char *equals = strchr(*at, '=');
		*equals = 0;
		setenv(*at, equals + 1, 1);
	}
	gm_sim_settings_free(settings);
	char *note = options.sim ? gm_sim_real_device_note(options.launch.profile) : NULL;
	if (note)
		gm_put(err, "%s\n", note);
	free(note);
	fflush(NULL);
	const char *name = argv[options.program];
	execvp(name, &argv[options.program]);
	return gm_run_not_started(name, errno);
}

const struct gm_command gm_command_run = {
        .name = "run",
        .summary = "runs a program and records it, optionally on a simulated CUDA device",
        .usage = "[-o FILE] [--devices cuda,cpu] [--stacks python,native] [--max-size SIZE [--keep "
                 "newest|oldest]] [--names] [--on-oom report|core|stop|none] [--no-record] "
                 "[--spool DIR [--collect]] [--sim[=PROFILE]] [--json FILE] [--compute-below "
                 "BYTES] [--overflow-at STEP] "
                 "[--rank R --world W] -- PROG ARGS\n"
                 "Runs a program and records every allocation of PyTorch with its stacks, from "
                 "inside the program.\n"
                 "The program's streams, exit status and signals do not change.\n"
                 "\n"
                 "  -o FILE          the recording (default: gpumem-PID.gpumem in the current "
                 "folder, for each process\n"
                 "                   that allocates). Questions can read it while the program "
                 "runs, and after it was\n"
                 "                   killed. %r in the name is the rank, %h the host, %p the "
                 "process "
                 "id; further\n"
                 "                   processes write FILE.PID; in a job of several ranks no "
                 "existing file is replaced\n"
                 "  --spool DIR      records in this folder, on the node's own disk or in "
                 "/dev/shm, and moves the\n"
                 "                   recording to FILE at the end; copies it there when a device "
                 "runs out of memory\n"
                 "                   and at SIGTERM\n"
                 "  --collect        moves what killed runs have left in the --spool DIR; runs no "
                 "program\n"
                 "  --devices LIST   cuda (default), cpu, or cuda,cpu\n"
                 "  --stacks LIST    python,native (default), one of them, or none\n"
                 "  --names          reads the names of parameters, gradients, buffers and "
                 "optimizer state once\n"
                 "                   (layers.0.weight); the program is paused while they are read. "
                 "Cannot be\n"
                 "                   combined with --max-size or --no-record"
                 "\n"
                 "  --on-oom report|core|stop|none  when a device runs out of memory: write a "
                 "report of it to stderr\n"
                 "                   and to a file next to the recording (run.gpumem: "
                 "run.oom.txt); or a core,\n"
                 "                   core.PID; or stop the program at the error, for gdb or "
                 "`gpumem oom --pid`\n"
                 "                   (GPUMEM_ON_OOM=report does the same as --on-oom report)\n"
                 "  --max-size SIZE  the maximum size of each process's file. With 5MiB or more "
                 "the oldest events are\n"
                 "                   dropped; with less, or with --keep oldest, the recording "
                 "stops there.\n"
                 "                   `info` reports both\n"
                 "  --no-record      records nothing (GPUMEM_NO_RECORD=1: nothing without -o)\n"
                 "  --sim[=PROFILE]  runs on a simulated CUDA device (see `gpumem sim list`), "
                 "without a GPU; at exit a\n"
                 "                   summary of its memory goes to stderr (GPUMEM_SIM_QUIET=1: "
                 "none)\n"
                 "  --json FILE      the summary as JSON, a line for each process that used the "
                 "device; needs --sim\n"
                 "  --compute-below BYTES  computes kernels that decide control flow if they touch "
                 "no more memory\n"
                 "                   than this (default 64KiB; 0: none)\n"
                 "  --overflow-at STEP[,STEP]  the gradients of these steps (from 1) overflow, as "
                 "GradScaler sees them\n"
                 "  --rank R --world W  runs as rank R of W. The other ranks do not exist and are "
                 "assumed to do the\n"
                 "                   same (docs/distributed.md); RANK, WORLD_SIZE, MASTER_ADDR... "
                 "are set\n"
                 "\n"
                 "Example: gpumem run -o run.gpumem -- python train.py; gpumem peak run.gpumem",
        .effect = GM_EFFECT_PROGRAM,
        .shell = true,
        .streams = true,
        .run = run_program,
};
