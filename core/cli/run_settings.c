#include "cli/run_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "cli/record_options.h"
#include "cli/sibling_library.h"
#include "log/format.h"
#include "spool/spool.h"

#define LIBRARY "libgpumem-agent.so"

static struct gm_error *check_spool(const char *folder)
{
	if (strpbrk(folder, ";\n") || folder[0] != '/')
		return gm_error_create(GM_USAGE,
		        "run: --spool %s: not the full path of a folder, without ';': name one, as "
		        "/dev/shm",
		        folder);
	if (access(folder, W_OK | X_OK) != 0)
		return gm_error_os(GM_USAGE, errno, "run: --spool %s: cannot be written", folder);
	return NULL;
}

void gm_run_record_by_default(struct gm_run_record *record, FILE *err)
{
	const char *never = getenv("GPUMEM_NO_RECORD");
	if (never && *never && strcmp(never, "0") != 0)
		return;
	_cleanup_free_ char *library = NULL;
	_cleanup_error_ struct gm_error *error =
	        gm_library_sibling_path(LIBRARY, "GPUMEM_AGENT_LIBRARY", "recording", &library);
	if (error || strpbrk(library, " :")) {
		gm_put(err, "gpumem: %s: the program runs unrecorded\n",
		        error ? error->message
		              : "the agent's path contains a space or a colon, which the loader "
		                "does not accept");
		return;
	}
	record->out = access(".", W_OK | X_OK) == 0 ? "gpumem-%p.gpumem" : "/tmp/gpumem-%p.gpumem";
}

/* An existing file may be replaced if it is a recording of ours or empty: the new recording
 * replaces it when it begins. */
static struct gm_error *check_old(const char *path)
{
	struct stat status;
	if (strchr(path, '%') || stat(path, &status) != 0)
		return NULL;
	if (!S_ISREG(status.st_mode))
		return gm_error_create(
		        GM_USAGE, "run: -o %s: not a regular file: name another", path);
	char magic[8] = "";
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool log = fd >= 0 && read(fd, magic, sizeof(magic)) == (ssize_t)sizeof(magic) &&
	           memcmp(magic, GM_LOG_MAGIC, sizeof(magic)) == 0;
	if (status.st_size > 0 && !log && !gm_spool_is(path))
		return gm_error_create(GM_USAGE,
		        "run: -o %s: the file exists and is not a recording: name another, or "
		        "remove it",
		        path);
	return NULL;
}

/* By what torchrun, Open MPI, PMI and srun set for each process that they start. */
static bool is_one_of_several(void)
{
	static const char *const sizes[] = {
	        "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const char *text = getenv(sizes[i]);
		if (text && strtol(text, NULL, 10) > 1)
			return true;
	}
	return false;
}

const char *gm_run_old_file(const char *path, char text[GM_RUN_OLD_MAX])
{
	struct stat status;
	text[0] = 0;
	if (!strchr(path, '%') && !is_one_of_several() && stat(path, &status) == 0)
		snprintf(text, GM_RUN_OLD_MAX, "%ju:%ju", (uintmax_t)status.st_dev,
		        (uintmax_t)status.st_ino);
	return text;
}

static struct gm_error *folder_is_there(const char *path)
{
	_cleanup_free_ char *folder = strdup(path);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	if (!slash)
		return NULL;
	*slash = 0;
	if (access(*folder ? folder : "/", W_OK | X_OK) != 0)
		return gm_error_create(GM_USAGE,
		        "run: -o %s: cannot be written: %s: name a folder that exists and that you "
		        "may write to",
		        path, strerror(errno));
	return NULL;
}

/* The file's name as the program's processes will see it, in any current folder. */
static char *absolute(const char *path)
{
	char folder[PATH_MAX], *full;
	if (path[0] == '/')
		return strdup(path);
	if (!getcwd(folder, sizeof(folder)) || asprintf(&full, "%s/%s", folder, path) < 0)
		return NULL;
	return full;
}

/* The agent receives NVTX, is loaded by CUDA if LD_PRELOAD got lost, and `import gpumem` finds the
 * module next to it. */
