/* A process that used a device forks or ends: in the child no lock is held, and the counters are
 * written at the end. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/size.h"
#include "sim/cuda/sim.h"

/* --- fork ------------------------------------------------------------------------------------- */

/* In the order in which calls take them: a pool takes memory of its device with its lock held, and
 * for that managed memory may be moved. */
static void before_fork(void)
{
	gm_sim_host_lock(true);
	gm_sim_kernel_lock(true);
	gm_sim_vmm_lock(true);
	gm_sim_graph_lock(true);
	gm_sim_capture_lock(true);
	gm_sim_pool_lock(true);
	gm_sim_managed_lock(true);
	gm_sim_ipc_lock(true);
	gm_sim_foreign_lock(true);
	gm_sim_work_lock(true);
}

static void in_parent(void)
{
	gm_sim_work_lock(false);
	gm_sim_foreign_lock(false);
	gm_sim_ipc_lock(false);
	gm_sim_managed_lock(false);
	gm_sim_pool_lock(false);
	gm_sim_capture_lock(false);
	gm_sim_graph_lock(false);
	gm_sim_vmm_lock(false);
	gm_sim_kernel_lock(false);
	gm_sim_host_lock(false);
}

static void in_child(void)
{
	in_parent();
	/* A forked child has its parent's counters and handles, but not its memory (MADV_DONTFORK).
	 * */
	gm_sim_set_forked();
	gm_sim_state_forget();
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, in_parent, in_child);
}

/* Called at the first memory of a device. */
__attribute__((constructor)) static void begin(void)
{
	gm_sim_state_on_first(watch_forks);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void account_text(const struct gm_sim_device_account *d, unsigned index)
{
	char reserved[GM_SIZE_TEXT], allocated[GM_SIZE_TEXT], total[GM_SIZE_TEXT];
	char reserved_bytes[GM_SIZE_GROUPED], allocated_bytes[GM_SIZE_GROUPED];
	gm_sim_say(
	        "cuda:%u %s (%s, %s): peak reserved %s (%s bytes), peak allocated %s (%s bytes), "
	        "out-of-memory errors %" PRIu64,
	        index, d->name, d->profile, gm_text_size(d->total, total),
	        gm_text_size(d->peak_used, reserved), gm_text_grouped(d->peak_used, reserved_bytes),
	        gm_text_size(d->torch_peak_allocated, allocated),
	        gm_text_grouped(d->torch_peak_allocated, allocated_bytes), d->torch_out_of_memory);
}

/* A kernel's name in JSON: mangled names have no character that must be escaped; in other names
 * they are replaced. */
static void put_name(FILE *file, const char *name)
{
	for (; *name; name++)
		fputc(*name >= 0x20 && *name < 0x7f && *name != '"' && *name != '\\' ? *name : '?',
		        file);
}

struct named {
	const char *name;
	uint64_t count;
};

struct listing {
	struct named *items;
	size_t count, capacity;
	bool computed;
};

static void list_kernel(const struct gm_sim_kernel *kernel, void *data)
{
	struct listing *listing = data;
	uint64_t count = listing->computed ? kernel->computed : kernel->launches;
	if (!count)
		return;
	if (listing->count == listing->capacity) {
		size_t capacity = listing->capacity ? listing->capacity * 2 : 64;
		struct named *items = reallocarray(listing->items, capacity, sizeof(*items));
		if (!items)
			return;
		listing->items = items;
		listing->capacity = capacity;
	}
	listing->items[listing->count++] = (struct named){kernel->name, count};
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

/* Kernels of several modules may have one name, and an object has each name once. */
static void put_kernels(FILE *file, bool computed)
{
	struct listing listing = {.computed = computed};
	gm_sim_kernel_each(list_kernel, &listing);
	if (listing.count)
		qsort(listing.items, listing.count, sizeof(*listing.items), by_name);
	for (size_t i = 0; i < listing.count;) {
		const struct named *first = &listing.items[i];
		uint64_t sum = 0;
		for (; i < listing.count && by_name(first, &listing.items[i]) == 0; i++)
			sum += listing.items[i].count;
		fputs(first == listing.items ? "\"" : ",\"", file);
		put_name(file, first->name);
		fprintf(file, "\":%" PRIu64, sum);
	}
	free(listing.items);
}

/* The file may be in a folder that others write to as well: a link is followed only if it belongs
 * to root or to us. */
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
	put_kernels(file, false);
	fputs("},\"computed\":{", file);
	put_kernels(file, true);
	fputs("}}\n", file);
	fclose(file);
	if (!text)
		return;
	int out = open_account(path);
	if (out < 0 || write(out, text, size) != (ssize_t)size)
		gm_sim_say("%s: cannot write the summary of its memory: %s", path, strerror(errno));
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
