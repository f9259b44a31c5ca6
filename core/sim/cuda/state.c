/* The devices of the process, and when they are created. */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/size.h"
#include "sim/cuda/sim.h"

static struct gm_sim_device devices[GM_SIM_DEVICES_MAX];
static unsigned device_count;
static struct gm_sim_choice machine_choice;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mapping_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*on_first)(void);
static _Thread_local int current;

/* The device that an entry of CUDA_VISIBLE_DEVICES names: a number, or GPU- and the beginning of
 * exactly one UUID; -1: none. */
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

/* CUDA_VISIBLE_DEVICES: which of `count` devices remain; the list ends before the first invalid
 * entry. */
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
		else {
			choice.profile.context = (uint64_t)mib << 20;
			choice.profile.loads = NULL; /* the run says what is taken in all */
		}
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
 * As the driver does at its first call: loads the library that CUDA_INJECTION64_PATH names and
 * calls its initialization (CUPTI's documentation, "CUPTI Initialization"). A missing library is
 * ignored without a message. If the library calls CUDA, it finds the devices.
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
	/* An address that appears twice would not show which device it belongs to; the maps show
	 * the order anyway. */
	device->memory = memfd_create("gpumem-sim-device", MFD_CLOEXEC);
	if (device->memory < 0 || ftruncate(device->memory, (off_t)span) != 0)
		return false;
	uintptr_t wish = UINT64_C(0x6d0000000000) + ((uintptr_t)device->index << 40);
	void *base = mmap((void *)wish, span, PROT_READ | PROT_WRITE,
	        MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, device->memory, 0);
	if (base == MAP_FAILED) {
		/* Not free: anywhere, aligned to a page. */
		unsigned char *reserved = mmap(NULL, span + GM_SIM_PAGE, PROT_NONE,
		        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (reserved == MAP_FAILED)
			return false;
		uintptr_t aligned =
		        ((uintptr_t)reserved + GM_SIM_PAGE - 1) & ~(uintptr_t)(GM_SIM_PAGE - 1);
		base = mmap((void *)aligned, span, PROT_READ | PROT_WRITE,
		        MAP_SHARED | MAP_NORESERVE | MAP_FIXED, device->memory, 0);
		if (base == MAP_FAILED)
			return false;
	}
	madvise(base, span, MADV_DONTDUMP);
	madvise(base, span, MADV_DONTFORK);
	/* A file too: another process that reads this memory (foreign.c) must know which bytes were
	 * written. */
	device->marks = memfd_create("gpumem-sim-device-marks", MFD_CLOEXEC);
	struct stat status;
	if (device->marks < 0 || fstat(device->memory, &status) != 0 ||
	        ftruncate(device->marks, (off_t)gm_sim_marks_size(span)) != 0 ||
	        !gm_sim_map_marks(device, span))
		return false;
	device->inode = status.st_ino;
	device->base = base;
	device->span = span;
	device->account->address = (uintptr_t)base;
	device->account->span = span;
	if (!gpumem_sim_account.process) {
		gpumem_sim_account.process = (uint32_t)getpid();
		if (on_first)
			on_first();
	}
	return true;
}

/* The context takes its part of the device. The run's other processes may have left no room: that
 * can change, so each call tries again. */
static bool take_context(const struct gm_sim_device *device)
{
	static _Atomic bool said;
	if (gm_sim_share_set(device, device->account->context, true))
		return true;
	char others[GM_SIZE_TEXT], total[GM_SIZE_TEXT];
	if (!atomic_exchange(&said, true))
		gm_sim_say("device %u: no room for the context: other processes of the run hold "
		           "%s of %s",
		        device->index, gm_text_size(gm_sim_share_others(device), others),
		        gm_text_size(device->choice.profile.memory, total));
	return false;
}

static void make(struct gm_sim_device *device)
{
	if (!take_context(device))
		return;
	if (map(device)) {
		atomic_store_explicit(&device->ready, true, memory_order_release);
		return;
	}
	gm_sim_say("device %u: cannot map %" PRIu64
	           " bytes of address space: %s: check `ulimit -v` or take a smaller device",
	        device->index, device->choice.profile.memory * 2, strerror(errno));
	gm_sim_share_set(device, 0, false);
	atomic_store(&device->failed, true);
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
		if (!device->ready && !device->failed)
			make(device);
		pthread_mutex_unlock(&mapping_lock);
		if (!device->ready)
			return NULL;
	}
	if (!device->active)
		device->active = true;
	return device;
}

struct gm_sim_device *gm_sim_device_mapped(const void *address)
{
	for (unsigned i = 0; i < device_count; i++) {
		struct gm_sim_device *device = &devices[i];
		if (atomic_load_explicit(&device->ready, memory_order_acquire) &&
		        (uintptr_t)address - (uintptr_t)device->base < device->span)
			return device;
	}
	return NULL;
}

void gm_sim_state_on_first(void (*function)(void))
{
	on_first = function;
}

void gm_sim_state_forget(void)
{
	device_count = 0;
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

void gm_sim_share_each(uint32_t physical, void (*visit)(uint32_t, uint64_t, void *), void *data)
{
	gm_sim_machine_choice(); /* finds the page */
	if (gm_sim_share_visit(physical, visit, data))
		return;
	/* No other processes: this process's memory, if it has a context. */
	for (unsigned i = 0; i < gm_sim_device_count(); i++) {
		struct gm_sim_device *device = gm_sim_device_facts((int)i);
		const struct gm_sim_device_account *account = device->account;
		if (device->physical != physical || !device->ready)
			continue;
		pthread_mutex_lock(&device->lock);
		uint64_t bytes = account->context + account->used + device->outside;
		pthread_mutex_unlock(&device->lock);
		visit((uint32_t)getpid(), bytes, data);
	}
}

bool gm_sim_share_first(void)
{
	gm_sim_machine_choice(); /* finds the page */
	return gm_sim_share_say();
}
