#include "ask/target/family.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask/target/command_line.h"
#include "base/array.h"
#include "base/cleanup.h"

enum { SHOWN = 8, COMMAND = 48 };

struct gm_relative gm_relative_look(int pid)
{
	static const char *const libraries[] = {"libcuda.so", "libcudart.so", "libc10.so",
	        "libtorch", "libnccl.so", "libgpumem-sim"};
	struct gm_relative relative = {.pid = pid};
	char path[40];
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	while (file && getline(&line, &size, file) > 0) {
		const char *name = strrchr(line, '/');
		if (!name)
			continue;
		name++;
		relative.python |= strncmp(name, "libpython", 9) == 0 ||
		                   (strncmp(name, "python", 6) == 0 && !strstr(name, ".so"));
		for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++)
			relative.cuda |= strncmp(name, libraries[i], strlen(libraries[i])) == 0;
		relative.device |= strstr(line, "/dev/nvidia") ||
		                   strncmp(name, "memfd:gpumem-sim-device ", 24) == 0;
	}
	return relative;
}

/* --- descendants ------------------------------------------------------------------------------ */

struct process {
	int pid, parent;
	bool descends;
};

struct processes {
	GM_ARRAY(struct process) all;
};

static int by_id(const void *a, const void *b)
{
	const struct process *left = a, *right = b;
	return (left->pid > right->pid) - (left->pid < right->pid);
}

/* Behind the last ')' of /proc/PID/stat, as a name may have any character: the state, and the
 * parent. */
static int parent_of(int pid)
{
	char path[40], text[512];
	int parent = 0;
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	size_t length = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	text[length] = 0;
	const char *end = strrchr(text, ')');
	return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

static void list_processes(struct processes *processes)
{
	DIR *folder = opendir("/proc");
	const struct dirent *entry;
	while (folder && (entry = readdir(folder))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		int pid = atoi(entry->d_name);
		if (!gm_array_push(&processes->all, ((struct process){pid, parent_of(pid), false})))
			break;
	}
	if (folder)
		closedir(folder);
	qsort(processes->all.items, processes->all.count, sizeof(*processes->all.items), by_id);
}

/* A child may have a smaller id than its parent, where ids began anew. */
static void mark_descendants(struct processes *processes, int pid)
{
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < processes->all.count; i++) {
			struct process *process = &processes->all.items[i];
			const struct process key = {.pid = process->parent};
			const struct process *parent = bsearch(&key, processes->all.items,
			        processes->all.count, sizeof(key), by_id);
			if (process->descends || process->pid == pid ||
			        (process->parent != pid && !(parent && parent->descends)))
				continue;
			process->descends = more = true;
		}
	}
}

static int rank(const struct gm_relative *relative)
{
	return relative->device ? 3 : relative->python ? 2 : relative->cuda;
}

size_t gm_relatives_find(int pid, struct gm_relative *ret, size_t most)
{
	struct processes processes = {0};
	size_t count = 0;
	list_processes(&processes);
	mark_descendants(&processes, pid);
	for (size_t i = 0; i < processes.all.count; i++) {
		if (!processes.all.items[i].descends)
			continue;
		struct gm_relative relative = gm_relative_look(processes.all.items[i].pid);
		if (!rank(&relative) || (count && rank(&relative) < rank(ret)))
			continue;
		if (count && rank(&relative) > rank(ret))
			count = 0;
		if (count < most)
			ret[count++] = relative;
	}
	gm_array_deinit(&processes.all);
	return count;
}

/* --- in words --------------------------------------------------------------------------------- */

char *gm_relatives_text(int pid, bool device, int *ret_pid)
{
	struct gm_relative found[SHOWN + 1];
	size_t count = gm_relatives_find(pid, found, SHOWN + 1), size;
	char *text = NULL;
	if (!count || (device && !found[0].device))
		return NULL;
	_cleanup_free_ char *command = gm_command_line(found[0].pid, COMMAND);
	FILE *out = command ? open_memstream(&text, &size) : NULL;
	if (!out)
		return NULL;
	fprintf(out, "its %s", count > 1 ? "children" : "child");
	for (size_t i = 0; i < count && i < SHOWN; i++)
		fprintf(out, "%s %d", i == 0 ? "" : i + 1 == count ? " and" : ",", found[i].pid);
	fprintf(out, "%s (%s)", count > SHOWN ? " and more" : "", command);
	*ret_pid = found[0].pid;
	return fclose(out) == 0 ? text : NULL;
}
