/* What gpumem-ranks makes of figures: least, median and most; which ranks are alike; values as
 * bytes, and damaged bytes. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "random.h"
#include "synthetic.h"
#include "ranks/codec.h"
#include "ranks/groups.h"
#include "ranks/keep.h"
#include "ranks/numbers.h"
#include "ranks/render/rows.h"
#include "ranks/table.h"

static void least_median_and_most_are_those_of_the_files_that_have_one(void **state)
{
	for (uint64_t round = 0; round < random_rounds(200); round++) {
		struct random random = random_of_round(round);
		size_t files = 1 + random_below(&random, 20), have = 0;
		uint64_t values[20], sorted[20];
		struct gm_rank_table table = {0};
		for (size_t i = 0; i < files; i++) {
			values[i] = UINT64_MAX;
			if (i && random_once_in(&random, 3))
				continue;
			values[i] = random_below(&random, 8);
			sorted[have++] = values[i];
			/* in two parts, which are added */
			check_in_round(round, gm_rank_table_add(&table, 7, 1, i, values[i] / 2));
			check_in_round(round,
			        gm_rank_table_add(&table, 7, 1, i, values[i] - values[i] / 2));
		}
		for (size_t i = 0; i < have; i++)
			for (size_t j = i + 1; j < have; j++)
				if (sorted[j] < sorted[i]) {
					uint64_t held = sorted[i];
					sorted[i] = sorted[j];
					sorted[j] = held;
				}
		check_in_round(round, gm_rank_table_finish(&table));
		check_in_round(round, table.rows.count == 1);
		const struct gm_rank_row *row = &table.rows.items[0];
		check_in_round(round, row->cells.count == have && row->least == sorted[0] &&
		                              row->median == sorted[(have - 1) / 2] &&
		                              row->most == sorted[have - 1]);
		check_in_round(round, values[row->least_in] == row->least);
		check_in_round(round, values[row->most_in] == row->most);
		gm_rank_table_deinit(&table);
	}
}

/* --- groups ----------------------------------------------------------------------------------- */

enum { FILES = 40, LINES = 6 };

/* A comparison of files whose lines have these bytes. */
static void compare_of(uint64_t bytes[LINES][FILES], struct gm_compared_file files[FILES],
        struct gm_compared_row rows[LINES], struct gm_compare *ret_compare)
{
	static struct gm_compared_cell cells[LINES][FILES];
	*ret_compare = (struct gm_compare){.files = files, .count = FILES, .table_count = 1};
	ret_compare->tables[0] = (struct gm_compared_table){.rows = rows, .count = LINES};
	for (size_t i = 0; i < FILES; i++) {
		files[i] = (struct gm_compared_file){.has_device = true};
		for (size_t j = 0; j < LINES; j++)
			files[i].allocated += bytes[j][i];
	}
	for (size_t j = 0; j < LINES; j++) {
		rows[j] = (struct gm_compared_row){.cells = cells[j]};
		for (size_t i = 0; i < FILES; i++)
			if (bytes[j][i])
				cells[j][rows[j].count++] =
				        (struct gm_compared_cell){(uint32_t)i, bytes[j][i], 1};
	}
}

static void stages_are_groups_and_what_was_planted_stands_out(void **state)
{
	for (uint64_t round = 0; round < random_rounds(100); round++) {
		struct random random = random_of_round(round);
		uint64_t bytes[LINES][FILES] = {0};
		struct gm_compared_file files[FILES];
		struct gm_compared_row rows[LINES];
		struct gm_compare compare;
		struct gm_rank_groups groups;
		size_t stages = 1 + random_below(&random, 4), odd = random_below(&random, FILES);
		for (size_t i = 0; i < FILES; i++) {
			/* each stage at a line of its own, and a bit of noise */
			bytes[i % stages][i] = (UINT64_C(100) << 20) + random_below(&random, 4096);
			bytes[4][i] = UINT64_C(50) << 20;
		}
		bytes[5][odd] = UINT64_C(60) << 20;
		compare_of(bytes, files, rows, &compare);
		check_in_round(round, !gm_rank_groups(&compare, &groups));
		check_in_round(round, groups.items.count == stages && groups.alone == 1);
		for (size_t i = 0; i < stages; i++)
			for (size_t j = 0; j < groups.items.items[i].files.count; j++)
				check_in_round(round,
				        groups.items.items[i].files.items[j] % stages ==
				                groups.items.items[i].files.items[0] % stages);
		check_in_round(round, groups.odd.count == 1);
		const struct gm_rank_odd *found = &groups.odd.items[0];
		check_in_round(round, found->file == odd && found->alone && found->row == 5);
		check_in_round(round, found->bytes == UINT64_C(60) << 20 && found->usual == 0);
		gm_rank_groups_deinit(&groups);
	}
}

