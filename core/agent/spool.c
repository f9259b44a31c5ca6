#include "agent/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/ring.h"
#include "agent/state.h"
#include "base/varint.h"

enum { SPARE_BUFFERS = 64, MAPPED_MAX = 4096, POPULATE_WRITE = 23 /* MADV_POPULATE_WRITE */ };

/*
 * The file that is open. `generation` counts the recordings of this process and its parents; the
 * mappings of a parent's buffer do not exist here. `mapped` are the extents that threads write
 * (without those beyond MAPPED_MAX). `lock` guards what changes when an extent is allocated; it
 * is held for a few system calls, never while the program's code is called.
 */
static struct {
	atomic_flag lock;
	_Atomic uint32_t generation;
	uint32_t first_generation; /* of this process */
	pid_t process;             /* that opened the file */
	struct gm_agent_file_header *header;
	char path[4096];
	int file; /* its descriptor, checked before each use: the program may have closed it; -1:
	             none */
	dev_t device;
	ino_t inode;
	uint64_t size_limit;
	struct gm_agent_buffer spare[SPARE_BUFFERS]; /* of threads that have ended */
	size_t spare_count;
	struct gm_agent_extent_header *mapped[MAPPED_MAX];
	size_t mapped_count;
} spool = {.lock = ATOMIC_FLAG_INIT, .file = -1};

_Atomic uint64_t gm_agent_sequence;

static _Thread_local struct gm_agent_buffer buffer;
static pthread_key_t thread_end;
static bool has_thread_end;

static struct gm_agent_alone lock(void)
{
	const struct gm_agent_alone before = gm_agent_alone_begin();
	while (atomic_flag_test_and_set_explicit(&spool.lock, memory_order_acquire))
		sched_yield();
	return before;
}

static void unlock(struct gm_agent_alone before)
{
	atomic_flag_clear_explicit(&spool.lock, memory_order_release);
	gm_agent_alone_end(before);
}

/* Is it the file, and does it still have a name? A removed file cannot be read by anyone, and would
 * fill the disk. */
static bool is_ours(int fd)
{
	struct stat status;
	return fd >= 0 && fstat(fd, &status) == 0 && status.st_dev == spool.device &&
	       status.st_ino == spool.inode && status.st_nlink > 0;
}

/* No thread writes it from now on: it may be packed. Under the lock. */
static void finish_extent(struct gm_agent_extent_header *extent)
{
	for (size_t i = spool.mapped_count; i-- > 0;)
		if (spool.mapped[i] == extent) {
			spool.mapped[i] = spool.mapped[--spool.mapped_count];
			break;
		}
	atomic_store_explicit(&extent->finished, 1, memory_order_release);
	munmap(extent, GM_AGENT_EXTENT_SIZE);
}

/* Of a recording of this process that has ended: only this thread has used it. Under the lock. */
static void drop_old_buffer(void)
{
	if (buffer.extent && buffer.generation != atomic_load(&spool.generation) &&
	        buffer.generation >= spool.first_generation)
		finish_extent(buffer.extent);
	buffer.extent = NULL;
}

/*
 * Lets go of the previous recording's file, whose space on the disk is not free as long as it is
 * mapped. The addresses stay valid: a thread may still be between its last event and the end.
 */
static void release_file(void)
{
	const int kind = MAP_PRIVATE | MAP_ANONYMOUS;
	if (spool.process != getpid()) { /* a parent's */
		spool.spare_count = spool.mapped_count = 0;
		spool.first_generation = atomic_load(&spool.generation) + 1;
		spool.process = getpid();
		return;
	}
	while (spool.spare_count > 0)
		finish_extent(spool.spare[--spool.spare_count].extent);
	for (size_t i = 0; i < spool.mapped_count; i++)
		mmap(spool.mapped[i], GM_AGENT_EXTENT_SIZE, PROT_READ | PROT_WRITE,
		        kind | MAP_NORESERVE | MAP_FIXED, -1, 0);
	spool.mapped_count = 0;
	if (!spool.header)
		return;
	void *copy = mmap(NULL, GM_AGENT_HEADER_SIZE, PROT_READ | PROT_WRITE, kind, -1, 0);
	if (copy == MAP_FAILED)
		return;
	memcpy(copy, spool.header, GM_AGENT_HEADER_SIZE);
	mremap(copy, GM_AGENT_HEADER_SIZE, GM_AGENT_HEADER_SIZE, MREMAP_MAYMOVE | MREMAP_FIXED,
	        spool.header);
}

