/* What of this machine the other commands need. */
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ask/target/doctor_machine.h"
#include "ask/context.h"
#include "ask/target/doctor_checks.h"
#include "base/cleanup.h"
#include "image/refusal.h"
#include "symbols/symbols.h"

/* A program's path as execvp() finds it; NULL: there is none. Caller frees. */
static char *find_program(const char *name)
{
	const char *path = getenv("PATH");
	struct stat named;
	if (strchr(name, '/'))
		return stat(name, &named) == 0 && S_ISREG(named.st_mode) && access(name, X_OK) == 0
		               ? strdup(name)
		               : NULL;
	for (const char *cursor = path ? path : "/usr/bin:/bin"; *cursor;) {
		size_t length = strcspn(cursor, ":");
		char *candidate = NULL;
		struct stat status;
		if (asprintf(&candidate, "%.*s/%s", (int)length, cursor, name) < 0)
			return NULL;
		if (length > 0 && stat(candidate, &status) == 0 && S_ISREG(status.st_mode) &&
		        access(candidate, X_OK) == 0)
			return candidate;
		free(candidate);
		cursor += length;
		cursor += *cursor == ':';
	}
	return NULL;
}

static bool first_line(FILE *stream, char *line, size_t size)
{
	if (!stream || !fgets(line, (int)size, stream))
		return false;
	line[strcspn(line, "\n")] = '\0';
	return true;
}

static bool read_line(const char *path, char *line, size_t size)
{
	_cleanup_fclose_ FILE *stream = fopen(path, "re");
	return first_line(stream, line, size);
}

/* Asks a gdb for its version and its Python. Starts it, so in a shell only: a debugger must not
 * find children among its own that it knows nothing of. */
static bool ask_gdb(const char *path, char *line, size_t size)
{
	char command[PATH_MAX + 256];
	if (strchr(path, '\'') || snprintf(command, sizeof(command),
	                                  "timeout 300 '%s' -nx -batch -ex 'python import sys; "
	                                  "print(\"%%s, Python %%d.%%d\" %% ((gdb.VERSION,) + "
	                                  "sys.version_info[:2]))' "
	                                  "2>/dev/null </dev/null",
	                                  path) >= (int)sizeof(command))
		return false;
	FILE *stream = popen(command, "re");
	bool answered = first_line(stream, line, size);
	if (stream)
		pclose(stream);
	return answered;
}

static struct gm_error *check_gdb(
        struct gm_context *context, struct gm_doctor *doctor, bool *ret_usable)
{
	const char *wanted = getenv("GPUMEM_GDB");
	bool named = wanted && *wanted;
	_cleanup_free_ char *path = find_program(named ? wanted : "gdb");
	char version[128] = "";
	*ret_usable = true;
	if (!context->shell)
		return gm_doctor_add(
		        &doctor->machine, "gdb", GM_DOCTOR_OK, NULL, "this is asked inside it");
	*ret_usable = false;
	if (!path && named)
		return gm_doctor_add(&doctor->machine, "gdb", GM_DOCTOR_PROBLEM,
		        "set GPUMEM_GDB to a gdb, or leave it out",
		        "%s, which GPUMEM_GDB names, does not exist", wanted);
	if (!path)
		return gm_doctor_add(&doctor->machine, "gdb", GM_DOCTOR_PROBLEM,
		        "install it (Debian: apt-get install gdb)", "not found on the PATH");
	if (!ask_gdb(path, version, sizeof(version)))
		return gm_doctor_add(&doctor->machine, "gdb", GM_DOCTOR_PROBLEM,
		        "install a gdb with Python (Debian: apt-get install gdb)",
		        "%s: built without Python", path);
	*ret_usable = true;
	return gm_doctor_add(&doctor->machine, "gdb", GM_DOCTOR_OK, NULL, "%s: %s%s", version, path,
	        named ? " (GPUMEM_GDB)" : "");
}

static struct gm_error *check_cuda_gdb(struct gm_context *context, struct gm_doctor *doctor)
{
	_cleanup_free_ char *path = find_program("cuda-gdb");
	if (!path)
		return gm_doctor_add(&doctor->machine, "cuda-gdb", GM_DOCTOR_ABSENT, NULL,
		        "not found on the PATH: only needed to debug kernels");
	return gm_doctor_add(&doctor->machine, "cuda-gdb", GM_DOCTOR_OK, NULL, "%s", path);
}

