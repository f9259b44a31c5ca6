/* Which ranks of a simulated job are run: the classes found are those of all ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "random.h"
#include "ranks/sim_plan.h"

/* What a rank's class depends on, as jobs have it. */
struct job {
	uint32_t world;
	uint32_t stages; /* consecutive ranks; inner stages alike with `ends_only` */
	uint32_t inner;  /* ranks of a tensor-parallel group */
	bool ends_only;  /* only the first and the last stage differ */
	bool odd_inner;  /* the last of each inner group differs */
	bool all_inner;  /* all of an inner group differ */
	uint32_t full;   /* from this rank on shards are empty, and its own is partial; 0: none */
};

static uint32_t class_of(const struct job *job, uint32_t rank)
{
	uint32_t stage = rank / (job->world / job->stages), inner = rank % job->inner;
	if (job->ends_only && stage)
		stage = stage == job->stages - 1 ? 2 : 1;
	uint32_t place = job->all_inner ? inner : job->odd_inner && inner == job->inner - 1 ? 1 : 0;
	uint32_t shard = !job->full || rank < job->full ? 0 : rank == job->full ? 1 : 2;
	return 1 + stage * 1000 + place * 10 + shard;
}

/* `at_once` ranks run at the same time, and end in any order. Returns how many were run. */
static uint32_t run(const struct job *job, const struct gm_rank_plan_options *options,
        unsigned at_once, struct random *random, struct gm_rank_plan **ret_plan)
{
	uint32_t running[16], count = 0, runs = 0;
	bool done = false;
	assert_null(gm_rank_plan_create(options, ret_plan));
	while (!done) {
		bool has = count < at_once;
		while (has) {
			uint32_t rank;
			assert_null(gm_rank_plan_next(*ret_plan, &has, &rank, &done));
			if (has) {
				assert_true(rank < job->world);
				running[count++] = rank;
				runs++;
			}
			has &= count < at_once;
		}
		assert_true(done == (count == 0) || count == at_once);
		if (count) {
			uint32_t which = random_below(random, count), rank = running[which];
			running[which] = running[--count];
			gm_rank_plan_put(*ret_plan, rank, class_of(job, rank));
		}
	}
	return runs;
}

static void check_all(const struct job *job, const struct gm_rank_plan *plan, bool complete)
{
	uint32_t *classes = calloc(job->world, sizeof(*classes));
	gm_rank_plan_classes(plan, classes);
	for (uint32_t rank = 0; rank < job->world; rank++) {
		uint32_t class;
		enum gm_sim_known known = gm_rank_plan_class(plan, rank, &class);
		if (complete || known != GM_SIM_NOT_KNOWN)
			assert_int_equal(class, class_of(job, rank));
		assert_int_equal(classes[rank], class);
		assert_int_equal(gm_rank_plan_was_run(plan, rank), known == GM_SIM_RUN);
	}
	free(classes);
}

static uint32_t runs_of(struct job job, uint32_t check)
{
	struct random random = random_of_round(0);
	const struct gm_rank_plan_options options = {.world = job.world, .check = check};
	struct gm_rank_plan *plan;
	uint32_t runs = run(&job, &options, 2, &random, &plan);
	check_all(&job, plan, true);
	assert_true(gm_rank_plan_checked(plan) == check || runs == job.world);
	gm_rank_plan_destroy(plan);
	return runs;
}

static void test_equal_ranks_of_64_are_found_by_a_quarter_of_them(void **state)
{
	assert_in_range(runs_of((struct job){.world = 64, .stages = 1, .inner = 1}, 4), 9, 12);
	assert_in_range(runs_of((struct job){.world = 64, .stages = 4, .inner = 1}, 4), 12, 16);
	assert_in_range(
	        runs_of((struct job){.world = 64, .stages = 4, .inner = 1, .ends_only = true}, 4),
	        12, 16);
	assert_in_range(
	        runs_of((struct job){.world = 4096, .stages = 16, .inner = 8}, 16), 30, 200);
}

