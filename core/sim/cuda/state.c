/* The devices of the process, when they come to be, fork, and the account at exit. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "sim/cuda/sim.h"

GM_SIM_EXPORT struct gm_sim_account gpumem_sim_account = {
        .magic = GM_SIM_ACCOUNT_MAGIC,
        .version = GM_SIM_ACCOUNT_VERSION,
        .bytes = sizeof(struct gm_sim_account),
};

static struct gm_sim_device devices[GM_SIM_DEVICES_MAX];
static unsigned device_count;
static struct gm_sim_choice machine_choice;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mapping_lock = PTHREAD_MUTEX_INITIALIZER;
static bool forked;
static _Thread_local int current;

void gm_sim_say(const char *format, ...)
{
	const char *quiet = getenv("GPUMEM_SIM_QUIET");
	if (quiet && *quiet && strcmp(quiet, "0") != 0)
		return;
	/* One write: the lines of several processes and threads stay whole. */
	char line[1024];
	int at = snprintf(line, sizeof(line), "gpumem sim: ");
	va_list arguments;
	va_start(arguments, format);
	int more = vsnprintf(line + at, sizeof(line) - (size_t)at - 1, format, arguments);
	va_end(arguments);
	if (more < 0)
		return;
	size_t length = (size_t)at + (size_t)more;
	if (length > sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	ssize_t ignored = write(STDERR_FILENO, line, length);
	(void)ignored;
}

static void before_fork(void)
{
	gm_sim_host_lock(true);
	gm_sim_kernel_lock(true);
	gm_sim_vmm_lock(true);
	gm_sim_graph_lock(true);
	gm_sim_managed_lock(true);
	gm_sim_pool_lock(true);
	gm_sim_ipc_lock(true);
	gm_sim_foreign_lock(true);
	gm_sim_work_lock(true);
}

static void in_parent(void)
{
	gm_sim_work_lock(false);
	gm_sim_foreign_lock(false);
	gm_sim_ipc_lock(false);
	gm_sim_pool_lock(false);
	gm_sim_managed_lock(false);
	gm_sim_graph_lock(false);
	gm_sim_vmm_lock(false);
	gm_sim_kernel_lock(false);
	gm_sim_host_lock(false);
}

static void in_child(void)
{
	in_parent();
	/* A forked child has the account and the handles of its parent but not its memory
	 * (MADV_DONTFORK). */
	forked = true;
	device_count = 0;
}

/* The device that an entry of CUDA_VISIBLE_DEVICES names: a number, or GPU- and the start of one
 * UUID; -1: none. */
static int named(const char *at, size_t length)
{
	int found = -1;
	if (length > 4 && memcmp(at, "GPU-", 4) == 0) {
		for (unsigned i = 0; i < machine_choice.count; i++) {
			char uuid[GM_SIM_UUID_TEXT];
			gm_sim_uuid_text(&machine_choice.profile, i, uuid);
			if (length < sizeof(uuid) && memcmp(uuid, at, length) == 0) {
				if (found >= 0)
					return -1; /* of several */
				found = (int)i;
			}
		}
		return found;
	}
	char *end;
	long number = strtol(at, &end, 10);
	return end == at + length && length && number >= 0 && number < (long)machine_choice.count
	               ? (int)number
	               : -1;
}

/* CUDA_VISIBLE_DEVICES: which of `count` devices its list leaves; it ends before the first that is
 * none. */
static unsigned visible(unsigned count, uint32_t *ret)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	unsigned seen = 0;
	for (; !list && seen < count; seen++)
		ret[seen] = seen;
	if (!list)
		return count;
	for (const char *at = list; *at && seen < count;) {
		size_t length = strcspn(at, ",");
		int device = named(at, length);
		if (device < 0)
			break;
		ret[seen++] = (uint32_t)device;
		at += length + (at[length] == ',');
	}
	return seen;
}

