#include "agent/file.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/format.h"
#include "agent/job.h"
#include "agent/replace.h"
#include "agent/spool.h"
#include "agent/state.h"

enum { HOST_MAX = 64, TRIES = 1000 };

/* The name without its domain, as Slurm's %N; nothing of it can lead to another folder. */
static void put_host(char ret[HOST_MAX + 1])
{
	struct utsname system = {.nodename = "localhost"};
	uname(&system);
	size_t length = strcspn(system.nodename, "./");
	snprintf(ret, HOST_MAX + 1, "%.*s", (int)length, system.nodename);
}

/* `out` with %p, %r and %h replaced; returns whether it had a %p. */
static bool expand(const char *out, char *ret, size_t size)
{
	bool has_pid = false;
	size_t used = 0;
	for (const char *at = out; *at && used + HOST_MAX + 1 < size; at++) {
		if (at[0] == '%' && at[1] == 'p') {
			used += (size_t)sprintf(ret + used, "%u", gm_agent_process.pid);
			has_pid = true;
			at++;
		} else if (at[0] == '%' && at[1] == 'r') {
			uint32_t rank = gm_agent_job_rank();
			used += (size_t)sprintf(ret + used, "%u", rank == UINT32_MAX ? 0 : rank);
			at++;
		} else if (at[0] == '%' && at[1] == 'h') {
			put_host(ret + used);
			used += strlen(ret + used);
			at++;
		} else {
			ret[used++] = *at;
		}
	}
	ret[used] = 0;
	return has_pid;
}

/* PATH, then PATH.PID, PATH.PID.2 ... until there is no such file. */
static const char *open_new(const char *full, bool has_pid)
{
	char *path = gm_agent_process.path;
	const size_t size = sizeof(gm_agent_process.path);
	const char *why = NULL;
	for (int try = 0; try < TRIES; try++) {
		if (try == 0)
			strcpy(path, full);
		else if (try == 1 && !has_pid)
			snprintf(path, size, "%s.%u", full, gm_agent_process.pid);
		else if (has_pid)
			snprintf(path, size, "%s.%d", full, try + 1);
		else
			snprintf(path, size, "%s.%u.%d", full, gm_agent_process.pid, try);
		why = gm_agent_spool_open(path);
		if (!why || access(path, F_OK) != 0)
			break;
	}
	return why;
}

/* The recording that `gpumem run` has found of this name: replaced, once the new one exists. */
static const char *replace_old(const char *full, bool *ret_done)
{
	char *path = gm_agent_process.path;
	snprintf(path, sizeof(gm_agent_process.path), "%s.%u", full, gm_agent_process.pid);
	const char *why = gm_agent_spool_open(path);
	if (!why && gm_agent_replace(path, full)) {
		strcpy(path, full);
		gm_agent_spool_renamed(full);
	}
	*ret_done = !why || access(path, F_OK) != 0;
	return why;
}

const char *gm_agent_file_open(void)
{
	char out[PATH_MAX], name[PATH_MAX], full[PATH_MAX * 2 + 2], folder[PATH_MAX];
	gm_agent_setting("out", out, sizeof(out));
	gm_agent_setting("spool", folder, sizeof(folder));
	if (!*out)
		return "no file was named";
	bool has_pid = expand(out, name, sizeof(name));
	if (name[0] == '/')
		snprintf(full, sizeof(full), "%s", name);
	else
		snprintf(full, sizeof(full), "%s/%s", gm_agent_process.folder, name);
	gm_agent_process.out[0] = 0;
	if (*folder && strlen(full) < sizeof(gm_agent_process.out)) {
		strcpy(gm_agent_process.out, full);
		snprintf(full, sizeof(full), "%s/" GM_AGENT_SPOOLED "%s", folder,
		        strrchr(gm_agent_process.out, '/') + 1);
	}
	if (strlen(full) + 24 >= sizeof(gm_agent_process.path))
		return "its path is too long";
	if (!*folder && gm_agent_is_old(full)) {
		bool done;
		const char *why = replace_old(full, &done);
		if (done)
			return why;
	}
	return open_new(full, has_pid);
}