static struct gm_error *check_ptrace(struct gm_doctor *doctor)
{
	static const char *const to_do[] = {
	        ['1' - '0'] = "run as root, or start programs with `gpumem run` or `gpumem gdb`, "
	                      "or sysctl "
	                      "kernel.yama.ptrace_scope=0",
	        ['2' - '0'] = "run as root, or start programs with `gpumem run`, or sysctl "
	                      "kernel.yama.ptrace_scope=0",
	        ['3' - '0'] = "start programs with `gpumem run`, or restart the machine with "
	                      "kernel.yama.ptrace_scope=0",
	};
	struct gm_refusal refusal;
	gm_refusal_read(getpid(), &refusal);
	if (refusal.scope < '1' || refusal.scope > '3')
		return gm_doctor_add(&doctor->machine, "ptrace", GM_DOCTOR_OK, NULL,
		        "you may read your own processes and attach to them");
	if (refusal.may_trace && refusal.scope != '3')
		return gm_doctor_add(&doctor->machine, "ptrace", GM_DOCTOR_OK, NULL,
		        "kernel.yama.ptrace_scope is %c, which does not restrict root",
		        refusal.scope);
	return gm_doctor_add(&doctor->machine, "ptrace", GM_DOCTOR_PROBLEM,
	        to_do[refusal.scope - '0'],
	        "kernel.yama.ptrace_scope is %c: running processes cannot be read", refusal.scope);
}

static struct gm_error *check_devices(struct gm_doctor *doctor)
{
	glob_t found = {0};
	size_t count = glob("/dev/nvidia[0-9]*", 0, NULL, &found) == 0 ? found.gl_pathc : 0;
	globfree(&found);
	char driver[256] = "";
	bool has_driver = read_line("/proc/driver/nvidia/version", driver, sizeof(driver));
	if (count == 0)
		return gm_doctor_add(&doctor->machine, "devices", GM_DOCTOR_ABSENT, NULL,
		        "no NVIDIA device (/dev/nvidia0): programs run on the simulated one, with "
		        "--sim");
	return gm_doctor_add(&doctor->machine, "devices", GM_DOCTOR_OK, NULL,
	        "%zu NVIDIA device%s%s%s", count, count == 1 ? "" : "s", has_driver ? ": " : "",
	        driver);
}

/* In a build both lie in lib/ and bin/ of one folder; so they do once installed. */
static struct gm_error *check_simulation(struct gm_doctor *doctor)
{
	static const char *const places[] = {
	        "", "/../lib", "/../lib/x86_64-linux-gnu", "/../lib64"};
	Dl_info self;
	char folder[PATH_MAX] = "";
	/* The file that this code is in: the shell command, or the plugin's library. */
	if (dladdr(__extension__(void *) check_simulation, &self) &&
	        realpath(self.dli_fname, folder) && strrchr(folder, '/'))
		*strrchr(folder, '/') = '\0';
	else if (realpath("/proc/self/exe", folder) && strrchr(folder, '/'))
		*strrchr(folder, '/') = '\0';
	for (size_t i = 0; *folder && i < sizeof(places) / sizeof(places[0]); i++) {
		_cleanup_free_ char *path = NULL;
		if (asprintf(&path, "%s%s/libgpumem-sim.so", folder, places[i]) < 0) {
			path = NULL;
			return &gm_error_no_memory;
		}
		char real[PATH_MAX];
		if (access(path, R_OK) == 0 && realpath(path, real))
			return gm_doctor_add(&doctor->machine, "simulated device", GM_DOCTOR_OK,
			        NULL, "%s", real);
	}
	return gm_doctor_add(&doctor->machine, "simulated device", GM_DOCTOR_ABSENT,
	        "build it: it needs CUDA's headers (./scripts/setup brings them)",
	        "libgpumem-sim.so is not next to this program: --sim does not work");
}

static struct gm_error *check_lines(struct gm_doctor *doctor)
{
	if (gm_symbols_lines_available())
		return gm_doctor_add(&doctor->machine, "source lines", GM_DOCTOR_OK, NULL,
		        "of native code built with -g, by libdwarf");
	return gm_doctor_add(&doctor->machine, "source lines", GM_DOCTOR_ABSENT,
	        "install libdwarf (Debian: apt-get install libdwarf1)",
	        "libdwarf is missing: native frames have names but no lines");
}

struct gm_error *gm_doctor_machine(struct gm_context *context, struct gm_doctor *doctor)
{
	bool gdb;
	gm_try(check_gdb(context, doctor, &gdb));
	gm_try(check_cuda_gdb(context, doctor));
	gm_try(check_ptrace(doctor));
	gm_try(check_devices(doctor));
	gm_try(check_simulation(doctor));
	gm_try(check_lines(doctor));
	if (gm_context_has_target(context))
		return NULL; /* what works is told of the process, or the core */
	gm_try(gm_doctor_command(doctor, "record", gdb ? NULL : "needs a gdb with Python"));
	gm_try(gm_doctor_command(doctor, "who-holds",
	        context->shell ? "needs a program: name it with --pid PID or --core CORE"
	                       : "needs a running program: start it, or attach to it"));
	return gm_doctor_command(doctor, "info, events, blocks, peak, why (on a recording)", NULL);
}