static void start(void)
{
	struct gm_sim_choice choice;
	struct gm_error *error = gm_sim_profile_parse(getenv("GPUMEM_SIM"), &choice);
	if (error) {
		gm_sim_say("%s", error->message);
		gm_error_destroy(error);
		return;
	}
	const char *context = getenv("GPUMEM_SIM_CONTEXT");
	if (context && *context) {
		char *end;
		errno = 0;
		unsigned long long mib = strtoull(context, &end, 10);
		if (errno || *end || mib > choice.profile.memory / 2 >> 20)
			gm_sim_say("GPUMEM_SIM_CONTEXT='%.32s': not a number of MiB of at most "
			           "half of the device: "
			           "using %" PRIu64,
			        context, choice.profile.context >> 20);
		else
			choice.profile.context = (uint64_t)mib << 20;
	}
	machine_choice = choice;
	uint32_t physical[GM_SIM_DEVICES_MAX] = {0};
	device_count = visible(choice.count, physical);
	for (unsigned i = 0; i < device_count; i++) {
		struct gm_sim_device *device = &devices[i];
		device->index = i;
		device->physical = gpumem_sim_account.physical[i] = physical[i];
		device->choice = choice;
		device->memory = device->marks = -1;
		device->account = &gpumem_sim_account.device[i];
		pthread_mutex_init(&device->lock, NULL);
		gm_sim_ranges_init(&device->ranges);
		snprintf(device->account->profile, sizeof(device->account->profile), "%s",
		        choice.spec);
		snprintf(device->account->name, sizeof(device->account->name), "%s",
		        choice.profile.device_name);
		device->account->total = choice.profile.memory;
		device->account->context = choice.profile.context;
	}
	gpumem_sim_account.devices = device_count;
	gm_sim_share_start();
}

/*
 * As the driver does at its first call: the library that CUDA_INJECTION64_PATH names is loaded and
 * asked to begin (CUPTI's documentation, "CUPTI Initialization"). One that is not there is passed
 * over in silence. What it calls of CUDA in turn finds the devices there.
 */
static void inject(void)
{
	static _Atomic bool begun;
	const char *path = getenv("CUDA_INJECTION64_PATH");
	if (begun || !path || !*path || atomic_exchange(&begun, true))
		return;
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *found = library ? dlsym(library, "InitializeInjection") : NULL;
	int (*function)(void);
	memcpy(&function, &found, sizeof(function));
	if (function)
		function();
}

unsigned gm_sim_device_count(void)
{
	pthread_once(&once, start);
	inject();
	return device_count;
}

const struct gm_sim_choice *gm_sim_machine_choice(void)
{
	pthread_once(&once, start);
	return &machine_choice;
}

bool gm_sim_forked(void)
{
	return forked;
}

struct gm_sim_device *gm_sim_device_facts(int index)
{
	unsigned count = gm_sim_device_count();
	return index >= 0 && (unsigned)index < count ? &devices[index] : NULL;
}

/*
 * The device's memory: a memfd of its own, so that the mappings and a core's file note name it,
 * left out of cores and of forked children. Addresses are the same from run to run where they are
 * free.
 */
