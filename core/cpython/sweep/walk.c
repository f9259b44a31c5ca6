#include "cpython/sweep/walk.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "cpython/sweep/walker.h"

enum { MAX_THREADS = 8, MIN_BATCH = 4096, MAX_BATCH = 1 << 15, BATCHES_PER_THREAD = 4 };

struct team {
	struct gm_list_walk walk;
	size_t total, batch_size, batch_count;
	struct gm_walk_batch *batches;
	atomic_size_t next;
	atomic_bool no_memory;
};

static void walk_batch(struct team *team, struct gm_walker *walker, size_t number)
{
	const struct gm_walk_options *options = team->walk.options;
	struct gm_walk_batch *batch = &team->batches[number];
	size_t first = number * team->batch_size;
	size_t count =
	        team->total - first < team->batch_size ? team->total - first : team->batch_size;
	const uint64_t *addresses;
	walker->requests.count = walker->unknown.count = walker->late.count = 0;
	walker->starts.count = 0;
	if (!gm_array_reserve(&walker->starts, count + 1)) {
		walker->no_memory = true;
		return;
	}
	if (options->addresses) {
		addresses = options->addresses + first;
	} else {
		if (!gm_array_reserve(&walker->addresses, count)) {
			walker->no_memory = true;
			return;
		}
		gm_address_set_list(options->objects, first, count, walker->addresses.items);
		addresses = walker->addresses.items;
	}
	gm_walk_objects(walker, addresses, options->numbers ? options->numbers + first : NULL,
	        (uint32_t)first, count);
	gm_walk_arrays(walker);
	gm_walk_batch_end(walker, batch);
}

static void *work(void *context)
{
	struct gm_walker *walker = context;
	struct team *team = (struct team *)walker->walk; /* its first member */
	while (!walker->no_memory && !atomic_load(&team->no_memory)) {
		size_t number = atomic_fetch_add(&team->next, 1);
		if (number >= team->batch_count)
			return NULL;
		walk_batch(team, walker, number);
	}
	atomic_store(&team->no_memory, true);
	return NULL;
}

static unsigned thread_count(const struct team *team)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	size_t wanted = team->walk.options->threads;
	if (wanted == 0)
		wanted = processors > 0 ? (size_t)processors : 1;
	if (wanted > MAX_THREADS)
		wanted = MAX_THREADS;
	if (wanted > team->total / MIN_BATCH + 1) /* little to do */
		wanted = team->total / MIN_BATCH + 1;
	if (!gm_image_reads_anywhere(team->walk.python->image))
		wanted = 1;
	return wanted ? (unsigned)wanted : 1;
}

static bool run(struct team *team, unsigned count)
{
	struct gm_walker *walkers[MAX_THREADS] = {0};
	unsigned started = 0;
	size_t frames = team->total > 4 * MIN_BATCH ? GM_WALK_FRAMES : GM_WALK_FEW_FRAMES;
	for (; started < count; started++) {
		walkers[started] = gm_walker_create(&team->walk, frames);
		/* the first one is this thread */
		if (!walkers[started] || (started > 0 && gm_thread_create(&walkers[started]->thread,
		                                                 work, walkers[started]))) {
			if (walkers[started])
				gm_walker_destroy(walkers[started]);
			break;
		}
	}
	if (started > 0)
		work(walkers[0]);
	for (unsigned i = 0; i < started; i++) {
		if (i > 0)
			pthread_join(walkers[i]->thread, NULL);
		gm_walker_destroy(walkers[i]);
	}
	return started > 0 && !atomic_load(&team->no_memory);
}

struct gm_error *gm_python_walk(struct gm_python *python, const struct gm_walk_options *options,
        struct gm_walk_result *ret_result)
{
	struct team team = {.walk = {.python = python, .options = options}};
	team.total = options->addresses ? options->count : options->objects->count;
	unsigned threads = thread_count(&team);
	team.batch_size = team.total / (threads * BATCHES_PER_THREAD) + 1;
	if (team.batch_size < MIN_BATCH)
		team.batch_size = MIN_BATCH;
	if (team.batch_size > MAX_BATCH)
		team.batch_size = MAX_BATCH;
	team.batch_count = (team.total + team.batch_size - 1) / team.batch_size;
	team.batches = calloc(team.batch_count + 1, sizeof(*team.batches));
	if (!team.batches)
		return &gm_error_no_memory;
	pthread_mutex_init(&team.walk.lock, NULL);
	bool done = run(&team, threads);
	pthread_mutex_destroy(&team.walk.lock);
	struct gm_walk_result result = {team.batches, team.batch_count};
	if (!done) {
		gm_walk_result_deinit(&result);
		return &gm_error_no_memory;
	}
	*ret_result = result;
	return NULL;
}

void gm_walk_result_deinit(struct gm_walk_result *result)
{
	for (size_t i = 0; i < result->count; i++) {
		free(result->batches[i].references);
		free(result->batches[i].outside);
	}
	free(result->batches);
	*result = (struct gm_walk_result){0};
}
