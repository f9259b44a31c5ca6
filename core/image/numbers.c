#include "image/numbers.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

bool gm_numbers_differ(pid_t pid)
{
	char path[64];
	struct stat theirs, ours;
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	return stat(path, &theirs) == 0 && stat("/proc/self/ns/pid", &ours) == 0 &&
	       (theirs.st_dev != ours.st_dev || theirs.st_ino != ours.st_ino);
}

pid_t gm_number_inside(pid_t pid, pid_t thread)
{
	char path[64], line[512];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, thread);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		/* One number for each namespace, the innermost last. */
		const char *last = strrchr(line, '\t');
		long number = last ? strtol(last, NULL, 10) : 0;
		return number > 0 ? (pid_t)number : thread;
	}
	return thread;
}

void gm_numbers_init(struct gm_numbers *numbers, pid_t pid)
{
	*numbers = (struct gm_numbers){.pid = pid, .differ = gm_numbers_differ(pid)};
	pthread_mutex_init(&numbers->lock, NULL);
}

void gm_numbers_deinit(struct gm_numbers *numbers)
{
	gm_array_deinit(&numbers->known);
	pthread_mutex_destroy(&numbers->lock);
}

static void look(struct gm_numbers *numbers)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task", numbers->pid);
	DIR *directory = opendir(path);
	numbers->known.count = 0;
	for (struct dirent *entry; directory && (entry = readdir(directory));) {
		pid_t here = (pid_t)strtol(entry->d_name, NULL, 10);
		if (here <= 0)
			continue;
		struct gm_number number = {gm_number_inside(numbers->pid, here), here};
		if (!gm_array_push(&numbers->known, number))
			break;
	}
	if (directory)
		closedir(directory);
}

static pid_t find(const struct gm_numbers *numbers, pid_t inside)
{
	for (size_t i = 0; i < numbers->known.count; i++) {
		if (numbers->known.items[i].inside == inside)
			return numbers->known.items[i].here;
	}
	return 0;
}

pid_t gm_numbers_here(struct gm_numbers *numbers, pid_t inside)
{
	if (!numbers->differ)
		return inside;
	pthread_mutex_lock(&numbers->lock);
	pid_t here = find(numbers, inside);
	if (here == 0) {
		look(numbers);
		here = find(numbers, inside);
	}
	pthread_mutex_unlock(&numbers->lock);
	return here;
}
