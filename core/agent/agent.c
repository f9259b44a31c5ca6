#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/inside.h"
#include "agent/patch.h"
#include "agent/replace.h"
#include "agent/spool.h"
#include "agent/stacks/stacks.h"

/*
 * Whether this process records, in a page that the kernel wipes in every child: a forked process finds WAITING
 * there, whichever way it was made, and begins a file of its own at its first event. So do processes that
 * were just started: most that a program starts never allocate, and leave no file.
 */
enum live { WAITING = 0, RECORDS, OFF, BEGINS };
struct live_page {
	_Atomic uint32_t state;
};

static struct live_page off_page = {OFF};
static struct live_page *live = &off_page;

enum { SETTINGS_MAX = 8192, GAPS_MAX = 64, GAP_TEXT = 512 };

static struct {
	char settings[SETTINGS_MAX];
	char folder[PATH_MAX]; /* in which the settings were given */
	char path[PATH_MAX];
	uint32_t pid;
	bool preloaded, tell;
	bool attached;     /* begins in a program that runs already */
	unsigned features; /* enum gm_agent_feature */
	/* gaps: those told, by a hash of the text; and those that came before there was a file */
	uint64_t told[GAPS_MAX];
	_Atomic uint32_t told_count;
	char early[8][GAP_TEXT];
	uint32_t early_count;
} agent;

static _Thread_local struct {
	bool inside;
	int error, *errno_at; /* kept: to ask for it is a call */
	uint32_t thread;
} self;

/* ---- settings --------------------------------------------------------------------------------------------- */

