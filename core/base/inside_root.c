#include "base/inside_root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { LINKS_MAX = 40, PATH_LENGTH = 4096, DEPTH_MAX = 2048 };

bool gm_inside_root(const char *path, const char **ret_path)
{
	static const char before[] = "/proc/", behind[] = "/root";
	if (strncmp(path, before, sizeof(before) - 1) != 0)
		return false;
	const char *number = path + sizeof(before) - 1;
	size_t digits = strspn(number, "0123456789");
	const char *rest = number + digits + sizeof(behind) - 1;
	if (digits == 0 || strncmp(number + digits, behind, sizeof(behind) - 1) != 0 ||
	        (*rest != '/' && *rest != 0))
		return false;
	*ret_path = rest;
	return true;
}

/* --- without openat2() ------------------------------------------------------------------------ */

struct walk {
	int root;
	int folders[DEPTH_MAX]; /* folders below the root, each within the previous one */
	size_t depth;
	char rest[2 * PATH_LENGTH]; /* of the path */
	unsigned links;
};

static int here(const struct walk *walk)
{
	return walk->depth > 0 ? walk->folders[walk->depth - 1] : walk->root;
}

static void up(struct walk *walk)
{
	if (walk->depth > 0)
		close(walk->folders[--walk->depth]);
}

/* Removes the first name from the path; false if there is none. */
static bool next_name(struct walk *walk, char *ret_name)
{
	size_t skip = strspn(walk->rest, "/"), length = strcspn(walk->rest + skip, "/");
	if (length == 0 || length > 255)
		return false;
	memcpy(ret_name, walk->rest + skip, length);
	ret_name[length] = 0;
	memmove(walk->rest, walk->rest + skip + length, strlen(walk->rest + skip + length) + 1);
	return true;
}

/* The target of a link precedes the rest. */
static int follow(struct walk *walk, int link)
{
	char text[PATH_LENGTH];
	struct statfs system;
	/* the kernel's own links: their text is not where they lead */
	if (++walk->links > LINKS_MAX ||
	        (fstatfs(link, &system) == 0 && system.f_type == PROC_SUPER_MAGIC))
		return ELOOP;
	ssize_t length = readlinkat(link, "", text, sizeof(text));
	if (length <= 0)
		return length < 0 ? errno : ENOENT;
	size_t rest = strlen(walk->rest);
	if ((size_t)length >= sizeof(text) || (size_t)length + rest + 2 > sizeof(walk->rest))
		return ENAMETOOLONG;
	memmove(walk->rest + length + 1, walk->rest, rest + 1);
	memcpy(walk->rest, text, (size_t)length);
	walk->rest[length] = '/';
	while (text[0] == '/' && walk->depth > 0)
		up(walk);
	return 0;
}

/* Opens one name: 0, or an errno. */
static int step(struct walk *walk, const char *name)
{
	struct stat about;
	if (strcmp(name, ".") == 0)
		return 0;
	if (strcmp(name, "..") == 0) {
		up(walk);
		return 0;
	}
	if (walk->depth == DEPTH_MAX)
		return ENAMETOOLONG;
	int fd = openat(here(walk), name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno;
	if (fstat(fd, &about) == 0 && S_ISLNK(about.st_mode)) {
		int os_error = follow(walk, fd);
		close(fd);
		return os_error;
	}
	walk->folders[walk->depth++] = fd;
	return 0;
}

/* Reopens an O_PATH descriptor through the kernel's link to it, which leads to the same file. */
static int open_again(int fd, int flags)
{
	char path[64];
	struct stat about;
	if (fstat(fd, &about) == 0 && S_ISDIR(about.st_mode))
		return openat(fd, ".", flags);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, flags);
}

int gm_inside_root_walk(int root, const char *path, int flags)
{
	_cleanup_free_ struct walk *walk = malloc(sizeof(*walk));
	char name[256];
	if (!walk || strlen(path) >= PATH_LENGTH) {
		errno = walk ? ENAMETOOLONG : ENOMEM;
		return -1;
	}
	walk->root = root;
	walk->depth = 0;
	walk->links = 0;
	memcpy(walk->rest, path, strlen(path) + 1);
	int os_error = 0;
	while (os_error == 0 && next_name(walk, name))
		os_error = step(walk, name);
	if (os_error == 0 && walk->rest[strspn(walk->rest, "/")])
		os_error = ENAMETOOLONG; /* a name of more than 255 bytes */
	int fd = os_error == 0 ? open_again(here(walk), flags) : -1;
	if (os_error == 0 && fd < 0)
		os_error = errno;
	while (walk->depth > 0)
		up(walk);
	errno = os_error;
	return fd;
}

int gm_inside_root_open(int root, const char *path, int flags)
{
	struct open_how how = {.flags = (uint64_t)(unsigned)flags,
	        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	long fd = syscall(SYS_openat2, root, *path ? path : "/", &how, sizeof(how));
	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		return gm_inside_root_walk(root, path, flags);
	return (int)fd;
}
