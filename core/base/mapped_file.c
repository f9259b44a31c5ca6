#include "base/mapped_file.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "base/team.h"

enum {
	MOST = 4096, /* all libraries of a process may be mapped at once */
	PAGE = 4096,
	AT_ONCE = 16 << 20, /* bytes that one thread releases at a time */
};

/* Read by the signal handler: an entry is valid if its size is not 0. */
struct entry {
	_Atomic(uintptr_t) start;
	atomic_size_t size;
	atomic_int protection;
};
static struct entry entries[MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t entry_count;
static struct sigaction before;

static void pass_on(int number, siginfo_t *info, void *context)
{
	if (before.sa_flags & SA_SIGINFO) {
		before.sa_sigaction(number, info, context);
	} else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
		before.sa_handler(number);
	} else { /* it is raised again at once, and ends the process */
		struct sigaction ends = {.sa_handler = SIG_DFL};
		sigaction(SIGBUS, &ends, NULL);
	}
}

static void handle(int number, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr;
	for (size_t i = 0; i < MOST; i++) {
		uintptr_t start = atomic_load(&entries[i].start);
		if (at < start || at - start >= atomic_load(&entries[i].size))
			continue;
		void *page = (void *)(at & ~(uintptr_t)(PAGE - 1));
		int protection = atomic_load(&entries[i].protection);
		/* only one system call, which is allowed in a handler */
		if (mmap(page, PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
		        page)
			return;
	}
	pass_on(number, info, context);
}

static struct entry *take_entry(void)
{
	for (size_t i = 0; i < MOST; i++)
		if (atomic_load(&entries[i].size) == 0)
			return &entries[i];
	return NULL;
}

/* The whole pages of the mapping, and a page of zeros after them. */
static size_t reserved_size(size_t size)
{
	return (size + PAGE - 1) / PAGE * PAGE + PAGE;
}

static void *map(int fd, off_t offset, size_t size, int protection)
{
	if (size > SIZE_MAX / 2)
		return MAP_FAILED;
	uint8_t *bytes = mmap(NULL, reserved_size(size), PROT_READ,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (bytes == MAP_FAILED ||
	        mmap(bytes, size, protection, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, offset) ==
	                bytes)
		return bytes;
	munmap(bytes, reserved_size(size));
	return MAP_FAILED;
}

static uint8_t *open_entry(int fd, off_t offset, size_t size, int protection)
{
	struct sigaction ours = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	void *bytes = MAP_FAILED;
	sigemptyset(&ours.sa_mask);
	pthread_mutex_lock(&lock);
	struct entry *entry = take_entry();
	if (entry && size > 0 && (entry_count > 0 || sigaction(SIGBUS, &ours, &before) == 0)) {
		bytes = map(fd, offset, size, protection);
		if (bytes != MAP_FAILED) {
			atomic_store(&entry->protection, protection);
			atomic_store(&entry->start, (uintptr_t)bytes);
			atomic_store(&entry->size, size);
			entry_count++;
		} else if (entry_count == 0) {
			sigaction(SIGBUS, &before, NULL);
		}
	}
	pthread_mutex_unlock(&lock);
	return bytes == MAP_FAILED ? NULL : bytes;
}

const uint8_t *gm_mapped_file_open(int fd, size_t size)
{
	return open_entry(fd, 0, size, PROT_READ);
}

uint8_t *gm_mapped_file_open_shared(int fd, off_t offset, size_t size)
{
	return open_entry(fd, offset, size, PROT_READ | PROT_WRITE);
}

bool gm_mapped_file_make_writable(
        const uint8_t *bytes, size_t mapped_size, size_t offset, size_t size)
{
	if (size == 0 || offset > mapped_size || size > mapped_size - offset)
		return false;
	size_t start = offset / PAGE * PAGE,
	       length = (offset + size - start + PAGE - 1) / PAGE * PAGE;
	void *copy = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy == MAP_FAILED)
		return false;
	memcpy(copy, bytes + start, length);
	if (mremap(copy, length, length, MREMAP_MAYMOVE | MREMAP_FIXED,
	            (void *)(uintptr_t)(bytes + start)) != MAP_FAILED)
		return true;
	munmap(copy, length);
	return false;
}

struct releasing {
	const uint8_t *bytes;
	size_t size;
};

static void release(void *context, size_t number)
{
	const struct releasing *releasing = context;
	size_t start = number * AT_ONCE, left = releasing->size - start;
	(void)madvise((void *)(uintptr_t)(releasing->bytes + start),
	        left < AT_ONCE ? left : AT_ONCE, MADV_DONTNEED);
}

void gm_mapped_file_close(const uint8_t *bytes, size_t size)
{
	if (!bytes)
		return;
	/* the kernel releases each page separately: for a core of gigabytes, use several threads */
	struct releasing releasing = {bytes, size};
	if (size > 4 * (size_t)AT_ONCE)
		gm_team_run((size - 1) / AT_ONCE + 1, release, &releasing);
	pthread_mutex_lock(&lock);
	munmap((void *)(uintptr_t)bytes, reserved_size(size));
	for (size_t i = 0; i < MOST; i++)
		if (atomic_load(&entries[i].start) == (uintptr_t)bytes)
			atomic_store(&entries[i].size, 0);
	if (--entry_count == 0)
		sigaction(SIGBUS, &before, NULL);
	pthread_mutex_unlock(&lock);
}
