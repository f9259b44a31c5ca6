#include "model/step_peaks.h"

#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "model/internal.h"

enum gm_peak_class gm_peak_class_of(enum gm_phase phase)
{
	switch (phase) {
	case GM_PHASE_FORWARD:
	case GM_PHASE_BACKWARD:
	case GM_PHASE_RECOMPUTE:
		return GM_PEAK_MODEL;
	case GM_PHASE_OPTIMIZER:
		return GM_PEAK_OPTIMIZER;
	default:
		return GM_PEAK_NEITHER;
	}
}

/*
 * With t times the batch, a moment has fixed + growing * t bytes, a line. Which moment in the model
 * is the first to reach the optimizer's line is a question to the upper envelope of all lines,
 * which is the upper convex hull of the points (growing, fixed): some dozen, of millions. The
 * optimizer's peak is known only at the end of the walk, so the hull is kept. Points above it are
 * collected and added when there are as many as the hull has, so that no order of them is
 * expensive.
 */
enum { GATHERED_LEAST = 1024 };

struct point {
	uint64_t growing, fixed;
};

struct hull {
	GM_ARRAY(struct point)
	points; /* [0, sorted): the hull, by growing; the others are collected points */
	size_t sorted;
};

static int compare_points(const void *a, const void *b)
{
	const struct point *left = a, *right = b;
	if (left->growing != right->growing)
		return left->growing < right->growing ? -1 : 1;
	return left->fixed < right->fixed ? -1 : left->fixed > right->fixed;
}

/* Is `middle` on or below the line from `left` to `right`? In long double, because a product of
 * sizes has more bits than they have. */
static bool is_below(
        const struct point *left, const struct point *middle, const struct point *right)
{
	long double run = (long double)right->growing - (long double)left->growing,
	            rise = (long double)right->fixed - (long double)left->fixed;
	return ((long double)middle->fixed - (long double)left->fixed) * run <=
	       ((long double)middle->growing - (long double)left->growing) * rise;
}

/* The upper hull of all points, from the left (Andrew's monotone chain); points to the left of the
 * highest are below its line. */
static void close_hull(struct hull *hull)
{
	struct point *points = hull->points.items;
	size_t kept = 0;
	if (hull->points.count)
		qsort(points, hull->points.count, sizeof(*points), compare_points);
	for (size_t i = 0; i < hull->points.count; i++) {
		while (kept && points[kept - 1].fixed <= points[i].fixed)
			kept--;
		while (kept > 1 && is_below(&points[kept - 2], &points[kept - 1], &points[i]))
			kept--;
		points[kept++] = points[i];
	}
	hull->points.count = hull->sorted = kept;
}

static bool is_above(const struct hull *hull, const struct point *point)
{
	const struct point *points = hull->points.items;
	size_t low =
	        gm_partition_point(hull->sorted, middle, points[middle].growing < point->growing);
	if (low == hull->sorted)
		return true;
	if (points[low].fixed >= point->fixed)
		return false;
	return low == 0 || !is_below(&points[low - 1], point, &points[low]);
}

static bool add_point(struct hull *hull, struct point point)
{
	if (!is_above(hull, &point))
		return true;
	if (!gm_array_push(&hull->points, point))
		return false;
	size_t gathered = hull->points.count - hull->sorted;
	if (gathered >= GATHERED_LEAST && gathered >= hull->sorted)
		close_hull(hull);
	return true;
}

/* The factor of the batch below which the optimizer's peak is higher, and above which the model's
 * is: where the envelope, which is convex, crosses the optimizer's line from below. 0: nowhere,
 * because one of them is higher for any batch. */