void gm_agent_setting(const char *name, char *ret_value, size_t size)
{
	size_t length = strlen(name);
	ret_value[0] = 0;
	for (const char *at = agent.settings; *at;) {
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

uint32_t gm_agent_pid(void)
{
	return agent.pid;
}

uint32_t gm_agent_thread(void)
{
	if (!self.thread)
		self.thread = (uint32_t)syscall(SYS_gettid);
	return self.thread;
}

bool gm_agent_waits(void)
{
	return atomic_load_explicit(&live->state, memory_order_relaxed) == WAITING;
}

bool gm_agent_preloaded(void)
{
	return agent.preloaded;
}

bool gm_agent_may_record(unsigned feature)
{
	return atomic_load_explicit(&live->state, memory_order_relaxed) != OFF &&
	       gm_agent_records(feature);
}

bool gm_agent_records(unsigned feature)
{
	return (agent.features & feature) != 0;
}

char *gm_agent_without_controls(char *line, size_t length)
{
	for (size_t i = 0; i + 1 < length && line[i]; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
	return line;
}

/* The one line. */
static void tell(const char *what, const char *why)
{
	char line[PATH_MAX + 256];
	int length = snprintf(
	        line, sizeof(line), "gpumem: %s: %s: the program runs unrecorded\n", what, why);
	if (length > 0 && agent.tell) {
		gm_agent_without_controls(line, (size_t)length);
		ssize_t ignored = write(STDERR_FILENO, line, (size_t)length);
		(void)ignored;
	}
}

/* ---- the file's name -------------------------------------------------------------------------------------- */

static uint32_t rank(void)
{
	const char *text = getenv("RANK");
	char *end;
	if (!text || *text < '0' || *text > '9')
		return UINT32_MAX;
	unsigned long value = strtoul(text, &end, 10);
	return *end || value >= UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* `out` with %p and %r filled in; whether it had a %p. */
static bool expand(const char *out, char *ret, size_t size)
{
	bool has_pid = false;
	size_t used = 0;
	for (const char *at = out; *at && used + 16 < size; at++) {
		if (at[0] == '%' && at[1] == 'p') {
			used += (size_t)sprintf(ret + used, "%u", agent.pid);
			has_pid = true;
			at++;
		} else if (at[0] == '%' && at[1] == 'r') {
			used += (size_t)sprintf(
			        ret + used, "%u", rank() == UINT32_MAX ? 0 : rank());
			at++;
		} else {
			ret[used++] = *at;
		}
	}
	ret[used] = 0;
	return has_pid;
}

/* A file of an earlier process stays: PATH, PATH.PID, PATH.PID.2 ... */
static const char *open_spool(void)
{
	char out[PATH_MAX], name[PATH_MAX], full[PATH_MAX * 2 + 2];
	gm_agent_setting("out", out, sizeof(out));
	if (!*out)
		return "no file was named";
	bool has_pid = expand(out, name, sizeof(name));
	if (name[0] == '/')
		snprintf(full, sizeof(full), "%s", name);
	else
		snprintf(full, sizeof(full), "%s/%s", agent.folder, name);
	if (strlen(full) + 24 >= sizeof(agent.path))
		return "its path is too long";
	const char *why = NULL;
	if (gm_agent_is_old(full)) {
		snprintf(agent.path, sizeof(agent.path), "%s.%u", full, agent.pid);
		why = gm_agent_spool_open(agent.path);
		if (!why && gm_agent_replace(agent.path, full)) {
			strcpy(agent.path, full);
			gm_agent_spool_renamed(full);
		}
		if (!why || access(agent.path, F_OK) != 0)
			return why;
	}
	for (int try = 0; try < 1000; try++) {
		if (try == 0)
			strcpy(agent.path, full);
		else if (try == 1 && !has_pid)
			snprintf(agent.path, sizeof(agent.path), "%s.%u", full, agent.pid);
		else if (has_pid)
			snprintf(agent.path, sizeof(agent.path), "%s.%d", full, try + 1);
		else
			snprintf(agent.path, sizeof(agent.path), "%s.%u.%d", full, agent.pid, try);
		why = gm_agent_spool_open(agent.path);
		if (!why || access(agent.path, F_OK) != 0)
			return why;
	}
	return why;
}

/* What a user would have typed. */
static void read_command(char *ret, size_t size)
{
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t count = fd >= 0 ? read(fd, ret, size - 1) : 0;
	if (fd >= 0)
		close(fd);
	if (count < 0)
		count = 0;
	while (count > 0 && ret[count - 1] == 0)
		count--;
	for (ssize_t i = 0; i < count; i++)
		if (!ret[i])
			ret[i] = ' ';
	ret[count] = 0;
}

/* Else the kernel would end the program with SIGXFSZ. */
static bool may_grow(int fd, size_t more)
{
	struct rlimit limit;
	struct stat about;
	return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
	       (fstat(fd, &about) == 0 && (uint64_t)about.st_size + more <= limit.rlim_cur);
}

/* For whoever started the program: this process has the agent, or (path) it records in a file. */
static void enlist(const char *path)
{
	char list[PATH_MAX], line[PATH_MAX + 32];
	gm_agent_setting("list", list, sizeof(list));
	int fd = *list ? open(list, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	int length = snprintf(
	        line, sizeof(line), "%u%s%s\n", (uint32_t)getpid(), *path ? " " : "", path);
	if (may_grow(fd, (size_t)length))
		(void)!write(fd, line, (size_t)length);
	close(fd);
}

/* ---- beginning --------------------------------------------------------------------------------------------- */

static void put_gap(const char *text)
{
	uint8_t payload[GAP_TEXT + 8], *at = payload;
	size_t length = strnlen(text, GAP_TEXT);
	at = gm_agent_varint(at, length);
	memcpy(at, text, length);
	gm_agent_put(GM_AGENT_GAP, 0, payload, (size_t)(at - payload) + length);
}

/* The library was loaded later than the program's: nothing of it stands before theirs. */
static void patch_all(void)
{
	gm_agent_patch(gm_agent_c10_hooks);
	gm_agent_patch(gm_agent_runtime_hooks);
	gm_agent_patch(gm_agent_tensor_hooks);
	gm_agent_patch(gm_agent_memory_hooks);
	gm_agent_patch(gm_agent_cupti_hooks);
	gm_agent_driver_api_patch(gm_agent_memory_hooks);
}

/* In a program that runs already. Threads that allocate meanwhile wait until this is done. */
static void begin_late(void)
{
	char existing[8];
	gm_agent_setting("existing", existing, sizeof(existing));
	if (!agent.preloaded)
		patch_all();
	if (strcmp(existing, "1") == 0)
		gm_agent_existing();
	else if (*existing)
		gm_agent_gap(
		        "recording began late: what was allocated before is not in the record");
	agent.attached = false;
}

/* This process's file. False: it cannot record, and has said so. */
static bool begin(void)
{
	const struct gm_agent_file_header *before = gm_agent_spool_header();
	uint32_t parent = 0;
	uint64_t parent_id = 0;
	uint32_t pid = (uint32_t)getpid();
	if (before && agent.pid && agent.pid != pid) {
		/* forked: the parent's header is not mapped here, so its id was kept */
		parent = agent.pid;
		parent_id = gm_agent_kept_id();
		gm_agent_spool_forget();
	}
	agent.pid = pid;
	self.thread = 0;
	atomic_store(&agent.told_count, 0);
	gm_agent_blocks_begin();
	char text[64];
	gm_agent_setting("frames", text, sizeof(text));
	const struct gm_stacks_options stacks = {
	        .python = gm_agent_records(GM_AGENT_PYTHON),
	        .native = gm_agent_records(GM_AGENT_NATIVE),
	        .max_frames = (uint32_t)strtoul(text, NULL, 10),
	};
	const char *why = open_spool();
	if (why) {
		tell(agent.path, why);
		return false;
	}
	struct gm_agent_file_header *header = gm_agent_spool_header();
	header->parent = parent;
	header->parent_id = parent_id;
	header->rank = rank();
	header->features = agent.features;
	read_command(header->command, sizeof(header->command));
	gm_agent_keep_id(header->id);
	gm_agent_events_begin();
	enlist(agent.path);
	if (!gm_stacks_start(&stacks))
		put_gap("no stacks: no memory for them");
	gm_agent_tensors_begin();
	for (uint32_t i = 0; i < agent.early_count; i++)
		put_gap(agent.early[i]);
	if (agent.attached && !parent)
		begin_late();
	return true;
}

/* Another state than RECORDS: begins where that is due. True: it records now. */
static bool wake(void)
{
	uint32_t state = WAITING;
	if (atomic_load(&live->state) == OFF)
		return false;
	if (atomic_compare_exchange_strong(&live->state, &state, BEGINS)) {
		int error = errno;
		self.inside = true;
		bool good = begin();
		self.inside = false;
		errno = error;
		atomic_store(&live->state, good ? RECORDS : OFF);
		if (good) {
			gm_agent_torch_marks_look();
			gm_agent_ranges_kept();
		}
	}
	while (atomic_load(&live->state) == BEGINS)
		sched_yield();
	return atomic_load(&live->state) == RECORDS;
}

bool gm_agent_enter(void)
{
	if (self.inside)
		return false;
	if (atomic_load_explicit(&live->state, memory_order_acquire) != RECORDS && !wake())
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

void gm_agent_gap(const char *text)
{
	uint64_t hash = 14695981039346656037u;
	for (const char *at = text; *at; at++)
		hash = (hash ^ (uint8_t)*at) * 1099511628211u;
	uint32_t count = atomic_load(&agent.told_count);
	for (uint32_t i = 0; i < count && i < GAPS_MAX; i++)
		if (agent.told[i] == hash)
			return;
	count = atomic_fetch_add(&agent.told_count, 1);
	if (count >= GAPS_MAX)
		return;
	agent.told[count] = hash;
	if (atomic_load(&live->state) == WAITING) {
		if (agent.early_count < sizeof(agent.early) / sizeof(agent.early[0]))
			snprintf(agent.early[agent.early_count++], GAP_TEXT, "%s", text);
		return;
	}
	bool entered = gm_agent_enter();
	if (entered || self.inside)
		put_gap(text);
	if (entered)
		gm_agent_leave();
}

static bool map_live(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return false;
	if (madvise(page, 4096, MADV_WIPEONFORK) != 0) { /* Linux before 4.14 */
		munmap(page, 4096);
		return false;
	}
	live = page;
	return true;
}

static bool configure(const char *settings)
{
	agent.tell = true;
	if (strlen(settings) >= sizeof(agent.settings)) {
		tell("recording", "its settings are too long");
		return false;
	}
	strcpy(agent.settings, settings);
	agent.features = (gm_agent_setting_has("devices", "cuda") ? GM_AGENT_CUDA : 0) |
	                 (gm_agent_setting_has("devices", "cpu") ? GM_AGENT_CPU : 0) |
	                 (gm_agent_setting_has("stacks", "python") ? GM_AGENT_PYTHON : 0) |
	                 (gm_agent_setting_has("stacks", "native") ? GM_AGENT_NATIVE : 0);
	if (!getcwd(agent.folder, sizeof(agent.folder)))
		strcpy(agent.folder, "/tmp");
	if (live == &off_page && !map_live()) {
		tell("recording", "no memory, or a kernel before 4.14");
		return false;
	}
	return true;
}

/* All but the beginning itself: two threads may do that, and one of them waits. */
static int prepare(const char *settings)
{
	if (atomic_load(&live->state) !=
	        OFF) /* or it will at its first event, where `gpumem run` wants it */
		return 1;
	if (!configure(settings))
		return 2;
	agent.attached = true;
	atomic_store(&live->state, WAITING);
	return 0;
}

int gpumem_agent_start(const char *settings)
{
	if (!gm_agent_clock_allowed())
		return 3;
	if (!gm_agent_change_begin())
		return 2;
	int result = prepare(settings);
	gm_agent_change_end();
	if (result)
		return result;
	if (!wake())
		return 2;
	gm_agent_cupti_look();
	gm_agent_torch_marks_look();
	return 0;
}

void gm_agent_injected(const char *settings)
{
	if (atomic_load(&live->state) != OFF || agent.pid || !configure(settings))
		return;
	patch_all();
	enlist("");
	atomic_store(&live->state, WAITING);
	gm_agent_torch_marks_look();
}

static int end(void)
{
	uint32_t state = RECORDS, waiting = WAITING;
	if (!atomic_compare_exchange_strong(&live->state, &state, OFF))
		/* preloaded, and nothing was allocated yet: it shall not begin then either */
		return atomic_compare_exchange_strong(&live->state, &waiting, OFF) ? 0 : 1;
	gm_agent_cupti_end();
	gm_agent_torch_marks_end();
	gm_agent_driver_api_undo();
	gm_agent_patch_undo();
	gm_agent_spool_close(GM_AGENT_STOPPED);
	return 0;
}

int gpumem_agent_stop(void)
{
	if (!gm_agent_change_begin())
		return 1;
	int result = end();
	gm_agent_change_end();
	return result;
}

const char *gpumem_agent_path(void)
{
	return atomic_load(&live->state) == RECORDS ? agent.path : "";
}

__attribute__((constructor)) static void on_load(void)
{
	const char *settings = getenv("GPUMEM_AGENT"), *preload = getenv("LD_PRELOAD");
	agent.preloaded = settings && preload && strstr(preload, "libgpumem-agent.so");
	if (!agent.preloaded || !configure(settings))
		return;
	gm_agent_hooks_preloaded();
	gm_agent_patch(gm_agent_memory_hooks);
	gm_agent_patch(gm_agent_cupti_hooks);
	enlist("");
	atomic_store(&live->state, WAITING);
	gm_agent_cupti_look();
}

__attribute__((destructor)) static void on_exit_of_program(void)
{
	if (atomic_load(&live->state) == RECORDS)
		gm_agent_spool_close(GM_AGENT_EXITED);
}
