#include "model/run_phases.h"

#include "base/search.h"

/* --- by neighbouring runs --------------------------------------------------------------------- */

/* Allocations between a backward pass and the forward pass of the next micro-batch are that one's
 * data, unless autograd is off (an average of the weights). Runs before `from` are final. */
static void find_micro_batches(struct gm_model *model, size_t from)
{
	for (size_t i = from ? from : 1; i + 1 < model->runs.count; i++) {
		struct run *run = &model->runs.items[i];
		if (run->phase == GM_PHASE_OTHER && run->iteration &&
		        !(gm_model_site(model, run->event)->flags & GM_EVENT_NO_GRAD) &&
		        run[-1].iteration == run->iteration && run[1].iteration == run->iteration &&
		        run[-1].phase == GM_PHASE_BACKWARD &&
		        (run[1].phase == GM_PHASE_FORWARD || run[1].phase == GM_PHASE_EVALUATION))
			run->phase = GM_PHASE_DATA;
	}
}

static size_t run_of_event(const struct gm_model *model, uint32_t event)
{
	return gm_partition_point(
	               model->runs.count, middle, model->runs.items[middle].event <= event) -
	       1;
}

static size_t end_of_iteration(const struct gm_model *model, size_t index)
{
	size_t end = index + 1;
	while (end < model->runs.count &&
	        model->runs.items[end].iteration == model->runs.items[index].iteration)
		end++;
	return end;
}

/* Does a backward pass of the next step free anything that a run allocated? */
static bool feeds_backward(const struct gm_model *model, size_t index)
{
	const struct gm_model_run run = gm_run_at_index(model, index);
	size_t next = end_of_iteration(model, index);
	size_t end = next < model->runs.count ? end_of_iteration(model, next) : next;
	for (uint32_t i = run.first; i < run.end; i++) {
		if (!gm_model_allocates(model, i))
			continue;
		uint32_t freed = gm_block_end(&model->blocks.items[model->event_blocks[i]]);
		size_t in = freed != GM_NO_EVENT ? run_of_event(model, freed) : end;
		if (in < end && model->runs.items[in].phase == GM_PHASE_BACKWARD)
			return true;
	}
	return false;
}

/*
 * If the grad mode was not recorded: a forward pass after the last backward pass of its step is an
 * evaluation if the backward pass of the next step frees nothing of it. So are allocations directly
 * before it.
 */
static void find_evaluations(struct gm_model *model, size_t begin)
{
	struct run *runs = model->runs.items;
	for (size_t end; begin < model->runs.count; begin = end) {
		size_t backward = SIZE_MAX;
		end = end_of_iteration(model, begin);
		for (size_t i = begin; i < end && runs[i].iteration; i++)
			if (runs[i].phase == GM_PHASE_BACKWARD)
				backward = i;
		for (size_t i = end; i-- > begin;) {
			bool behind = backward != SIZE_MAX && i > backward;
			bool made_for = runs[i].phase == GM_PHASE_OTHER && i + 1 < end &&
			                runs[i + 1].phase == GM_PHASE_EVALUATION;
			if (made_for || (behind && runs[i].phase == GM_PHASE_FORWARD &&
			                        !feeds_backward(model, i)))
				runs[i].phase = GM_PHASE_EVALUATION;
		}
	}
}

/* The first run that further events may change: in the step of run `from` or the previous one. A
 * run in no step is decided by the next run only. */
static size_t begin_of_unpromoted(const struct gm_model *model, size_t from)
{
	const struct run *runs = model->runs.items;
	size_t begin = from < model->runs.count ? from : model->runs.count - 1;
	for (uint32_t changes = 0; begin; begin--) {
		changes += runs[begin - 1].iteration != runs[begin].iteration;
		if (changes == 2 || (!runs[begin].iteration && begin + 1 < from))
			break;
	}
	return begin;
}

void gm_run_phases_look_around(struct gm_model *model, size_t from)
{
	if (!model->runs.count)
		return;
	size_t begin = begin_of_unpromoted(model, from);
	for (size_t i = begin; i < model->runs.count; i++)
		model->runs.items[i].phase = model->runs.items[i].own_phase;
	find_micro_batches(model, begin);
	if (!model->readings.has_modes)
		find_evaluations(model, begin);
}

/* --- by the grad mode of a later event -------------------------------------------------------- */

/* Splits the run of an event, so that one begins there. Returns its index; SIZE_MAX: out of memory.
 * */
static size_t cut_run(struct gm_model *model, uint32_t event)
{
	size_t low = gm_partition_point(
	        model->runs.count, middle, model->runs.items[middle].event <= event);
	if (low && model->runs.items[low - 1].event == event)
		return low - 1;
	if (!low)
		return 0;
	struct run later = model->runs.items[low - 1];
	later.event = event;
	if (!gm_array_push(&model->runs, later))
		return SIZE_MAX;
	for (size_t i = model->runs.count - 1; i > low; i--)
		model->runs.items[i] = model->runs.items[i - 1];
	model->runs.items[low] = later;
	return low;
}

/*
 * The beginning of an evaluation whose module is called now, if autograd has been off since an
 * event: before it, weights may have been averaged without any mark. What was allocated for the
 * evaluation is still live; the rest is not.
 */
static uint32_t begin_of_evaluation(const struct gm_model *model, uint32_t since, uint32_t now)
{
	uint32_t alive = 0, begin = since;
	for (uint32_t i = since; i < now; i++) {
		uint32_t block = model->event_blocks[i];
		if (block == GM_NO_BLOCK)
			continue;
		uint32_t alloc = model->blocks.items[block].alloc;
		if (alloc == i)
			alive++;
		else if (alloc >= since && alloc < i &&
		         gm_block_end(&model->blocks.items[block]) == i)
			alive--;
		if (!alive)
			begin = i + 1;
	}
	return begin;
}

bool gm_run_phases_change(struct gm_model *model, uint32_t now, const struct gm_mode_change *change)
{
	if (!change->from || change->since >= now)
		return true;
	uint32_t since = change->to == GM_PHASE_EVALUATION
	                         ? begin_of_evaluation(model, change->since, now)
	                         : change->since;
	if (since >= now)
		return true;
	size_t first = cut_run(model, since);
	if (first == SIZE_MAX)
		return false;
	if (first < model->readings.first_changed)
		model->readings.first_changed = first;
	for (size_t i = first; i < model->runs.count; i++)
		if (change->from & UINT32_C(1) << model->runs.items[i].own_phase)
			model->runs.items[i].own_phase = model->runs.items[i].phase =
			        (uint8_t)change->to;
	size_t kept = first ? first : 1; /* runs that are equal again are merged */
	for (size_t i = kept; i < model->runs.count; i++) {
		const struct run *run = &model->runs.items[i];
		const struct run *last = &model->runs.items[kept - 1];
		if (run->iteration != last->iteration || run->own_phase != last->own_phase)
			model->runs.items[kept++] = *run;
	}
	model->runs.count = kept < model->runs.count ? kept : model->runs.count;
	/* checkpoints after it may be in another run now */
	size_t known = change->since / CHECKPOINT_EVENTS;
	if (model->readings.indexed > known)
		model->readings.indexed = known;
	return true;
}
