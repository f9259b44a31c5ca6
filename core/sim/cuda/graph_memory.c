/* Memory that was allocated or mapped during a capture: it belongs to the graph. */
#include "sim/cuda/sim.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gm_sim_ranges own;
static _Atomic size_t own_count;

void gm_sim_graph_lock(bool take)
{
	if (take)
		pthread_mutex_lock(&lock);
	else
		pthread_mutex_unlock(&lock);
}

void gm_sim_graph_memory(const void *address, uint64_t size, bool there)
{
	if (there ? !gm_sim_captures_here() : !own_count)
		return;
	struct gm_sim_range range;
	pthread_mutex_lock(&lock);
	if (there)
		gm_sim_ranges_add(&own, (uintptr_t)address, size, 0);
	else
		gm_sim_ranges_remove(&own, (uintptr_t)address, &range);
	own_count = own.count;
	pthread_mutex_unlock(&lock);
}

void gm_sim_graph_block(struct gm_sim_device *device, const void *address, uint64_t size)
{
	if (!own_count || !gm_sim_captures_here())
		return;
	pthread_mutex_lock(&lock);
	bool here = gm_sim_ranges_find(&own, (uintptr_t)address) != NULL;
	pthread_mutex_unlock(&lock);
	if (here)
		gm_sim_captured_here(&(struct gm_sim_node){
		        .what = GM_SIM_NODE_FRESH, .to = (void *)(uintptr_t)address, .size = size});
}