/* --- bytes ------------------------------------------------------------------------------------ */

static void damaged_bytes_are_bad_and_never_read_beyond(void **state)
{
	for (uint64_t round = 0; round < random_rounds(2000); round++) {
		struct random random = random_of_round(round);
		struct gm_strings strings = {0}, other = {0};
		struct gm_codec codec;
		uint32_t name = gm_strings_add(&strings, "train.py:7 in train");
		uint64_t number = random_word(&random) >> random_below(&random, 64);
		struct gm_string_numbers numbers = {0};
		gm_codec_write(&codec, &strings);
		gm_code_strings(&codec, NULL);
		gm_code_string(&codec, &name);
		gm_code_u64(&codec, &number);
		check_in_round(round, !codec.bad);
		/* a copy of its own, so that a sanitizer sees what reads beyond it */
		size_t size = random_below(&random, (uint32_t)codec.out.count + 1);
		uint8_t *bytes = malloc(size + 1);
		memcpy(bytes, codec.out.items, size);
		bool whole = size == codec.out.count;
		if (size && random_once_in(&random, 2)) {
			bytes[random_below(&random, (uint32_t)size)] ^=
			        (uint8_t)(1 + random_below(&random, 255));
			whole = false;
		}
		struct gm_codec reading;
		uint32_t read_name = 0;
		uint64_t read_number = 0;
		gm_codec_read(&reading, bytes, size, &other);
		gm_code_strings(&reading, &numbers);
		gm_code_string(&reading, &read_name);
		gm_code_u64(&reading, &read_number);
		check_in_round(round, reading.in.at <= reading.in.end);
		check_in_round(round, read_name <= other.items.count);
		if (whole)
			check_in_round(round, !reading.bad && read_number == number &&
			                              !strcmp(gm_strings_at(&other, read_name),
			                                      "train.py:7 in train"));
		gm_codec_deinit(&codec);
		gm_codec_deinit(&reading);
		gm_array_deinit(&numbers.of);
		gm_strings_deinit(&strings);
		gm_strings_deinit(&other);
		free(bytes);
	}
}

/* --- numbers of ranks ------------------------------------------------------------------------- */

static struct gm_job job_of(const char *const *paths)
{
	struct gm_job job = {0};
	for (size_t i = 0; paths[i]; i++) {
		struct gm_rank_summary file = {.path = gm_strings_add(&job.strings, paths[i])};
		for (unsigned j = 0; j < GM_JOB_NUMBERS; j++)
			file.numbers[j] = GM_RANK_NONE;
		assert_true(gm_array_push(&job.files, file));
	}
	return job;
}

static void check_numbers(const char *const *paths, const uint32_t *expected, size_t missing)
{
	struct gm_job job = job_of(paths);
	assert_null(gm_job_number(&job));
	for (size_t i = 0; i < job.files.count; i++)
		assert_int_equal(gm_rank_of(&job.files.items[i]), expected[i]);
	assert_int_equal(job.missing_count, missing);
	gm_job_deinit(&job);
}

