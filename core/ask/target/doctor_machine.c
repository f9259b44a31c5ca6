/* What the other commands need on this machine. */
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
#include "base/sibling_path.h"
#include "image/refusal.h"
#include "symbols/symbols.h"

/* A program's path as execvp() finds it; NULL if there is none. Caller frees. */
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

static bool last_line(FILE *stream, char *line, size_t size)
{
	bool any = false;
	while (first_line(stream, line, size))
		any = true;
	return any;
}

/* Asks a gdb for its version and its Python by starting it: the first line of its output, or the
 * last one of its errors. Only in a shell: a debugger must not find unknown processes among its
 * children. */
static bool ask_gdb(const char *path, bool errors, char *line, size_t size)
{
	char command[PATH_MAX + 256];
	if (strchr(path, '\'') ||
	        snprintf(command, sizeof(command),
	                "timeout 300 '%s' -nx -batch -ex 'python import sys; "
	                "print(\"%%s, Python %%d.%%d\" %% ((gdb.VERSION,) + "
	                "sys.version_info[:2]))' "
	                "%s </dev/null",
	                path, errors ? "2>&1 >/dev/null" : "2>/dev/null") >= (int)sizeof(command))
		return false;
	FILE *stream = popen(command, "re");
	bool answered = errors ? last_line(stream, line, size) : first_line(stream, line, size);
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
	char version[128] = "", reason[256] = "";
	*ret_usable = true;
	if (!context->shell)
		return gm_doctor_add(&doctor->machine, "gdb", GM_DOCTOR_OK,
		        (struct gm_doctor_fact){GM_FOUND_GDB_INSIDE});
	*ret_usable = false;
	if (!path && named)
		return gm_doctor_add(&doctor->machine, "gdb", GM_DOCTOR_PROBLEM,
		        (struct gm_doctor_fact){GM_FOUND_GDB_NAMED_ABSENT, .text = wanted});
	if (!path)
		return gm_doctor_add(&doctor->machine, "gdb", GM_DOCTOR_PROBLEM,
		        (struct gm_doctor_fact){GM_FOUND_GDB_ABSENT});
	if (!ask_gdb(path, false, version, sizeof(version))) {
		ask_gdb(path, true, reason, sizeof(reason));
		return gm_doctor_add(&doctor->machine, "gdb", GM_DOCTOR_PROBLEM,
		        (struct gm_doctor_fact){strstr(reason, "libpython")
		                                        ? GM_FOUND_GDB_WITHOUT_LIBPYTHON
		                                        : GM_FOUND_GDB_WITHOUT_PYTHON,
		                .text = path, .of = reason});
	}
	*ret_usable = true;
	return gm_doctor_add(&doctor->machine, "gdb", GM_DOCTOR_OK,
	        (struct gm_doctor_fact){
	                GM_FOUND_GDB, .text = version, .of = path, .number = named});
}

/* *usable becomes true if cuda-gdb has Python: then it records where gdb does not. */
static struct gm_error *check_cuda_gdb(
        struct gm_context *context, struct gm_doctor *doctor, bool *usable)
{
	char version[128];
	_cleanup_free_ char *path = find_program("cuda-gdb");
	if (!path)
		return gm_doctor_add(&doctor->machine, "cuda-gdb", GM_DOCTOR_ABSENT,
		        (struct gm_doctor_fact){GM_FOUND_CUDA_GDB_ABSENT});
	*usable = *usable || ask_gdb(path, false, version, sizeof(version));
	return gm_doctor_add(&doctor->machine, "cuda-gdb", GM_DOCTOR_OK,
	        (struct gm_doctor_fact){GM_FOUND_CUDA_GDB, .text = path});
}

static struct gm_error *check_ptrace(struct gm_doctor *doctor)
{
	struct gm_refusal refusal;
	gm_refusal_read(getpid(), &refusal);
	if (refusal.scope < '1' || refusal.scope > '3')
		return gm_doctor_add(&doctor->machine, "ptrace", GM_DOCTOR_OK,
		        (struct gm_doctor_fact){GM_FOUND_PTRACE_ALLOWED});
	struct gm_doctor_fact fact = {.number = (uint64_t)(refusal.scope - '0')};
	bool root = refusal.may_trace && refusal.scope != '3';
	fact.found = root ? GM_FOUND_PTRACE_ROOT : GM_FOUND_PTRACE_REFUSED;
	return gm_doctor_add(
	        &doctor->machine, "ptrace", root ? GM_DOCTOR_OK : GM_DOCTOR_PROBLEM, fact);
}