static void test_a_group_within_groups_is_found(void **state)
{
	struct job job = {.world = 64, .stages = 2, .inner = 4, .odd_inner = true};
	assert_true(runs_of(job, 4) < 40);
	job.all_inner = true;
	assert_true(runs_of(job, 4) < 40);
	job.world = 4096;
	job.stages = 8;
	assert_true(runs_of(job, 16) < 400);
}

static void test_a_world_of_two_or_a_prime_is_run(void **state)
{
	assert_int_equal(runs_of((struct job){.world = 2, .stages = 2, .inner = 1}, 4), 2);
	assert_in_range(
	        runs_of((struct job){.world = 13, .stages = 1, .inner = 1, .full = 5}, 4), 4, 13);
}

static void test_classes_of_random_jobs_are_those_of_all_their_ranks(void **state)
{
	for (uint64_t round = 0; round < random_rounds(300); round++) {
		struct random random = random_of_round(round);
		static const uint32_t dimensions[] = {1, 2, 3, 4, 6, 8};
		struct job job = {.stages = dimensions[random_below(&random, 6)],
		        .inner = dimensions[random_below(&random, 6)],
		        .ends_only = random_below(&random, 2),
		        .all_inner = random_below(&random, 2),
		        .odd_inner = random_below(&random, 2)};
		job.world = job.stages * job.inner * (1 + random_below(&random, 9));
		if (job.world < 2)
			job.world = 2;
		if (job.inner == 1 && random_below(&random, 2))
			job.full = random_below(&random, job.world);
		const struct gm_rank_plan_options options = {
		        .world = job.world, .check = 4, .all = random_below(&random, 8) == 0};
		struct gm_rank_plan *plan;
		uint32_t runs = run(&job, &options, 1 + random_below(&random, 16), &random, &plan);
		check_all(&job, plan, true);
		assert_true(options.all ? runs == job.world : runs <= job.world);
		gm_rank_plan_destroy(plan);
	}
}

static void test_a_limit_of_runs_is_kept_and_nothing_is_claimed_beyond(void **state)
{
	struct random random = random_of_round(0);
	const struct job job = {.world = 96, .stages = 6, .inner = 1};
	const struct gm_rank_plan_options options = {.world = 96, .check = 4, .most = 10};
	struct gm_rank_plan *plan;
	uint32_t class, unknown = 0;
	assert_int_equal(run(&job, &options, 3, &random, &plan), 10);
	check_all(&job, plan, false);
	for (uint32_t rank = 0; rank < 96; rank++)
		unknown += gm_rank_plan_class(plan, rank, &class) == GM_SIM_NOT_KNOWN;
	assert_true(unknown > 0);
	gm_rank_plan_destroy(plan);
}

static void test_what_was_run_before_is_not_run_again(void **state)
{
	const struct job job = {.world = 64, .stages = 4, .inner = 1};
	const struct gm_rank_plan_options options = {.world = 64, .check = 4};
	struct gm_rank_plan *plan;
	uint32_t runs = 0;
	bool has, done = false;
	assert_null(gm_rank_plan_create(&options, &plan));
	for (uint32_t rank = 0; rank < 64; rank += 2)
		gm_rank_plan_put(plan, rank, class_of(&job, rank));
	while (!done) {
		uint32_t rank;
		assert_null(gm_rank_plan_next(plan, &has, &rank, &done));
		if (has) {
			assert_int_equal(rank % 2, 1);
			gm_rank_plan_put(plan, rank, class_of(&job, rank));
			runs++;
		}
	}
	assert_true(runs < 12);
	check_all(&job, plan, true);
	gm_rank_plan_destroy(plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_equal_ranks_of_64_are_found_by_a_quarter_of_them),
	        cmocka_unit_test(test_a_group_within_groups_is_found),
	        cmocka_unit_test(test_a_world_of_two_or_a_prime_is_run),
	        cmocka_unit_test(test_classes_of_random_jobs_are_those_of_all_their_ranks),
	        cmocka_unit_test(test_a_limit_of_runs_is_kept_and_nothing_is_claimed_beyond),
	        cmocka_unit_test(test_what_was_run_before_is_not_run_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
