/*
 * The identity of a process, according to the kernel, held while it is used. At any moment a
 * process may end, its number may be reused, or it may execute a program with the setuid bit. Work
 * as root must affect only the intended process, with the rights that it had at the beginning.
 *
 *   folder   /proc/PID, open: belongs to that process even if its number is reused
 *   memory   /proc/PID/mem, open: the memory at that moment; a program that it executes later
 *            has another one
 *   users    read before anything else: everything read later is compared with them
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "inject/internal.h"

struct words {
	unsigned uids[4], gids[4]; /* real, effective, saved, of files */
};

static bool read_words(const struct gm_inject_identity *identity, struct words *ret_words)
{
	char line[256];
	struct words words;
	bool uids = false, gids = false;
	int fd = openat(identity->folder, "status", O_RDONLY | O_CLOEXEC);
	_cleanup_fclose_ FILE *file = fd >= 0 ? fdopen(fd, "re") : NULL;
	if (fd >= 0 && !file)
		close(fd);
	while (file && !(uids && gids) && fgets(line, sizeof(line), file)) {
		unsigned *ids = strncmp(line, "Uid:", 4) == 0   ? words.uids
		                : strncmp(line, "Gid:", 4) == 0 ? words.gids
		                                                : NULL;
		if (!ids)
			continue;
		if (sscanf(line + 4, "%u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]) != 4)
			return false;
		uids |= ids == words.uids;
		gids |= ids == words.gids;
	}
	if (!uids || !gids)
		return false;
	*ret_words = words;
	return true;
}

/* If there are several, the one that is not root: a program with the setuid bit still belongs to
 * its caller. */
static unsigned weakest(const unsigned ids[4])
{
	for (size_t i = 0; i < 4; i++)
		if (ids[i] != 0)
			return ids[i];
	return 0;
}

static void look_at_program(
        const struct gm_inject_identity *identity, dev_t *ret_device, ino_t *ret_inode)
{
	struct stat about;
	bool known = fstatat(identity->folder, "exe", &about, 0) == 0;
	*ret_device = known ? about.st_dev : 0;
	*ret_inode = known ? about.st_ino : 0;
}

static struct gm_error *error_ended(pid_t pid)
{
	return gm_error_create(GM_TARGET, "process %d: no such process: check its number", pid);
}

struct gm_error *gm_inject_identity_init(struct gm_inject_identity *identity, pid_t pid)
{
	char path[32];
	struct words words;
	snprintf(path, sizeof(path), "/proc/%d", pid);
	*identity = (struct gm_inject_identity){.pid = pid,
	        .memory = -1,
	        .process = -1,
	        .folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
	if (identity->folder >= 0)
		identity->process = (int)syscall(SYS_pidfd_open, pid, 0);
	/* read after that: the folder is not empty, so the number was that of its process */
	if (identity->folder < 0 || !read_words(identity, &words)) {
		gm_inject_identity_deinit(identity);
		return error_ended(pid);
	}
	memcpy(identity->uids, words.uids, sizeof(identity->uids));
	memcpy(identity->gids, words.gids, sizeof(identity->gids));
	identity->user = (uid_t)weakest(words.uids);
	identity->group = (gid_t)weakest(words.gids);
	look_at_program(identity, &identity->device, &identity->inode);
	/* Not process_vm_writev: this also writes where only the kernel may. */
	identity->memory = openat(identity->folder, "mem", O_RDWR | O_CLOEXEC);
	identity->memory_error = identity->memory < 0 ? errno : 0;
	return NULL;
}

void gm_inject_identity_deinit(struct gm_inject_identity *identity)
{
	if (identity->folder >= 0)
		close(identity->folder);
	if (identity->memory >= 0)
		close(identity->memory);
	if (identity->process >= 0)
		close(identity->process);
	identity->folder = identity->memory = identity->process = -1;
}

/* Its memory is the one that is open: from memory that belongs to no process any more nothing can
 * be read, not even an error. */
static bool has_memory(const struct gm_inject_identity *identity)
{
	char byte;
	return identity->memory < 0 || pread(identity->memory, &byte, 1, 0) != 0;
}

struct gm_error *gm_inject_identity_check(const struct gm_inject_identity *identity)
{
	struct words words;
	dev_t device;
	ino_t inode;
	if (!read_words(identity, &words))
		return gm_error_create(
		        GM_TARGET, "process %d: it ended meanwhile: start it again", identity->pid);
	look_at_program(identity, &device, &inode);
	if (memcmp(words.uids, identity->uids, sizeof(words.uids)) == 0 &&
	        memcmp(words.gids, identity->gids, sizeof(words.gids)) == 0 &&
	        device == identity->device && inode == identity->inode && has_memory(identity))
		return NULL;
	return gm_error_create(GM_TARGET,
	        "process %d: it became another program or another user's meanwhile: check what it "
	        "is, then try again",
	        identity->pid);
}

bool gm_inject_write(
        const struct gm_inject_identity *identity, uint64_t address, const void *bytes, size_t size)
{
	errno = identity->memory_error;
	if (identity->memory < 0 || address > INT64_MAX)
		return false;
	ssize_t written = pwrite(identity->memory, bytes, size, (off_t)address);
	if (written >= 0 && written != (ssize_t)size)
		errno = ESRCH;
	return written == (ssize_t)size;
}

/* "START-END PERMISSIONS OFFSET DEVICE INODE PATH": is it private, without a file, and has it these
 * permissions? */
static bool is_plain(const char *line, const struct gm_inject_range *wanted, uint64_t *ret_start,
        uint64_t *ret_end)
{
	unsigned long long start, end, inode;
	char may[5];
	int length = 0;
	if (sscanf(line, "%llx-%llx %4s %*x %*s %llu %n", &start, &end, may, &inode, &length) !=
	                4 ||
	        !length || inode != 0 || strlen(may) != 4 || may[3] != 'p')
		return false;
	for (size_t i = 0; i < 3; i++)
		if (wanted->permissions[i] != '-' && may[i] != wanted->permissions[i])
			return false;
	const char *name = line + length;
	*ret_start = start;
	*ret_end = end;
	return !*name || *name == '\n' || strncmp(name, "[anon:", 6) == 0 ||
	       strncmp(name, "[heap]", 6) == 0 ||
	       (wanted->may_be_stack && strncmp(name, "[stack]", 7) == 0);
}

bool gm_inject_is_plain_memory(const struct gm_inject_identity *identity, size_t count,
        const struct gm_inject_range *ranges)
{
	size_t found = 0;
	int fd = openat(identity->folder, "maps", O_RDONLY | O_CLOEXEC);
	_cleanup_fclose_ FILE *file = fd >= 0 ? fdopen(fd, "re") : NULL;
	if (fd >= 0 && !file)
		close(fd);
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	while (file && found < count && getline(&line, &size, file) > 0) {
		for (size_t i = 0; i < count; i++) {
			uint64_t start, end;
			if (is_plain(line, &ranges[i], &start, &end) &&
			        ranges[i].address >= start && ranges[i].address < end &&
			        ranges[i].size <= end - ranges[i].address)
				found++;
		}
	}
	return found == count;
}
