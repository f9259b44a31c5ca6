#include "base/team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/thread.h"

enum { MAX_THREADS = GM_TEAM_MOST };

struct team {
	atomic_size_t next;
	size_t count;
	void (*work)(void *context, size_t number);
	void *context;
};

unsigned gm_team_size(void)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	return processors < 1 ? 1 : processors > MAX_THREADS ? MAX_THREADS : (unsigned)processors;
}

static void *run(void *context)
{
	struct team *team = context;
	for (size_t number; (number = atomic_fetch_add(&team->next, 1)) < team->count;)
		team->work(team->context, number);
	return NULL;
}

void gm_team_run(size_t count, void (*work)(void *context, size_t number), void *context)
{
	struct team team = {.count = count, .work = work, .context = context};
	pthread_t threads[MAX_THREADS];
	unsigned size = gm_team_size(), started = 0;
	while (started + 1 < size && started + 1 < count &&
	        gm_thread_create(&threads[started], run, &team) == 0)
		started++;
	run(&team);
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}
