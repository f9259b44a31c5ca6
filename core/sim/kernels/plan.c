/* Makes a plan from a kernel's name, once, and applies it to launches. */
#include <stdlib.h>
#include <string.h>

#include "sim/kernels/plan.h"

static const struct gm_sim_plan no_plan;

static struct gm_sim_plan *keep(const struct gm_sim_plan *made)
{
	struct gm_sim_plan *kept = malloc(sizeof(*kept));
	if (!kept)
		return (struct gm_sim_plan *)(uintptr_t)&no_plan;
	*kept = *made;
	return kept;
}

static struct gm_sim_plan *make(const char *mangled)
{
	static gm_sim_family *const families[] = {gm_sim_elementwise_plan, gm_sim_reduce_plan,
	        gm_sim_index_plan, gm_sim_random_plan, gm_sim_cub_plan, gm_sim_sort_plan,
	        gm_sim_scaler_plan, gm_sim_layout_plan, gm_sim_various_plan};
	struct gm_sim_plan *plan = (struct gm_sim_plan *)(uintptr_t)&no_plan;
	struct gm_sim_plan product = {0};
	if (gm_sim_product_plan(mangled, &product))
		return keep(&product);
	char *readable = gm_sim_name_readable(mangled);
	if (!readable)
		return plan;
	struct gm_sim_text name = {readable, strlen(readable)}, base, arguments[16];
	unsigned count = gm_sim_name_template(name, &base, arguments, 16);
	for (size_t i = 0; count <= 16 && i < sizeof(families) / sizeof(families[0]); i++) {
		struct gm_sim_plan made = {0};
		if (!families[i](name, base, arguments, count, &made))
			continue;
		plan = keep(&made);
		break;
	}
	free(readable);
	return plan;
}

static struct gm_sim_plan *plan_of(const char *mangled, struct gm_sim_plan *_Atomic *plan)
{
	struct gm_sim_plan *known = *plan;
	if (!known) {
		/* Two threads may create it at once: the first one's is used, and the other's few
		 * bytes are lost. */
		struct gm_sim_plan *made = make(mangled);
		if (__atomic_compare_exchange_n((struct gm_sim_plan **)plan, &known, made, false,
		            __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			known = made;
	}
	return known;
}

bool gm_sim_kernel_planned(const char *mangled, struct gm_sim_plan *_Atomic *plan)
{
	return gm_sim_compute_limit() && plan_of(mangled, plan)->compute;
}

bool gm_sim_kernel_fits(const char *mangled, struct gm_sim_plan *_Atomic *plan,
        const struct gm_sim_kernel_launch *launch)
{
	bool fits = false;
	gm_sim_use_ask(&fits);
	gm_sim_kernel_compute(mangled, plan, launch);
	gm_sim_use_ask(NULL);
	return fits;
}

bool gm_sim_kernel_compute(const char *mangled, struct gm_sim_plan *_Atomic *plan,
        const struct gm_sim_kernel_launch *launch)
{
	if (!launch->arguments || !gm_sim_compute_limit())
		return false;
	const struct gm_sim_plan *known = plan_of(mangled, plan);
	if (!known->compute)
		return false;
	gm_sim_use_begin();
	bool computed = known->compute(known, launch);
	gm_sim_use_end(computed);
	return computed;
}
