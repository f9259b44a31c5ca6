#include "agent/state.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct gm_agent_live_page off_page = {GM_AGENT_LIVE_OFF};
struct gm_agent_live_page *gm_agent_live = &off_page;

struct gm_agent_process gm_agent_process;

static _Thread_local struct {
	bool inside;
	int error, *errno_at; /* cached, because getting it is a system call */
	uint32_t thread;
} self;

/* ---- settings -------------------------------------------------------------------------------- */

void gm_agent_setting(const char *name, char *ret_value, size_t size)
{
	size_t length = strlen(name);
	ret_value[0] = 0;
	for (const char *at = gm_agent_process.settings; *at;) {
		const char *end = strchrnul(at, ';');
		if (strncmp(at, name, length) == 0 && at[length] == '=') {
			size_t count = (size_t)(end - at) - length - 1;
			if (count >= size)
				count = size - 1;
			memcpy(ret_value, at + length + 1, count);
			ret_value[count] = 0;
			return;
		}
		at = *end ? end + 1 : end;
	}
}

bool gm_agent_setting_has(const char *name, const char *word)
{
	char value[256];
	gm_agent_setting(name, value, sizeof(value));
	size_t length = strlen(word);
	for (const char *at = value; *at;) {
		const char *end = strchrnul(at, ',');
		if ((size_t)(end - at) == length && strncmp(at, word, length) == 0)
			return true;
		at = *end ? end + 1 : end;
	}
	return false;
}

char *gm_agent_without_controls(char *line, size_t length)
{
	for (size_t i = 0; i + 1 < length && line[i]; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
	return line;
}

/* ---- this process and this thread ------------------------------------------------------------ */

uint32_t gm_agent_pid(void)
{
	return gm_agent_process.pid;
}

uint32_t gm_agent_thread(void)
{
	if (!self.thread)
		self.thread = (uint32_t)syscall(SYS_gettid);
	return self.thread;
}

void gm_agent_thread_changed(void)
{
	self.thread = 0;
}

bool gm_agent_preloaded(void)
{
	return gm_agent_process.preloaded;
}

bool gm_agent_has_begun(void)
{
	return atomic_load_explicit(&gm_agent_live->begun, memory_order_acquire) != 0;
}

bool gm_agent_waits(void)
{
	return atomic_load_explicit(&gm_agent_live->state, memory_order_relaxed) ==
	       GM_AGENT_LIVE_WAITING;
}

bool gm_agent_may_record(unsigned feature)
{
	return atomic_load_explicit(&gm_agent_live->state, memory_order_relaxed) !=
	               GM_AGENT_LIVE_OFF &&
	       gm_agent_records(feature);
}

bool gm_agent_records(unsigned feature)
{
	return (gm_agent_process.features & feature) != 0;
}

bool gm_agent_live_map(void)
{
	if (gm_agent_live != &off_page)
		return true;
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return false;
	if (madvise(page, 4096, MADV_WIPEONFORK) != 0) { /* Linux before 4.14 */
		munmap(page, 4096);
		return false;
	}
	gm_agent_live = page;
	return true;
}

bool gm_agent_wake(void)
{
	uint32_t state = GM_AGENT_LIVE_WAITING;
	if (atomic_load(&gm_agent_live->state) == GM_AGENT_LIVE_OFF || gm_agent_process.stopped)
		return false;
	int cancel;
	/* a cancelled thread would leave the state as it is then, for which all others wait */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (atomic_compare_exchange_strong(&gm_agent_live->state, &state, GM_AGENT_LIVE_BEGINS)) {
		int error = errno;
		self.inside = true;
		bool good = gm_agent_process.begin && gm_agent_process.begin();
		self.inside = false;
		errno = error;
		atomic_store(
		        &gm_agent_live->state, good ? GM_AGENT_LIVE_RECORDS : GM_AGENT_LIVE_OFF);
		if (good)
			gm_agent_process.begun();
	}
	pthread_setcancelstate(cancel, NULL);
	while (atomic_load(&gm_agent_live->state) == GM_AGENT_LIVE_BEGINS)
		sched_yield();
	return atomic_load(&gm_agent_live->state) == GM_AGENT_LIVE_RECORDS;
}

bool gm_agent_enter(void)
{
	if (self.inside)
		return false;
	if (atomic_load_explicit(&gm_agent_live->state, memory_order_acquire) !=
	                GM_AGENT_LIVE_RECORDS &&
	        !gm_agent_wake())
		return false;
	self.inside = true;
	if (__builtin_expect(!self.errno_at, 0))
		self.errno_at = &errno;
	self.error = *self.errno_at;
	return true;
}

void gm_agent_leave(void)
{
	*self.errno_at = self.error;
	self.inside = false;
}

bool gm_agent_is_inside(void)
{
	return self.inside;
}

struct gm_agent_alone gm_agent_alone_begin(void)
{
	struct gm_agent_alone before = {.inside = self.inside};
	self.inside = true;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before.cancel);
	return before;
}

void gm_agent_alone_end(struct gm_agent_alone before)
{
	pthread_setcancelstate(before.cancel, NULL);
	self.inside = before.inside;
}

/* --- mutual exclusion ------------------------------------------------------------------------- */

static _Atomic int32_t changes; /* the process in which a thread begins or ends a recording; after a
                                   fork it is the parent's */
static int changing_cancel;     /* whether the thread in it could be cancelled */

bool gm_agent_change_begin(void)
{
	enum { WAIT_MS = 10000 }; /* a debugger may have stopped the thread that is in it */
	const int32_t process = getpid();
	for (int waited = 0; waited < WAIT_MS; waited++) {
		int32_t other = atomic_load(&changes);
		int cancel;
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		if (other != process && atomic_compare_exchange_strong(&changes, &other, process)) {
			changing_cancel = cancel;
			return true;
		}
		pthread_setcancelstate(cancel, NULL);
		const struct timespec pause = {.tv_nsec = 1000000};
		nanosleep(&pause, NULL);
	}
	return false;
}

void gm_agent_change_end(void)
{
	int cancel = changing_cancel;
	atomic_store(&changes, 0);
	pthread_setcancelstate(cancel, NULL);
}