static struct gm_error *set_marks(const char *library, bool tool)
{
	const char *before = getenv("PYTHONPATH"), *slash = strrchr(library, '/');
	_cleanup_free_ char *path = NULL;
	if (asprintf(&path, "%s%s%.*s/gpumem-python", before ? before : "",
	            before && *before ? ":" : "", slash ? (int)(slash - library) : 1,
	            slash ? library : ".") < 0) {
		path = NULL;
		return &gm_error_no_memory;
	}
	bool set = setenv("PYTHONPATH", path, 1) == 0 &&
	           (tool || (setenv("NVTX_INJECTION64_PATH", library, 0) == 0 &&
	                            setenv("CUDA_INJECTION64_PATH", library, 0) == 0));
	return set ? NULL : &gm_error_no_memory;
}

struct gm_error *gm_run_settings_set(
        const struct gm_run_record *record, const char *out, const char *list, char **variables)
{
	for (char **at = variables; at && *at; at++) {
		char *equals = strchr(*at, '=');
		_cleanup_free_ char *name = strndup(*at, (size_t)(equals - *at));
		if (!name || setenv(name, equals + 1, 1) != 0)
			return &gm_error_no_memory;
	}
	_cleanup_free_ char *library = NULL, *settings = NULL, *preload = NULL;
	gm_try(gm_library_sibling_path(LIBRARY, "GPUMEM_AGENT_LIBRARY", "recording", &library));
	if (strpbrk(library, " :"))
		return gm_error_create(GM_TARGET,
		        "recording: %s: the loader cannot preload from a path with a space or a "
		        "colon: install gpumem elsewhere",
		        library);
	char self[PATH_MAX] = "";
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 || strpbrk(self, ";\n"))
		self[0] = 0;
	char old[GM_RUN_OLD_MAX];
	uint64_t limit;
	gm_try(gm_record_max_size(record->max_size, &limit));
	const char *before = getenv("LD_PRELOAD");
	if (asprintf(&settings,
	            "out=%s;old=%s;list=%s;devices=%s;stacks=%s;max=%ju;keep=%s;on_oom=%s;names=%d;"
	            "gpumem=%s;spool=%s%s",
	            out, gm_run_old_file(out, old), list,
	            record->devices ? record->devices : "cuda",
	            record->stacks ? record->stacks : "python,native", (uintmax_t)limit,
	            record->keep ? record->keep : "newest",
	            record->on_oom ? record->on_oom : "none", record->names, self,
	            record->spool ? record->spool : "", record->tool ? ";cupti=taken" : "") < 0) {
		settings = NULL;
		return &gm_error_no_memory;
	}
	/* before the simulated device, which also replaces functions of libc10 */
	if (asprintf(&preload, "%s%s%s", library, before && *before ? ":" : "",
	            before ? before : "") < 0) {
		preload = NULL;
		return &gm_error_no_memory;
	}
	/* an existing injection (Nsight) stays */
	gm_try(set_marks(library, record->tool != NULL));
	return setenv("GPUMEM_AGENT", settings, 1) != 0 || setenv("LD_PRELOAD", preload, 1) != 0
	               ? &gm_error_no_memory
	               : NULL;
}

struct gm_error *gm_run_not_started(const char *name, int os_error)
{
	const char *suffix = strrchr(name, '.');
	if (suffix && strcmp(suffix, ".py") == 0 && (os_error == ENOENT || os_error == EACCES))
		return gm_error_create(GM_TARGET,
		        "%s: not a program: %s: start it with Python, as in `gpumem run -- python "
		        "%s`",
		        name, strerror(os_error), name);
	if (os_error == ENOENT)
		return gm_error_create(
		        GM_TARGET, "%s: no such program: check the name, or give its path", name);
	return gm_error_os(GM_TARGET, os_error, "%s: cannot be started", name);
}

struct gm_error *gm_run_settings_prepare(const struct gm_run_record *record, char **ret_out)
{
	if (strpbrk(record->out, ";\n") || !*record->out)
		return gm_error_create(GM_USAGE,
		        "run: -o %s: the agent cannot use this name: choose another", record->out);
	if (record->spool)
		gm_try(check_spool(record->spool));
	_cleanup_free_ char *out = absolute(record->out);
	if (!out)
		return &gm_error_no_memory;
	gm_try(check_old(out));
	gm_try(folder_is_there(out));
	*ret_out = gm_take(out);
	return NULL;
}