static void ranks_are_the_number_in_which_names_differ(void **state)
{
	const char *const plain[] = {
	        "j/run.10.gpumem", "j/run.2.gpumem", "j/run.0.gpumem", "j/run.1.gpumem", NULL};
	check_numbers(plain, (const uint32_t[]){0, 1, 2, 10}, 7);
	/* the process's number behind it is no rank */
	const char *const pids[] = {"run.0.51234", "run.1.51231", "run.2.49999", NULL};
	check_numbers(pids, (const uint32_t[]){0, 1, 2}, 0);
	const char *const folders[] = {"node7/rank0/snapshot_3.pickle",
	        "node7/rank1/snapshot_3.pickle", "node8/rank2/snapshot_3.pickle", NULL};
	check_numbers(folders, (const uint32_t[]){0, 1, 2}, 0);
	const char *const from_one[] = {"r1", "r2", "r3", NULL};
	check_numbers(from_one, (const uint32_t[]){1, 2, 3}, 0);
	const char *const none[] = {"before.gpumem", "after.gpumem", NULL};
	check_numbers(none, (const uint32_t[]){GM_RANK_NONE, GM_RANK_NONE}, 0);
}

static void recorded_ranks_count_and_the_world_tells_who_is_missing(void **state)
{
	const char *const paths[] = {"a.gpumem", "b.gpumem", "c.gpumem", NULL};
	struct gm_job job = job_of(paths);
	const uint32_t ranks[] = {4, 0, 2};
	for (size_t i = 0; i < 3; i++) {
		job.files.items[i].numbers[GM_JOB_RANK] = ranks[i];
		job.files.items[i].numbers[GM_JOB_WORLD] = 6;
	}
	assert_null(gm_job_number(&job));
	assert_int_equal(job.known, GM_RANK_RECORDED);
	assert_int_equal(job.world, 6);
	assert_int_equal(job.missing_count, 3);
	assert_int_equal(job.missing.items[0], 1);
	assert_int_equal(job.missing.items[1], 3);
	assert_int_equal(job.missing.items[2], 5);
	gm_job_deinit(&job);
}

/* Files with a rank and the seconds of its first and last event. */
static struct gm_job job_of_times(const char *const *paths, const uint32_t (*of)[3])
{
	struct gm_job job = job_of(paths);
	for (size_t i = 0; i < job.files.count; i++) {
		struct gm_rank_summary *file = &job.files.items[i];
		file->numbers[GM_JOB_RANK] = of[i][0];
		file->numbers[GM_JOB_WORLD] = 2;
		file->start_ns = of[i][1] * UINT64_C(1000000000);
		file->end_ns = of[i][2] * UINT64_C(1000000000);
		file->pid = 100 + i;
	}
	return job;
}

static void processes_of_one_rank_that_ran_at_the_same_time_all_count(void **state)
{
	const char *const pids[] = {"run.907", "run.911", "run.1800", "run.1801", NULL};
	const uint32_t spawned[][3] = {{0, 5, 90}, {0, 6, 90}, {1, 5, 91}, {1, 6, 91}};
	struct gm_job job = job_of_times(pids, spawned);
	assert_null(gm_job_number(&job));
	assert_int_equal(job.known, GM_RANK_NOT_KNOWN);
	assert_int_equal(job.files.count, 4);
	assert_int_equal(job.older.count, 0);
	assert_int_equal(job.together, 2);
	assert_int_equal(job.world, 0);
	gm_job_deinit(&job);
	/* the names tell them apart */
	const char *const names[] = {"run.3", "run.2", "run.1", "run.0", NULL};
	job = job_of_times(names, spawned);
	assert_null(gm_job_number(&job));
	assert_int_equal(job.known, GM_RANK_BY_NAME);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(gm_rank_of(&job.files.items[i]), i);
	assert_int_equal(job.missing_count, 0);
	gm_job_deinit(&job);
	/* or do not */
	const char *const again[] = {
	        "r.0.gpumem", "r.0.gpumem.17", "r.1.gpumem", "r.1.gpumem.18", NULL};
	job = job_of_times(again, spawned);
	assert_null(gm_job_number(&job));
	assert_int_equal(job.known, GM_RANK_NOT_KNOWN);
	assert_int_equal(job.files.count, 4);
	gm_job_deinit(&job);
}