/* When a thread ends, its buffer is free for the next one. */
static void on_thread_end(void *unused)
{
	if (!buffer.extent || !gm_agent_has_begun())
		return;
	const struct gm_agent_alone before = lock();
	if (buffer.generation != atomic_load(&spool.generation)) {
		drop_old_buffer();
	} else if (spool.spare_count < SPARE_BUFFERS && buffer.used < GM_AGENT_EXTENT_SIZE / 2) {
		spool.spare[spool.spare_count++] = buffer;
	} else {
		finish_extent(buffer.extent);
		gm_agent_ring_finish(buffer.number, buffer.coding.sequence);
	}
	buffer.extent = NULL;
	unlock(before);
}

/* Allocates space in the file for [0, size): NULL, or the reason why not. Nothing is written over
 * existing data. */
static enum gm_agent_end reserve(int fd, uint64_t from, uint64_t to)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	        to > limit.rlim_cur)
		return GM_AGENT_FILE_LIMIT; /* otherwise the kernel would end the program with
		                               SIGXFSZ */
	if (fallocate(fd, 0, (off_t)from, (off_t)(to - from)) == 0)
		return GM_AGENT_RUNS;
	if (errno == EFBIG)
		return GM_AGENT_FILE_LIMIT;
	if (errno == ENOSPC || errno == EDQUOT)
		return GM_AGENT_DISK_FULL;
	static const char zeros[4096];
	/* the file system does not support it, or a seccomp filter forbids it: write instead */
	for (uint64_t at = from; at < to; at += sizeof(zeros))
		if (pwrite(fd, zeros, sizeof(zeros), (off_t)at) != (ssize_t)sizeof(zeros))
			return GM_AGENT_DISK_FULL;
	return GM_AGENT_RUNS;
}

static void *map(int fd, uint64_t offset, size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	if (memory == MAP_FAILED)
		return NULL;
	/* The first write to a page is a page fault, under the lock of the allocator that reports.
	 * Faulting in all pages at once costs less. (Linux before 5.14 refuses; then there are
	 * faults.) */
	madvise(memory, size,
	        MADV_WILLNEED); /* for a file on a disk: in one write, not by read-ahead */
	madvise(memory, size, POPULATE_WRITE);
	/* A child must not write into its parent's file, no matter how it was created. */
	madvise(memory, size, MADV_DONTFORK);
	return memory;
}

/* Moves the descriptor to a high number: programs expect the low ones to be free. */
static int keep(int fd)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return fd;
	int from = limit.rlim_cur > 2048 ? 1024 : (int)(limit.rlim_cur - limit.rlim_cur / 4);
	int high = fcntl(fd, F_DUPFD_CLOEXEC, from);
	if (high < 0)
		return fd;
	close(fd);
	return high;
}

/* The file's descriptor; -1 if it does not exist any more. */
static int file(enum gm_agent_end *ret_why)
{
	if (is_ours(spool.file))
		return spool.file;
	spool.file = -1; /* it is the program's own, or closed */
	int fd = open(spool.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	*ret_why = fd >= 0 || errno == ENOENT || errno == ENOTDIR ? GM_AGENT_LOST_FILE
	                                                          : GM_AGENT_NOT_OPENED;
	if (is_ours(fd))
		spool.file = keep(fd);
	else if (fd >= 0)
		close(fd);
	return spool.file;
}

/*
 * Writes the header in one call, so that a reader finds either an empty file or a valid beginning,
 * never zeros. One thread at a time.
 */
static enum gm_agent_end write_header(int fd)
{
	static _Alignas(8) uint8_t bytes[GM_AGENT_HEADER_SIZE];
	struct gm_agent_file_header *header = (struct gm_agent_file_header *)bytes;
	struct rlimit limit;
	struct timespec now;
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	        limit.rlim_cur < sizeof(bytes))
		return GM_AGENT_FILE_LIMIT; /* otherwise the kernel would end the program with
		                               SIGXFSZ */
	clock_gettime(CLOCK_REALTIME, &now);
	memcpy(header->magic, GM_AGENT_MAGIC, sizeof(header->magic));
	header->major = GM_AGENT_MAJOR;
	header->minor = GM_AGENT_MINOR;
	header->header_size = GM_AGENT_HEADER_SIZE;
	header->extent_size = GM_AGENT_EXTENT_SIZE;
	header->pid = gm_agent_pid();
	header->rank = UINT32_MAX;
	header->start_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	if (getrandom(&header->id, sizeof(header->id), GRND_NONBLOCK) !=
	        (ssize_t)sizeof(header->id))
		header->id = header->start_ns ^ (uint64_t)header->pid << 40;
	return pwrite(fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes) ? GM_AGENT_RUNS
	                                                                     : GM_AGENT_DISK_FULL;
}