static struct gm_error *check_devices(struct gm_doctor *doctor)
{
	glob_t found = {0};
	size_t count = glob("/dev/nvidia[0-9]*", 0, NULL, &found) == 0 ? found.gl_pathc : 0;
	globfree(&found);
	char driver[256] = "";
	bool has_driver = read_line("/proc/driver/nvidia/version", driver, sizeof(driver));
	if (count == 0)
		return gm_doctor_add(&doctor->machine, "devices", GM_DOCTOR_ABSENT,
		        (struct gm_doctor_fact){GM_FOUND_NO_DEVICES});
	return gm_doctor_add(&doctor->machine, "devices", GM_DOCTOR_OK,
	        (struct gm_doctor_fact){
	                GM_FOUND_DEVICES, .text = has_driver ? driver : NULL, .number = count});
}

/* In a build these are in lib/ and bin/ of one folder, and after an installation too. */
static struct gm_error *check_simulation(struct gm_doctor *doctor)
{
	_cleanup_free_ char *path = gm_installed_path("libgpumem-sim.so");
	if (path && access(path, R_OK) == 0)
		return gm_doctor_add(&doctor->machine, "simulated device", GM_DOCTOR_OK,
		        (struct gm_doctor_fact){GM_FOUND_SIMULATED, .text = path});
	return gm_doctor_add(&doctor->machine, "simulated device", GM_DOCTOR_ABSENT,
	        (struct gm_doctor_fact){GM_FOUND_SIMULATED_ABSENT});
}

static struct gm_error *check_lines(struct gm_doctor *doctor)
{
	return gm_doctor_add(&doctor->machine, "source lines", GM_DOCTOR_OK,
	        (struct gm_doctor_fact){GM_FOUND_LINES});
}

/* In a wheel this is site-packages/gpumem_debugger/bin/gpumem. */
static struct gm_error *check_command(struct gm_doctor *doctor)
{
	char self[PATH_MAX];
	char *end = realpath("/proc/self/exe", self) ? strstr(self, "/gpumem_debugger/bin/") : NULL;
	if (!end)
		return NULL;
	*end = '\0';
	_cleanup_free_ char *pattern = NULL;
	if (asprintf(&pattern, "%s/gpumem-[0-9]*.dist-info", self) < 0) {
		pattern = NULL;
		return &gm_error_no_memory;
	}
	glob_t found = {0};
	struct gm_error *error = NULL;
	if (glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0)
		error = gm_doctor_add(&doctor->machine, "command", GM_DOCTOR_PROBLEM,
		        (struct gm_doctor_fact){GM_FOUND_OTHER_GPUMEM, .text = found.gl_pathv[0]});
	globfree(&found);
	return error;
}

struct gm_error *gm_doctor_machine(struct gm_context *context, struct gm_doctor *doctor)
{
	bool gdb;
	gm_try(check_gdb(context, doctor, &gdb));
	gm_try(check_cuda_gdb(context, doctor, &gdb));
	gm_try(check_ptrace(doctor));
	gm_try(check_devices(doctor));
	gm_try(check_simulation(doctor));
	gm_try(check_lines(doctor));
	gm_try(check_command(doctor));
	if (gm_context_has_target(context))
		return NULL; /* what works is shown for the process or core */
	gm_try(gm_doctor_command(
	        doctor, GM_DOCTOR_RECORD, gdb ? GM_DOCTOR_WORKS : GM_DOCTOR_NO_GDB));
	gm_try(gm_doctor_command(doctor, GM_DOCTOR_WHO_HOLDS,
	        context->shell ? GM_DOCTOR_NO_TARGET : GM_DOCTOR_NOT_RUNNING));
	return gm_doctor_command(doctor, GM_DOCTOR_RECORDING, GM_DOCTOR_WORKS);
}
