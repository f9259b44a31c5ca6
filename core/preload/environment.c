#include "preload/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define VARIABLE "LD_PRELOAD="
#define OURS "libgpumem-"
#define SEPARATORS " :" /* in the same way as the dynamic linker */

static const char *value_of(const char *variable)
{
	size_t length = strlen(VARIABLE);
	return strncmp(variable, VARIABLE, length) == 0 ? variable + length : NULL;
}

/* The next entry from *at on; false: none. */
static bool next_entry(const char **at, const char **ret_entry, size_t *ret_length)
{
	*ret_entry = *at + strspn(*at, SEPARATORS);
	*ret_length = strcspn(*ret_entry, SEPARATORS);
	*at = *ret_entry + *ret_length;
	return *ret_length > 0;
}

static bool is_ours(const char *entry, size_t length)
{
	const char *slash = memrchr(entry, '/', length);
	const char *name = slash ? slash + 1 : entry;
	return (size_t)(entry + length - name) >= strlen(OURS) &&
	       memcmp(name, OURS, strlen(OURS)) == 0;
}

bool gm_preload_has_ours(char *const *environment)
{
	for (; environment && *environment; environment++) {
		const char *at = value_of(*environment), *entry;
		size_t length;
		while (at && next_entry(&at, &entry, &length))
			if (is_ours(entry, length))
				return true;
	}
	return false;
}

/* If it is uncertain (no descriptor is free), it counts as reached: then nothing changes. */
static bool reaches(const char *entry, size_t length)
{
	char path[PATH_MAX];
	if (!memchr(entry, '/', length) || length >= sizeof(path))
		return true;
	memcpy(path, entry, length);
	path[length] = 0;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0)
		syscall(SYS_close, fd);
	return fd >= 0 ||
	       (errno != EACCES && errno != EPERM && errno != ENOENT && errno != ENOTDIR);
}

bool gm_preload_reaches_ours(char *const *environment)
{
	for (; environment && *environment; environment++) {
		const char *at = value_of(*environment), *entry;
		size_t length;
		while (at && next_entry(&at, &entry, &length))
			if (is_ours(entry, length) && !reaches(entry, length))
				return false;
	}
	return true;
}

/* Writes LD_PRELOAD without our libraries to `ret`, which has space for `value` and the name;
 * returns its end, or NULL if no entry is left. */
static char *write_rest(const char *value, char *ret)
{
	const char *entry;
	size_t length;
	bool any = false;
	char *at = stpcpy(ret, VARIABLE);
	while (next_entry(&value, &entry, &length)) {
		if (is_ours(entry, length))
			continue;
		if (any)
			*at++ = ':';
		at = mempcpy(at, entry, length);
		any = true;
	}
	*at++ = 0;
	return any ? at : NULL;
}

static size_t size_needed(char *const *environment)
{
	size_t size = sizeof(char *);
	for (; environment && *environment; environment++)
		size += sizeof(char *) + (value_of(*environment) ? strlen(*environment) + 1 : 0);
	return size;
}

char *const *gm_preload_without_ours(struct gm_preload_environment *made, char *const *environment)
{
	size_t size = size_needed(environment), count = 0;
	char **list = made->inline_list;
	made->mapped = NULL;
	if (size > sizeof(made->inline_list)) {
		/* After a successful vfork it stays in the parent, whose memory it is; better than
		 * on a small stack. */
		void *mapped = mmap(
		        NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (mapped == MAP_FAILED)
			return environment;
		made->mapped = list = mapped;
		made->mapped_size = size;
	}
	for (char *const *at = environment; at && *at; at++)
		count++;
	char *text = (char *)(list + count + 1);
	char **into = list;
	for (char *const *at = environment; at && *at; at++) {
		const char *value = value_of(*at);
		char *one[] = {*at, NULL};
		if (!value || !gm_preload_has_ours(one)) {
			*into++ = *at;
			continue;
		}
		char *end = write_rest(value, text);
		if (end) {
			*into++ = text;
			text = end;
		}
	}
	*into = NULL;
	return list;
}

void gm_preload_environment_deinit(struct gm_preload_environment *made)
{
	int error = errno;
	if (made->mapped)
		munmap(made->mapped, made->mapped_size);
	errno = error;
}