const char *gm_agent_spool_open(const char *path)
{
	if (!has_thread_end)
		has_thread_end = pthread_key_create(&thread_end, on_thread_end) == 0;
	if (strlen(path) >= sizeof(spool.path))
		return "its path is too long";
	int fd = open(
	        path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600); /* names and paths are in it */
	if (fd < 0)
		return errno == EEXIST ? "the file exists already" : "it cannot be created";
	struct stat status;
	struct gm_agent_file_header *header = NULL;
	bool written = write_header(fd) == GM_AGENT_RUNS;
	if (written && fstat(fd, &status) == 0)
		header = map(fd, 0, GM_AGENT_HEADER_SIZE);
	if (!header) {
		close(fd);
		unlink(path);
		return written ? "it cannot be mapped"
		               : "the disk or its user's quota is full, or its files may not grow";
	}
	const struct gm_agent_alone before = lock();
	release_file();
	strcpy(spool.path, path);
	if (spool.file != fd && is_ours(spool.file)) /* that of a previous recording */
		close(spool.file);
	spool.device = status.st_dev;
	spool.inode = status.st_ino;
	spool.file = keep(fd);
	spool.header = header;
	char limit[32];
	gm_agent_setting("max", limit, sizeof(limit));
	spool.size_limit = strtoull(limit, NULL, 10);
	uint64_t extents = 0;
	if (gm_agent_setting_has("keep", "newest") && spool.size_limit > GM_AGENT_HEADER_SIZE)
		extents = (spool.size_limit - GM_AGENT_HEADER_SIZE) / GM_AGENT_EXTENT_SIZE;
	header->ring = gm_agent_ring_begin(extents) ? (uint32_t)extents : 0;
	atomic_fetch_add(&spool.generation, 1);
	unlock(before);
	return NULL;
}

void gm_agent_spool_renamed(const char *path)
{
	const struct gm_agent_alone before = lock();
	if (strlen(path) < sizeof(spool.path))
		strcpy(spool.path, path);
	unlock(before);
}

void gm_agent_spool_close(enum gm_agent_end end)
{
	uint32_t state = GM_AGENT_RUNS;
	const struct gm_agent_alone before = lock();
	/* the reason that ended it before stays recorded */
	if (spool.header && !atomic_compare_exchange_strong(&spool.header->state, &state, end) &&
	        state == GM_AGENT_EXITED)
		atomic_store(&spool.header->state, end);
	if (end == GM_AGENT_STOPPED && is_ours(spool.file)) {
		close(spool.file);
		spool.file = -1;
	}
	unlock(before);
}

struct gm_agent_file_header *gm_agent_spool_header(void)
{
	return gm_agent_has_begun() ? spool.header : NULL;
}

void gm_agent_spool_forget(void)
{
	/* The mappings are not in this process (MADV_DONTFORK), but the descriptor is. */
	if (is_ours(spool.file))
		close(spool.file);
	spool.file = -1;
	spool.header = NULL;
	spool.spare_count = 0;
	spool.mapped_count = 0;
	spool.path[0] = 0;
	spool.first_generation = atomic_fetch_add(&spool.generation, 1) + 1;
	atomic_flag_clear(&spool.lock);
}

/* Maps an extent; for a new one, reserves its space first. *ret_why only if that fails. */
static struct gm_agent_extent_header *map_extent(
        uint64_t number, bool fresh, enum gm_agent_end *ret_why)
{
	uint64_t offset = GM_AGENT_HEADER_SIZE + number * GM_AGENT_EXTENT_SIZE;
	enum gm_agent_end why;
	struct gm_agent_extent_header *extent = NULL;
	int fd = file(&why);
	if (fd >= 0)
		why = fresh ? reserve(fd, offset, offset + GM_AGENT_EXTENT_SIZE) : GM_AGENT_RUNS;
	if (fd >= 0 && why == GM_AGENT_RUNS) {
		extent = map(fd, offset, GM_AGENT_EXTENT_SIZE);
		why = GM_AGENT_NOT_MAPPED;
	}
	if (!extent)
		*ret_why = why;
	return extent;
}

static struct gm_agent_extent_header *map_for_ring(void *why, uint32_t number)
{
	return map_extent(number, number >= atomic_load(&spool.header->extents), why);
}