static void a_rank_that_was_started_again_has_one_file_that_counts(void **state)
{
	const char *const again[] = {
	        "r.0.gpumem", "r.0.gpumem.17", "r.1.gpumem", "r.1.gpumem.18", NULL};
	const uint32_t restarted[][3] = {{0, 5, 40}, {0, 41, 90}, {1, 5, 40}, {1, 41, 90}};
	struct gm_job job = job_of_times(again, restarted);
	assert_null(gm_job_number(&job));
	assert_int_equal(job.known, GM_RANK_RECORDED);
	assert_int_equal(job.files.count, 2);
	assert_int_equal(job.older.count, 2);
	assert_int_equal(job.together, 0);
	gm_job_deinit(&job);
	/* Two snapshots, which have no process id, may be of one process. */
	const uint32_t ring[][3] = {{0, 5, 40}, {0, 30, 90}, {1, 5, 40}, {1, 41, 90}};
	job = job_of_times(again, ring);
	for (size_t i = 0; i < 4; i++)
		job.files.items[i].pid = 0;
	assert_null(gm_job_number(&job));
	assert_int_equal(job.files.count, 2);
	assert_int_equal(job.together, 0);
	gm_job_deinit(&job);
	/* A copy is of the same process. */
	const uint32_t copied[][3] = {{0, 5, 40}, {0, 5, 40}, {1, 5, 40}, {1, 41, 90}};
	job = job_of_times(again, copied);
	job.files.items[1].pid = job.files.items[0].pid;
	assert_null(gm_job_number(&job));
	assert_int_equal(job.known, GM_RANK_RECORDED);
	assert_int_equal(job.files.count, 2);
	gm_job_deinit(&job);
}

static void check_unreadable(const char *const *paths, uint32_t rank, size_t missing)
{
	struct gm_job job = job_of(paths);
	for (size_t i = 0; i < job.files.count; i++) {
		struct gm_rank_summary *file = &job.files.items[i];
		if (strstr(paths[i], "bad")) {
			file->state = GM_RANK_UNREADABLE;
			continue;
		}
		file->numbers[GM_JOB_RANK] = (uint32_t)i;
		file->numbers[GM_JOB_WORLD] = 4;
	}
	assert_null(gm_job_number(&job));
	assert_int_equal(job.known, GM_RANK_RECORDED);
	assert_int_equal(job.missing_count, missing);
	assert_int_equal(job.missing.count, missing);
	for (size_t i = 0; i < job.files.count; i++)
		if (job.files.items[i].state == GM_RANK_UNREADABLE)
			assert_int_equal(gm_rank_of(&job.files.items[i]), rank);
	gm_job_deinit(&job);
}

static void what_cannot_be_read_has_the_rank_of_its_name_and_is_not_missing(void **state)
{
	const char *const named[] = {"0/9/a.3", "1/9/a.3", "2/9/a.3", "3/9/bad.3", NULL};
	check_unreadable(named, 3, 0);
	const char *const last[] = {"run.0", "run.1", "bad/run.3", NULL};
	check_unreadable(last, 3, 1);
	/* no number of the names is the rank; which of the two is missing cannot be told */
	const char *const others[] = {"run.9", "run.5", "run.4", "bad.0", NULL};
	check_unreadable(others, GM_RANK_NONE, 0);
	const char *const two[] = {"x", "y", "bad.2", NULL};
	check_unreadable(two, GM_RANK_NONE, 2);
	/* more than the recorded number of ranks, and a rank that another file has */
	const char *const high[] = {"run.0", "run.1", "run.2", "bad.7", NULL};
	check_unreadable(high, GM_RANK_NONE, 0);
	const char *const taken[] = {"run.0", "run.1", "run.2", "bad.2", NULL};
	check_unreadable(taken, GM_RANK_NONE, 0);
}

static void what_two_machines_have_read_counts_once(void **state)
{
	const char *const paths[] = {"run.0", "run.1", "run.0", "run.1", NULL};
	struct gm_job job = job_of(paths);
	for (size_t i = 0; i < 4; i++) {
		job.files.items[i].host = gm_strings_add(&job.strings, i < 2 ? "node1" : "node2");
		job.files.items[i].size = 100;
	}
	assert_null(gm_job_number(&job));
	assert_int_equal(job.files.count, 2);
	assert_int_equal(job.doubles, 2);
	gm_job_deinit(&job);
}

