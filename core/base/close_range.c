#include "base/close_range.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

enum { MOST_WITHOUT_LIMIT = 1 << 16, NAMES = 1024 };

/* Linux's names of entries: glibc's dirent64 has the layout of linux_dirent64. UINT_MAX: no number.
 */
static unsigned number(const char *name)
{
	unsigned value = 0;
	if (!*name)
		return UINT_MAX;
	for (; *name >= '0' && *name <= '9' && value < INT_MAX / 10; name++)
		value = value * 10 + (unsigned)(*name - '0');
	return *name ? UINT_MAX : value;
}

/* The kernel lists descriptors in ascending order, so closing one that was read hides no other. */
static int close_listed(unsigned first, unsigned last)
{
	int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return -1;
	_Alignas(struct dirent64) char names[NAMES];
	long size;
	while ((size = syscall(SYS_getdents64, folder, names, sizeof(names))) > 0) {
		for (long at = 0; at < size;) {
			unsigned short length;
			memcpy(&length, names + at + offsetof(struct dirent64, d_reclen),
			        sizeof(length));
			unsigned descriptor =
			        number(names + at + offsetof(struct dirent64, d_name));
			if (descriptor >= first && descriptor <= last &&
			        descriptor != (unsigned)folder)
				close((int)descriptor);
			at += length;
		}
	}
	close(folder);
	return size < 0 ? -1 : 0;
}

void gm_close_range(unsigned first, unsigned last)
{
	if (first > last || syscall(SYS_close_range, first, last, 0) == 0 ||
	        close_listed(first, last) == 0)
		return;
	struct rlimit limit;
	unsigned end = MOST_WITHOUT_LIMIT;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < end)
		end = (unsigned)limit.rlim_cur;
	for (unsigned descriptor = first; descriptor <= last && descriptor < end; descriptor++)
		close((int)descriptor);
}
