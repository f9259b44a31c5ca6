/*
 * Work that is not done when its call returns: collectives, which wait for other processes
 * (sim/nccl).
 *
 * All other work of the simulated device is done at once, so streams and events need no queue, only
 * a list of their unfinished collectives. Later work on the stream that touches bytes waits for
 * them (gm_sim_stream_finish). An event records them, so that a program, and PyTorch's watchdog of
 * collectives, can ask whether they are done. If there is no unfinished collective, this costs one
 * load.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/work.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct gm_sim_work *outstanding; /* a list of unfinished ones */
_Atomic unsigned gm_sim_outstanding;

void gm_sim_work_lock(bool take)
{
	if (take)
		pthread_mutex_lock(&lock);
	else
		pthread_mutex_unlock(&lock);
}

struct gm_sim_work *gm_sim_work_start(size_t ranges)
{
	struct gm_sim_work *work =
	        calloc(1, sizeof(*work) + ranges * sizeof(struct gm_sim_work_range));
	if (!work)
		return NULL;
	work->references = 1;
	pthread_mutex_lock(&lock);
	work->next = outstanding;
	outstanding = work;
	atomic_fetch_add(&gm_sim_outstanding, 1);
	pthread_mutex_unlock(&lock);
	return work;
}

void gm_sim_work_range(struct gm_sim_work *work, const void *address, uint64_t size)
{
	pthread_mutex_lock(&lock);
	work->ranges[work->count++] = (struct gm_sim_work_range){(uintptr_t)address, size};
	pthread_mutex_unlock(&lock);
}

static void drop(struct gm_sim_work *work)
{
	if (--work->references == 0)
		free(work);
}

static bool touches(const struct gm_sim_work *work, uint64_t address, uint64_t size)
{
	for (size_t i = 0; i < work->count; i++)
		if (work->ranges[i].start < address + size &&
		        address < work->ranges[i].start + work->ranges[i].size)
			return true;
	return false;
}

bool gm_sim_work_then(const void *address, uint64_t size, void (*function)(const void *, uint64_t))
{
	if (!atomic_load_explicit(&gm_sim_outstanding, memory_order_relaxed))
		return false;
	bool any = false;
	pthread_mutex_lock(&lock);
	for (struct gm_sim_work *work = outstanding; work; work = work->next) {
		struct gm_sim_work_end *end =
		        touches(work, (uintptr_t)address, size) ? malloc(sizeof(*end)) : NULL;
		if (!end)
			continue;
		*end = (struct gm_sim_work_end){work->ends, function, address, size};
		work->ends = end;
		any = true;
	}
	pthread_mutex_unlock(&lock);
	return any;
}

/* What was to be done then has locks of its own. Returns with the lock held. */
static void run_ends(struct gm_sim_work *work)
{
	pthread_mutex_lock(&lock);
	for (struct gm_sim_work_end *end; (end = work->ends);) {
		work->ends = end->next;
		pthread_mutex_unlock(&lock);
		end->function(end->address, end->size);
		free(end);
		pthread_mutex_lock(&lock);
	}
}

void gm_sim_work_finish(struct gm_sim_work *work)
{
	run_ends(work);
	struct gm_sim_work **at = &outstanding;
	while (*at && *at != work)
		at = &(*at)->next;
	if (*at)
		*at = work->next;
	work->done = true;
	atomic_fetch_sub(&gm_sim_outstanding, 1);
	drop(work);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

/* Releases the finished entries of the list; the caller holds the lock. */
static void prune(struct gm_sim_works *works)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < works->count; i++)
		if (works->items[i]->done)
			drop(works->items[i]);
		else
			works->items[kept++] = works->items[i];
	works->count = kept;
}

/* Waits for one that the caller has a reference to; the caller holds the lock. */
static void wait_one(struct gm_sim_work *work)
{
	while (!work->done)
		pthread_cond_wait(&changed, &lock);
}

static void add(struct gm_sim_works *works, struct gm_sim_work *work)
{
	prune(works);
	for (unsigned i = 0; i < works->count; i++)
		if (works->items[i] == work)
			return;
	work->references++;
	while (works->count == GM_SIM_WORKS) {
		/* More than a list can hold: waits for the oldest. */
		struct gm_sim_work *oldest = works->items[0];
		oldest->references++;
		wait_one(oldest);
		drop(oldest);
		prune(works);
	}
	works->items[works->count++] = work;
}

void gm_sim_works_add(struct gm_sim_works *works, struct gm_sim_work *work)
{
	pthread_mutex_lock(&lock);
	if (!work->done)
		add(works, work);
	pthread_mutex_unlock(&lock);
}

void gm_sim_works_merge(struct gm_sim_works *to, struct gm_sim_works *from)
{
	if (to == from || (!atomic_load(&gm_sim_outstanding) && !from->count))
		return;
	pthread_mutex_lock(&lock);
	prune(from);
	for (unsigned i = 0; i < from->count; i++)
		add(to, from->items[i]);
	pthread_mutex_unlock(&lock);
}

void gm_sim_works_clear(struct gm_sim_works *works)
{
	if (!works->count)
		return;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < works->count; i++)
		drop(works->items[i]);
	works->count = 0;
	pthread_mutex_unlock(&lock);
}

bool gm_sim_works_done(struct gm_sim_works *works)
{
	if (!works->count)
		return true;
	pthread_mutex_lock(&lock);
	prune(works);
	bool done = !works->count;
	pthread_mutex_unlock(&lock);
	return done;
}

void gm_sim_works_wait(struct gm_sim_works *works)
{
	if (!works->count)
		return;
	pthread_mutex_lock(&lock);
	/* Work that another thread adds meanwhile is not waited for. */
	struct gm_sim_works now = *works;
	for (unsigned i = 0; i < now.count; i++)
		now.items[i]->references++;
	for (unsigned i = 0; i < now.count; i++) {
		wait_one(now.items[i]);
		drop(now.items[i]);
	}
	prune(works);
	pthread_mutex_unlock(&lock);
}

void gm_sim_works_wait_all(void)
{
	if (!atomic_load(&gm_sim_outstanding))
		return;
	pthread_mutex_lock(&lock);
	while (outstanding) {
		struct gm_sim_work *work = outstanding;
		work->references++;
		wait_one(work);
		drop(work);
	}
	pthread_mutex_unlock(&lock);
}

void gm_sim_range_finish(const void *address, uint64_t size)
{
	if (!atomic_load_explicit(&gm_sim_outstanding, memory_order_relaxed))
		return;
	pthread_mutex_lock(&lock);
	for (struct gm_sim_work *work = outstanding; work;) {
		if (!touches(work, (uintptr_t)address, size)) {
			work = work->next;
			continue;
		}
		work->references++;
		wait_one(work);
		drop(work);
		work = outstanding; /* the list has changed */
	}
	pthread_mutex_unlock(&lock);
}