/* The number of the next extent; UINT32_MAX: recording ends. */
static uint32_t next_number(uint64_t first, enum gm_agent_end *ret_why)
{
	uint32_t number = atomic_load(&spool.header->extents);
	*ret_why = GM_AGENT_SIZE_LIMIT;
	if (gm_agent_ring_is_on()) {
		enum gm_agent_end why = GM_AGENT_RUNS;
		const struct gm_agent_ring_file file = {spool.header, &why, map_for_ring};
		number = gm_agent_ring_take(&file, first);
		if (why != GM_AGENT_RUNS)
			*ret_why = why;
		return number;
	}
	uint64_t end = GM_AGENT_HEADER_SIZE + (number + UINT64_C(1)) * GM_AGENT_EXTENT_SIZE;
	return spool.size_limit && end > spool.size_limit ? UINT32_MAX : number;
}

/* This claims the new extent before it has space: the process that packs the file takes extents
 * too. */
static bool claim(uint32_t number, bool *ret_fresh)
{
	uint32_t expected = number;
	*ret_fresh = true;
	if (atomic_compare_exchange_strong(&spool.header->extents, &expected, number + 1))
		return true;
	*ret_fresh = false; /* one that a ring reuses; nothing of a ring is packed */
	return gm_agent_ring_is_on();
}

/* Maps the next extent of the file; NULL: recording ends. */
static struct gm_agent_extent_header *next_extent(uint32_t *ret_number, enum gm_agent_end *ret_why)
{
	uint64_t first = atomic_load_explicit(&gm_agent_sequence, memory_order_relaxed);
	bool fresh;
	do {
		*ret_number = next_number(first, ret_why);
		if (*ret_number == UINT32_MAX)
			return NULL;
	} while (!claim(*ret_number, &fresh));
	struct gm_agent_extent_header *extent = map_extent(*ret_number, fresh, ret_why);
	if (!extent)
		return NULL;
	extent->first_sequence = first;
	extent->thread = gm_agent_thread();
	extent->finished = 0;
	extent->magic = GM_AGENT_EXTENT_MAGIC;
	return extent;
}

static struct gm_agent_buffer *take_buffer(void)
{
	struct gm_agent_file_header *header = spool.header;
	bool full = false;
	const struct gm_agent_alone before = lock();
	if (buffer.extent && buffer.generation == atomic_load(&spool.generation)) {
		finish_extent(buffer.extent);
		buffer.extent = NULL;
		full = true;
	}
	drop_old_buffer();
	bool fresh = true;
	if (full)
		gm_agent_ring_finish(buffer.number, buffer.coding.sequence);
	if (!header || atomic_load(&header->state) > GM_AGENT_EXITED) {
		unlock(before);
		return NULL;
	}
	if (spool.spare_count > 0) {
		buffer = spool.spare[--spool.spare_count];
		fresh = false;
	} else {
		enum gm_agent_end why;
		uint32_t number;
		struct gm_agent_extent_header *extent = next_extent(&number, &why);
		if (!extent) {
			atomic_store(&header->state, why);
			unlock(before);
			return NULL;
		}
		if (spool.mapped_count < MAPPED_MAX)
			spool.mapped[spool.mapped_count++] = extent;
		buffer = (struct gm_agent_buffer){.extent = extent,
		        .generation = atomic_load(&spool.generation),
		        .number = number};
	}
	unlock(before);
	if (has_thread_end)
		pthread_setspecific(thread_end, &buffer);
	if (!fresh) {
		uint8_t *at = gm_agent_buffer_at(&buffer);
		at = gm_put_varint(at, GM_AGENT_THREAD);
		uint8_t payload[16], *end = gm_put_varint(payload, gm_agent_thread());
		at = gm_put_varint(at, (uint64_t)(end - payload));
		memcpy(at, payload, (size_t)(end - payload));
		gm_agent_buffer_commit(&buffer, at + (end - payload));
	}
	return &buffer;
}

struct gm_agent_buffer *gm_agent_buffer(size_t count)
{
	/* and space for a GM_AGENT_THREAD record */
	if (buffer.extent &&
	        buffer.generation ==
	                atomic_load_explicit(&spool.generation, memory_order_relaxed) &&
	        count + 32 <= GM_AGENT_RECORD_MAX - buffer.used)
		return &buffer;
	for (int i = 0; i < SPARE_BUFFERS + 2; i++) {
		struct gm_agent_buffer *taken = take_buffer();
		if (!taken || count + 32 <= GM_AGENT_RECORD_MAX - taken->used)
			return taken;
	}
	return NULL;
}