static bool map(struct gm_sim_device *device)
{
	uint64_t total = device->choice.profile.memory;
	uint64_t span = (total * 2 + GM_SIM_PAGE - 1) & ~(uint64_t)(GM_SIM_PAGE - 1);
	/* A doubled name would hide which of several devices it is; the maps show the order
	 * anyhow. */
	device->memory = memfd_create("gpumem-sim-device", MFD_CLOEXEC);
	if (device->memory < 0 || ftruncate(device->memory, (off_t)span) != 0)
		return false;
	uintptr_t wish = UINT64_C(0x6d0000000000) + ((uintptr_t)device->index << 40);
	void *base = mmap((void *)wish, span, PROT_READ | PROT_WRITE,
	        MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, device->memory, 0);
	if (base == MAP_FAILED) {
		/* Taken: anywhere, on a page's border. */
		unsigned char *room = mmap(NULL, span + GM_SIM_PAGE, PROT_NONE,
		        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (room == MAP_FAILED)
			return false;
		uintptr_t aligned =
		        ((uintptr_t)room + GM_SIM_PAGE - 1) & ~(uintptr_t)(GM_SIM_PAGE - 1);
		base = mmap((void *)aligned, span, PROT_READ | PROT_WRITE,
		        MAP_SHARED | MAP_NORESERVE | MAP_FIXED, device->memory, 0);
		if (base == MAP_FAILED)
			return false;
	}
	madvise(base, span, MADV_DONTDUMP);
	madvise(base, span, MADV_DONTFORK);
	/* A file too: another process that reads this memory (foreign.c) must know what was
	 * written. */
	device->marks = memfd_create("gpumem-sim-device-marks", MFD_CLOEXEC);
	struct stat status;
	if (device->marks < 0 || fstat(device->memory, &status) != 0 ||
	        ftruncate(device->marks, (off_t)gm_sim_marks_size(span)) != 0 ||
	        !gm_sim_map_marks(device, span))
		return false;
	if (!gm_sim_share_set(device, device->account->context, true)) {
		errno = ENOMEM;
		return false;
	}
	device->inode = status.st_ino;
	device->base = base;
	device->span = span;
	device->account->address = (uintptr_t)base;
	device->account->span = span;
	if (!gpumem_sim_account.process) {
		gpumem_sim_account.process = (uint32_t)getpid();
		pthread_atfork(before_fork, in_parent, in_child);
	}
	return true;
}

struct gm_sim_device *gm_sim_device(int index)
{
	struct gm_sim_device *device = gm_sim_device_facts(index);
	if (!device)
		return NULL;
	if (!atomic_load_explicit(&device->ready, memory_order_acquire)) {
		if (atomic_load(&device->failed))
			return NULL;
		pthread_mutex_lock(&mapping_lock);
		if (!device->ready && !device->failed) {
			if (map(device)) {
				atomic_store_explicit(&device->ready, true, memory_order_release);
			} else {
				gm_sim_say(
				        "device %d: cannot map %" PRIu64
				        " bytes of address space: %s: check `ulimit -v` or take a "
				        "smaller device",
				        index, device->choice.profile.memory * 2, strerror(errno));
				atomic_store(&device->failed, true);
			}
		}
		pthread_mutex_unlock(&mapping_lock);
		if (!device->ready)
			return NULL;
	}
	if (!device->active)
		device->active = true;
	return device;
}

struct gm_sim_device *gm_sim_device_of(const void *address)
{
	for (unsigned i = 0; i < device_count; i++) {
		struct gm_sim_device *device = &devices[i];
		if (atomic_load_explicit(&device->ready, memory_order_acquire) &&
		        (uintptr_t)address - (uintptr_t)device->base < device->span)
			return device;
	}
	struct gm_sim_view view;
	if (gm_sim_vmm_find(address, &view))
		return view.device;
	return gm_sim_foreign_of(address);
}

int gm_sim_current_index(void)
{
	return current;
}

void gm_sim_set_current_index(int index)
{
	current = index;
}

struct gm_sim_device *gm_sim_current(void)
{
	return gm_sim_device(current);
}

static const char *amount(uint64_t bytes, char *text, size_t size)
{
	if (bytes >= UINT64_C(1) << 30)
		snprintf(text, size, "%.2f GiB", (double)bytes / (1 << 30));
	else if (bytes >= 1 << 20)
		snprintf(text, size, "%.1f MiB", (double)bytes / (1 << 20));
	else
		snprintf(text, size, "%" PRIu64 " B", bytes);
	return text;
}

static void account_text(const struct gm_sim_device_account *d, unsigned index)
{
	char reserved[32], allocated[32], total[32];
	gm_sim_say("cuda:%u %s (%s, %s): peak reserved %s (%" PRIu64
	           "), peak allocated %s (%" PRIu64 "), out-of-memory errors %" PRIu64,
	        index, d->name, d->profile, amount(d->total, total, sizeof(total)),
	        amount(d->peak_used, reserved, sizeof(reserved)), d->peak_used,
	        amount(d->torch_peak_allocated, allocated, sizeof(allocated)),
	        d->torch_peak_allocated, d->torch_out_of_memory);
}

/* A kernel's name in JSON: mangled names have no character to escape; another's are replaced. */
static void put_name(FILE *file, const char *name)
{
	for (; *name; name++)
		fputc(*name >= 0x20 && *name < 0x7f && *name != '"' && *name != '\\' ? *name : '?',
		        file);
}

struct listing {
	FILE *file;
	bool any, computed;
};

static void put_kernel(const struct gm_sim_kernel *kernel, void *data)
{
	struct listing *listing = data;
	uint64_t count = listing->computed ? kernel->computed : kernel->launches;
	if (!count)
		return;
	fputs(listing->any ? ",\"" : "\"", listing->file);
	put_name(listing->file, kernel->name);
	fprintf(listing->file, "\":%" PRIu64, count);
	listing->any = true;
}

/* The name may lie in a folder that others write to as well: a link is followed only where it is
 * root's or our own. */
static int open_account(const char *path)
{
	struct stat link;
	bool followed = lstat(path, &link) == 0 && S_ISLNK(link.st_mode) &&
	                (link.st_uid == 0 || link.st_uid == geteuid());
	int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY;
	return open(path, flags | (followed ? 0 : O_NOFOLLOW), 0666);
}

/* One object on one line, appended: each process that used the device has its own line. */
static void account_json(const char *path)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	if (!file)
		return;
	const struct gm_sim_account *a = &gpumem_sim_account;
	fprintf(file, "{\"process\":%u,\"devices\":[", a->process);
	for (unsigned i = 0; i < a->devices; i++) {
		const struct gm_sim_device_account *d = &a->device[i];
		fprintf(file,
		        "%s{\"device\":%u,\"profile\":\"%s\",\"name\":\"%s\",\"total\":%" PRIu64
		        ",\"context\":%" PRIu64 ",\"reserved\":%" PRIu64
		        ",\"peak_reserved\":%" PRIu64 ",\"allocated\":%" PRIu64
		        ",\"peak_allocated\":%" PRIu64 ",\"out_of_memory\":%" PRIu64
		        ",\"refused\":%" PRIu64 "}",
		        i ? "," : "", i, d->profile, d->name, d->total, d->context, d->used,
		        d->peak_used, d->torch_allocated, d->torch_peak_allocated,
		        d->torch_out_of_memory, d->out_of_memory);
	}
	fprintf(file,
	        "],\"launches\":%" PRIu64 ",\"kernels_not_computed\":%" PRIu64
	        ",\"library_calls_not_computed\":%" PRIu64 ",\"calls_not_simulated\":%" PRIu64
	        ",\"read_back_not_computed\":%" PRIu64 ",\"kernels\":{",
	        a->launches, a->not_computed, a->library_not_computed, a->not_simulated,
	        a->read_back);
	struct listing listing = {.file = file};
	gm_sim_kernel_each(put_kernel, &listing);
	fputs("},\"computed\":{", file);
	listing = (struct listing){.file = file, .computed = true};
	gm_sim_kernel_each(put_kernel, &listing);
	fputs("}}\n", file);
	fclose(file);
	if (!text)
		return;
	int out = open_account(path);
	if (out < 0 || write(out, text, size) != (ssize_t)size)
		gm_sim_say("%s: cannot write the account: %s", path, strerror(errno));
	if (out >= 0)
		close(out);
	free(text);
}

__attribute__((destructor)) static void finish(void)
{
	const struct gm_sim_account *a = &gpumem_sim_account;
	if (!a->process)
		gm_sim_say_no_cuda();
	if (!a->process || a->process != (uint32_t)getpid())
		return;
	for (unsigned i = 0; i < a->devices; i++)
		if (a->device[i].address)
			account_text(&a->device[i], i);
	if (a->not_computed || a->library_not_computed || a->not_simulated)
		gm_sim_say("not computed: %" PRIu64 " of %" PRIu64 " kernel launches, %" PRIu64
		           " library calls; not simulated: %" PRIu64 " calls",
		        a->not_computed, a->launches, a->library_not_computed, a->not_simulated);
	const char *json = getenv("GPUMEM_SIM_JSON");
	if (json && *json)
		account_json(json);
}