/* What is said of a job of two files, of which `told` have an empty section. */
static void check_said(enum gm_section section, size_t told, const char *expected)
{
	const char *const paths[] = {"run.0", "run.1", NULL};
	struct gm_job job = job_of(paths);
	struct gm_codec codecs[2];
	struct gm_string_numbers numbers = {0};
	struct gm_ranks_answer answer;
	_cleanup_free_ void *empty = calloc(1, gm_sections[section]->size);
	_cleanup_free_ char *text = NULL;
	size_t size;
	for (size_t i = 0; i < 2; i++) {
		struct gm_rank_summary *file = &job.files.items[i];
		gm_codec_write(&codecs[i], &job.strings);
		gm_sections[section]->code(&codecs[i], empty);
		file->closed = file->complete = true;
		file->strings = &numbers;
		file->sections[section] = (struct gm_summary_section){.there = i < told,
		        .bytes = codecs[i].out.items,
		        .size = codecs[i].out.count};
		if (i >= told)
			file->sections[section].why = gm_strings_add(&job.strings, "odd");
	}
	assert_null(gm_job_number(&job));
	assert_null(gm_ranks_answer(&job, section, &answer));
	FILE *out = open_memstream(&text, &size);
	const struct gm_style style = {0};
	assert_null(gm_render_ranks_rows(&job, &answer, &style, out));
	fclose(out);
	const char *said = strstr(text, "No ");
	assert_string_equal(said ? said : "", expected);
	gm_ranks_answer_deinit(&answer);
	gm_codec_deinit(&codecs[0]);
	gm_codec_deinit(&codecs[1]);
	gm_job_deinit(&job);
}

static void that_there_is_nothing_is_said_only_of_files_with_an_answer(void **state)
{
	check_said(GM_SECTION_OOM, 2, "No rank ran out of memory.\n");
	check_said(GM_SECTION_OOM, 1,
	        "No rank ran out of memory, in the 1 of 2 recordings that have an answer.\n");
	check_said(GM_SECTION_OOM, 0, "");
	check_said(GM_SECTION_LEAKS, 1,
	        "No leak: no line's blocks accumulate in any rank, in the 1 of 2 recordings that "
	        "have an answer.\n");
	check_said(GM_SECTION_COLLECTIVES, 0, "");
}

/* A summary that a process of one machine kept, and one of another machine reads. */
static void a_kept_summary_is_of_the_machine_that_reads_it(void **state)
{
	struct synthetic log;
	struct gm_strings strings = {0}, other = {0};
	struct gm_rank_summary summary, read;
	unsigned others;
	char kept[80];
	synthetic_begin(&log);
	assert_null(gm_log_writer_close(log.writer));
	assert_null(
	        gm_rank_summarise(log.path, "node1", 1U << GM_SECTION_PEAK, &strings, &summary));
	gm_kept_write(log.path, &strings, &summary);
	assert_true(gm_kept_read(log.path, "node2", 1U << GM_SECTION_PEAK, &other, &read, &others));
	assert_string_equal(gm_strings_at(&other, read.host), "node2");
	assert_string_equal(gm_strings_at(&other, read.path), log.path);
	assert_true(read.kept);
	gm_rank_summary_deinit(&summary);
	gm_rank_summary_deinit(&read);
	gm_strings_deinit(&strings);
	gm_strings_deinit(&other);
	snprintf(kept, sizeof(kept), "%s.summary", log.path);
	unlink(kept);
	unlink(log.path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(least_median_and_most_are_those_of_the_files_that_have_one),
	        cmocka_unit_test(stages_are_groups_and_what_was_planted_stands_out),
	        cmocka_unit_test(damaged_bytes_are_bad_and_never_read_beyond),
	        cmocka_unit_test(ranks_are_the_number_in_which_names_differ),
	        cmocka_unit_test(recorded_ranks_count_and_the_world_tells_who_is_missing),
	        cmocka_unit_test(processes_of_one_rank_that_ran_at_the_same_time_all_count),
	        cmocka_unit_test(a_rank_that_was_started_again_has_one_file_that_counts),
	        cmocka_unit_test(what_cannot_be_read_has_the_rank_of_its_name_and_is_not_missing),
	        cmocka_unit_test(what_two_machines_have_read_counts_once),
	        cmocka_unit_test(that_there_is_nothing_is_said_only_of_files_with_an_answer),
	        cmocka_unit_test(a_kept_summary_is_of_the_machine_that_reads_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