static double find_equal(struct hull *hull, const struct gm_step_peak *optimizer)
{
	double from = 0, to = INFINITY;
	double fixed = (double)(optimizer->allocated - optimizer->growing);
	close_hull(hull);
	for (size_t i = 0; i < hull->points.count; i++) {
		const struct point *point = &hull->points.items[i];
		double faster = (double)point->growing - (double)optimizer->growing;
		double lower = fixed - (double)point->fixed;
		if (faster > 0 && lower / faster < to)
			to = lower / faster;
		else if (faster < 0 && lower / faster > from)
			from = lower / faster;
		else if (faster == 0 && lower <= 0)
			return 0;
	}
	return from < to && to < INFINITY ? to : 0;
}

/* Does the size of a block grow with the batch? `side`: where it was allocated. */
static bool grows(const struct gm_categories *categories, uint32_t block, enum gm_peak_class side)
{
	enum gm_category category = gm_categories_of(categories, block);
	return category == GM_CATEGORY_ACTIVATION || category == GM_CATEGORY_INPUT ||
	       (category == GM_CATEGORY_TEMPORARY && side == GM_PEAK_MODEL);
}

struct walking {
	const struct gm_model *model;
	const struct gm_categories *categories;
	size_t device;
	uint64_t allocated, growing;
	uint8_t *growing_blocks; /* by block, once it was allocated */
	struct gm_step_peak *peaks;
	struct hull hull;
};

/* The effect of an event on the sums. True: it may have increased them. */
static bool take(struct walking *walking, uint32_t number, enum gm_peak_class side)
{
	const struct gm_model *model = walking->model;
	uint32_t index = model->event_blocks[number];
	if (index == GM_NO_BLOCK)
		return false;
	const struct gm_block *block = &model->blocks.items[index];
	if (block->device != walking->device)
		return false;
	if (number == block->alloc) {
		walking->growing_blocks[index] = grows(walking->categories, index, side);
		walking->allocated += block->size;
		walking->growing += walking->growing_blocks[index] ? block->size : 0;
		return true;
	}
	if (number != gm_block_end(block) || block->alloc == GM_NO_EVENT)
		return false;
	walking->allocated = gm_usage_less(walking->allocated, block->size);
	if (walking->growing_blocks[index])
		walking->growing = gm_usage_less(walking->growing, block->size);
	return false;
}

/* Processes a run. The bytes after a free are fewer than before it, except where a run begins. */
static bool walk_run(struct walking *walking, struct gm_model_run run)
{
	enum gm_peak_class side = gm_peak_class_of(run.phase);
	struct gm_step_peak *peak = &walking->peaks[side];
	for (uint32_t number = run.first; number < run.end; number++) {
		if (!take(walking, number, side) && number != run.first)
			continue;
		if (walking->allocated > peak->allocated)
			*peak = (struct gm_step_peak){number, walking->allocated, walking->growing};
		if (side == GM_PEAK_MODEL && walking->growing <= walking->allocated &&
		        !add_point(&walking->hull, (struct point){walking->growing,
		                                           walking->allocated - walking->growing}))
			return false;
	}
	return true;
}

struct gm_error *gm_model_step_peaks(const struct gm_model *model,
        const struct gm_categories *categories, size_t device,
        struct gm_step_peak ret_peaks[GM_PEAK_COUNT], double *ret_equal_at)
{
	for (size_t i = 0; i < GM_PEAK_COUNT; i++)
		ret_peaks[i] = (struct gm_step_peak){.event = GM_NO_EVENT};
	_cleanup_free_ uint8_t *growing = calloc(model->blocks.count + 1, 1);
	struct walking walking = {.model = model,
	        .categories = categories,
	        .device = device,
	        .growing_blocks = growing,
	        .peaks = ret_peaks};
	bool fits = growing != NULL;
	for (size_t i = 0; fits && i < model->runs.count; i++)
		fits = walk_run(&walking, gm_run_at_index(model, i));
	*ret_equal_at = fits ? find_equal(&walking.hull, &ret_peaks[GM_PEAK_OPTIMIZER]) : 0;
	gm_array_deinit(&walking.hull.points);
	return fits ? NULL : &gm_error_no_memory;
}
