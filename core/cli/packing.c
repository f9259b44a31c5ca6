#include "cli/packing.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/close_range.h"
#include "base/regular_file.h"
#include "base/whole_file.h"

enum { LOOK_MS = 500, LEAST_PRIORITY = 19 };

void gm_packing_read_list(const char *list, gm_packing_entry *entry, void *context)
{
	_cleanup_fclose_ FILE *file = gm_regular_file_stream(list);
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	ssize_t length;
	while (file && (length = getline(&line, &size, file)) > 0) {
		if (line[length - 1] == '\n')
			line[length - 1] = 0;
		const char *space = strchr(line, ' ');
		entry(context, (pid_t)atol(line), space ? space + 1 : "");
	}
}

struct gm_error *gm_packing_finish(const char *path, const struct gm_spool_options *options,
        struct gm_spool_summary *ret_summary)
{
	struct gm_whole_file file;
	struct stat status;
	gm_try(gm_whole_file_open(path, 0600, GM_WHOLE_FILE_ANY, &file));
	_cleanup_free_ char *temporary = gm_whole_file_temporary(&file);
	struct gm_error *error = temporary ? gm_spool_convert(path, temporary, options, ret_summary)
	                                   : &gm_error_no_memory;
	/* as its user has set it since; meanwhile another user's file may be there */
	if (!error && lstat(path, &status) == 0 && S_ISREG(status.st_mode) &&
	        status.st_uid == geteuid())
		(void)!fchmod(file.fd, status.st_mode & 0777);
	if (!error)
		return gm_whole_file_finish(&file);
	gm_whole_file_close(&file); /* the file has the agent's own format, and is read as well */
	return error;
}

/* --- the packing process ---------------------------------------------------------------------- */

struct recording {
	pid_t pid;
	char *path;
	struct gm_spool_packer *packer; /* NULL: there is nothing to pack while it runs */
	bool ended;
};

struct packing {
	GM_ARRAY(struct recording) all;
};

static void add(void *context, pid_t pid, const char *path)
{
	struct packing *packing = context;
	for (size_t i = 0; i < packing->all.count; i++)
		if (strcmp(packing->all.items[i].path, path) == 0)
			return;
	struct recording one = {.pid = pid, .path = gm_spool_is(path) ? strdup(path) : NULL};
	if (!one.path) /* not yet */
		return;
	gm_error_destroy(gm_spool_packer_open(path, &one.packer));
	if (!gm_array_push(&packing->all, one)) {
		gm_spool_packer_close(one.packer);
		free(one.path);
	}
}

/* It has ended, even if nobody has waited for its status. */
static bool is_gone(pid_t pid)
{
	char path[32], line[512];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	if (!file || !fgets(line, sizeof(line), file))
		return true;
	const char *state = strrchr(line, ')');
	return !state || state[1] != ' ' || state[2] == 'Z' || state[2] == 'X';
}

/* Has its process ended, or recorded to the end? Then it becomes a log. `forked`: not the process
 * that was attached to; workers, such as a DataLoader's, that allocated nothing leave no file. */
static void end(struct recording *one, bool forked)
{
	bool runs = one->packer ? gm_spool_packer_runs(one->packer)
	                        : !gm_spool_is_final(one->path) && gm_spool_is(one->path);
	if (runs && !is_gone(one->pid))
		return;
	const struct gm_spool_options options = {.packed = true};
	struct gm_spool_summary summary;
	gm_spool_packer_close(gm_take(one->packer));
	if (gm_spool_is(one->path)) {
		struct gm_error *error = gm_packing_finish(one->path, &options, &summary);
		if (!error && forked && !summary.events && !summary.lost)
			unlink(one->path);
		gm_error_destroy(error);
	}
	one->ended = true;
}

/* Checks each; false: all have ended. */
static bool look(struct packing *packing, const char *list, bool finishes)
{
	bool some = false;
	gm_packing_read_list(list, add, packing);
	for (size_t i = 0; i < packing->all.count; i++) {
		struct recording *one = &packing->all.items[i];
		if (!one->ended && one->packer)
			gm_spool_packer_step(one->packer);
		if (!one->ended && finishes)
			end(one, i > 0);
		some |= !one->ended;
	}
	return some;
}

static void become_packer(void)
{
	static const int own[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM};
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		signal(own[i], SIG_DFL);
	signal(SIGXFSZ, SIG_IGN); /* then a write fails, as on a full disk */
	prctl(PR_SET_NAME, "gpumem-packer");
	setpriority(PRIO_PROCESS, 0, LEAST_PRIORITY);
}

pid_t gm_packing_begin(const char *list)
{
	pid_t parent = getpid(), packer = fork();
	if (packer != 0)
		return packer;
	become_packer();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct packing packing = {0};
	const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000};
	while (getppid() == parent) {
		look(&packing, list, false);
		nanosleep(&pause, NULL);
	}
	_exit(0);
}

void gm_packing_end(pid_t packer)
{
	if (packer <= 0)
		return;
	kill(packer, SIGKILL);
	while (waitpid(packer, NULL, 0) < 0 && errno == EINTR)
		;
}

/* --- next to a process that is not a child ---------------------------------------------------- */

/*
 * The process has named all files that are opened from here on: its recording, and the list to
 * which it adds recordings. So they are opened with its rights, and not at all if we cannot have
 * exactly these.
 */
static bool take_rights(const struct gm_inject_identity *identity)
{
	if (identity->user == geteuid() && geteuid() == getuid())
		return true;
	if (setgroups(0, NULL) != 0 ||
	        setresgid(identity->group, identity->group, identity->group) != 0 ||
	        setresuid(identity->user, identity->user, identity->user) != 0)
		return false;
	return identity->user == 0 || setuid(0) != 0;
}

static bool has_ended(const struct packing *packing, pid_t pid)
{
	for (size_t i = 0; i < packing->all.count; i++)
		if (packing->all.items[i].pid == pid && packing->all.items[i].ended)
			return true;
	return false;
}

static void close_inherited(int process)
{
	int nowhere = open("/dev/null", O_RDWR);
	for (int i = 0; i < 3 && nowhere >= 0; i++)
		dup2(nowhere, i);
	/* files that attaching has opened, some of them as root */
	if (process > 3)
		gm_close_range(3, (unsigned)process - 1);
	gm_close_range(process >= 3 ? (unsigned)process + 1 : 3, UINT_MAX);
	(void)!chdir("/");
}

static void keep(pid_t pid, int process, const char *path, const char *list)
{
	struct packing packing = {0};
	become_packer();
	close_inherited(process);
	for (bool goes_on = true; goes_on;) {
		struct pollfd ended = {.fd = process, .events = POLLIN};
		/* the end of this process is noticed at once */
		poll(&ended, process >= 0 ? 1 : 0, LOOK_MS);
		bool gone = process >= 0 ? ended.revents & POLLIN : is_gone(pid);
		if (gone) { /* its forked children are checked as before */
			process = -1;
			pid = 0;
		}
		add(&packing, pid, path);
		bool some = look(&packing, list, true);
		goes_on = some || !(gone || has_ended(&packing, pid));
	}
	unlink(list);
}

void gm_packing_keep(const struct gm_inject_identity *identity, const char *path, const char *list)
{
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		/* with another session and parent: it outlives us, and a process that waits for us
		 * does not wait for it */
		setsid();
		if (fork() == 0 && take_rights(identity))
			keep(identity->pid, identity->process, path, list);
		_exit(0);
	}
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}
