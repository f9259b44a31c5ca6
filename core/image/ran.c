/*
 * Whether a thread ran, from the kernel's counters. A thread that waits in a system call is woken
 * to be stopped, restarts the same call when it is resumed, and waits again: it has given up its
 * processor once more, at the same instruction and with the same stack. If it does anything else in
 * between, that happens at least twice.
 */
#include "image/ran.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

static ssize_t read_whole(pid_t pid, pid_t thread, const char *name, char *text, size_t size)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, thread, name);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);
	text[got > 0 ? got : 0] = 0;
	return got;
}

static bool switches_of(pid_t pid, pid_t thread, uint64_t *ret_switches)
{
	char text[8192];
	read_whole(pid, thread, "status", text, sizeof(text));
	const char *line = strstr(text, "\nvoluntary_ctxt_switches:");
	if (line)
		*ret_switches = strtoull(strchr(line, ':') + 1, NULL, 10);
	return line != NULL;
}

void gm_ran_note(struct gm_ran *ran, const struct gm_stop *stop, struct gm_image *image)
{
	ran->pid = stop->pid;
	ran->threads.count = 0;
	ran->known = stop->pid > 0 && stop->threads.count > 0;
	for (size_t i = 0; i < stop->threads.count && ran->known; i++) {
		struct gm_waiting waiting = {.thread = stop->threads.items[i].thread};
		struct gm_registers registers;
		_cleanup_error_ struct gm_error *error =
		        gm_image_registers(image, waiting.thread, &registers);
		ran->known = !error && switches_of(stop->pid, waiting.thread, &waiting.switches);
		if (!ran->known)
			break;
		waiting.stack = registers.value[GM_RSP];
		waiting.instruction = registers.value[GM_RIP];
		ran->known = gm_array_push(&ran->threads, waiting);
	}
}

/* /proc/PID/task/TID/syscall of a thread that waits in one: its number, six arguments, stack
 * pointer, instruction pointer. */
static bool still_waits(pid_t pid, const struct gm_waiting *waiting)
{
	enum { STACK = 7, INSTRUCTION };
	char text[512], *at = text;
	uint64_t switches, fields[INSTRUCTION + 1];
	if (read_whole(pid, waiting->thread, "syscall", text, sizeof(text)) <= 0)
		return false;
	for (int i = 0; i <= INSTRUCTION; i++) {
		char *end;
		fields[i] = strtoull(at, &end, 0);
		if (end == at) /* "running" */
			return false;
		at = end;
	}
	return fields[STACK] == waiting->stack && fields[INSTRUCTION] == waiting->instruction &&
	       switches_of(pid, waiting->thread, &switches) && switches == waiting->switches + 1;
}

static size_t count_threads(pid_t pid)
{
	char path[64];
	size_t count = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *directory = opendir(path);
	for (struct dirent *entry; directory && (entry = readdir(directory));)
		count += entry->d_name[0] != '.';
	if (directory)
		closedir(directory);
	return count;
}

bool gm_ran_since(const struct gm_ran *ran)
{
	if (!ran->known || count_threads(ran->pid) != ran->threads.count)
		return true;
	for (size_t i = 0; i < ran->threads.count; i++)
		if (!still_waits(ran->pid, &ran->threads.items[i]))
			return true;
	return false;
}

void gm_ran_deinit(struct gm_ran *ran)
{
	gm_array_deinit(&ran->threads);
	*ran = (struct gm_ran){0};
}
