/*
 * rank_recordings FOLDER RANKS EVENTS SEED [--odd RANK] [--leak RANK] [--oom RANK] [--stages N]
 * [--set RANK] [--world N] [--first RANK] [--devices 1] [--job N] [--short 1] [--small RANK]
 * [--other RANK] [--begin N] [--late 1] [--pid N] [--per-node N]: writes run.R.gpumem of each rank
 * of a job that never ran. The ranks train one model and differ as those of a real job do: in the
 * sizes of what depends on their data. The odd rank keeps 64 MiB at a line that no other rank has
 * run; the one that leaks keeps something of each step; the last one runs out of memory. With
 * stages, rank R is of stage R % N, and each stage has other layers. One rank may have other
 * settings of the allocator; with a world, ranks record their variables. With --devices 1, rank R
 * works on cuda:R, and the others than rank 0 have 10 MiB on cuda:0 too. --job N is the number of a
 * job of Slurm.
 * --short 1: steps of one block, of which step 5001 has the largest. The small rank has a GPU of 40
 * GiB, the others of 80 GiB. The other rank makes its model at another line. The job begins N
 * seconds after the others.
 * --late 1: the start of the recording is when it was written, after all events. --pid N: of rank
 * 0, the others have those that follow. --per-node N: the paths of the program begin with
 * the name of the node, which N ranks share.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/log.h"

enum { LAYERS = 24, KEPT_MOST = 4096, MIB = 1 << 20 };

struct held {
	uint64_t address, size;
};

struct run {
	struct gm_log_writer *log;
	uint64_t random, allocated, reserved, begin, time, next;
	uint32_t rank, stage, per_node;
	int16_t device;
	uint32_t main, model, layers[LAYERS], backward, optimizer, odd, leak, loss;
	struct held kept[KEPT_MOST];
	size_t kept_count;
};

static void stop_at(struct gm_error *error)
{
	if (!error)
		return;
	fprintf(stderr, "rank_recordings: %s\n", error->message);
	exit(1);
}

static uint64_t next_random(struct run *run)
{
	run->random ^= run->random << 13;
	run->random ^= run->random >> 7;
	return run->random ^= run->random << 17;
}

static uint32_t stack_of(struct run *run, const char *file, const char *function, uint32_t line)
{
	char path[64], own[64];
	if (run->per_node) {
		uint32_t node = run->rank / run->per_node;
		snprintf(path, sizeof(path), "/node%" PRIu32 "%s", node, file);
		snprintf(own, sizeof(own), "/node%" PRIu32 "/job/train.py", node);
		file = path;
	}
	const struct gm_log_code codes[] = {
	        {gm_log_writer_string(run->log, file), gm_log_writer_string(run->log, function), 1},
	        {gm_log_writer_string(run->log, run->per_node ? own : "/job/train.py"),
	                gm_log_writer_string(run->log, "main"), 1}};
	const struct gm_log_frame frames[] = {
	        {gm_log_writer_code(run->log, &codes[0]), 2 * line, line, 0, 0},
	        {gm_log_writer_code(run->log, &codes[1]), 40, 20, 0, 0}};
	const uint32_t ids[] = {gm_log_writer_frame(run->log, &frames[0]),
	        gm_log_writer_frame(run->log, &frames[1])};
	return gm_log_writer_python_stack(run->log, ids, 2);
}

static void put_event(struct run *run, enum gm_action action, struct held held, uint32_t stack)
{
	const struct gm_event event = {.action = (uint8_t)action,
	        .device_type = 1,
	        .device = run->device,
	        .thread = 1,
	        .time_ns = run->time += 1000,
	        .address = held.address,
	        .size = held.size,
	        .requested = held.size,
	        .allocated = run->allocated,
	        .reserved = run->reserved,
	        .python_stack = stack};
	gm_log_writer_event(run->log, &event);
}

static struct held allocate(struct run *run, uint64_t size, uint32_t stack)
{
	const struct held held = {run->next, (size + 511) / 512 * 512};
	run->next += (held.size + 2 * MIB) / (2 * MIB) * (2 * MIB);
	run->reserved += held.size;
	put_event(run, GM_SEGMENT_ALLOC, held, stack);
	run->allocated += held.size;
	put_event(run, GM_ALLOC, held, stack);
	return held;
}

static void release(struct run *run, struct held held, uint32_t stack)
{
	run->allocated -= held.size;
	put_event(run, GM_FREE_REQUESTED, held, stack);
	put_event(run, GM_FREE_COMPLETED, held, stack);
	run->reserved -= held.size;
	put_event(run, GM_SEGMENT_FREE, held, stack);
}

static void step_begins(struct run *run, uint64_t events)
{
	const struct gm_log_mark mark = {events, 1, GM_MARK_STEP, 0};
	gm_log_writer_mark(run->log, &mark);
}

/* Forward, backward, optimizer: 10 events a layer. */
static void run_step(struct run *run, bool leaks)
{
	struct held activations[LAYERS], gradients[LAYERS];
	for (unsigned i = 0; i < LAYERS; i++)
		activations[i] =
		        allocate(run, 2 * MIB + next_random(run) % (256 << 10), run->layers[i]);
	const struct held loss = allocate(run, 4 * MIB, run->loss);
	for (unsigned i = LAYERS; i-- > 0;) {
		gradients[i] = allocate(run, (1 + run->stage) * MIB, run->backward);
		release(run, activations[i], run->backward);
	}
	release(run, loss, run->backward);
	for (unsigned i = 0; i < LAYERS; i++)
		release(run, gradients[i], run->optimizer);
	if (leaks && run->kept_count < KEPT_MOST)
		run->kept[run->kept_count++] = allocate(run, 1 * MIB, run->leak);
}

struct options {
	uint32_t ranks, first, odd, leak, oom, stages, set, parallel, devices, job, short_steps,
	        small, other, begin, late, pid, per_node;
	uint64_t events, seed;
};

static void write_rank(const char *folder, uint32_t rank, const struct options *options)
{
	static struct run run;
	char path[4096];
	snprintf(path, sizeof(path), "%s/run.%" PRIu32 ".gpumem", folder, rank);
	const uint64_t begin = (UINT64_C(1700000000) + options->begin) * 1000000000 + rank;
	run = (struct run){.rank = rank,
	        .stage = rank % options->stages,
	        .random = (options->seed + 1) * UINT64_C(0x9e3779b97f4a7c15) + rank,
	        .per_node = options->per_node,
	        .begin = begin,
	        .time = begin,
	        .next = UINT64_C(0x7f0000000000)};
	const struct gm_log_writer_options how = {.source = "python train.py",
	        .pid = options->pid + rank,
	        .start_ns = options->late ? 0 : begin};
	stop_at(gm_log_writer_create(path, &how, &run.log));
	if (rank == options->set)
		gm_log_writer_setting(run.log, "PYTORCH_ALLOC_CONF", "expandable_segments:True");
	if (options->parallel) {
		char value[16];
		snprintf(value, sizeof(value), "%" PRIu32, run.stage);
		gm_log_writer_setting(run.log, "PP_RANK", value);
		snprintf(value, sizeof(value), "%" PRIu32, rank);
		gm_log_writer_setting(run.log, "RANK", value);
		snprintf(value, sizeof(value), "%" PRIu32, options->parallel);
		gm_log_writer_setting(run.log, "WORLD_SIZE", value);
	}
	if (options->small != UINT32_MAX)
		gm_log_writer_counter(run.log, "device.0.total",
		        rank == options->small ? UINT64_C(40) << 30 : UINT64_C(80) << 30);
	if (options->job) {
		char value[16];
		snprintf(value, sizeof(value), "%" PRIu32, options->job);
		gm_log_writer_setting(run.log, "SLURM_JOB_ID", value);
	}
	for (unsigned i = 0; i < LAYERS; i++)
		run.layers[i] =
		        stack_of(&run, "/job/model.py", "Block.forward", 30 + 100 * run.stage + i);
	run.model = stack_of(
	        &run, "/job/model.py", "Model.__init__", rank == options->other ? 510 : 10);
	run.backward = stack_of(&run, "/job/train.py", "backward", 24);
	run.optimizer = stack_of(&run, "/job/train.py", "optimize", 26);
	run.odd = stack_of(&run, "/job/train.py", "keep_for_debugging", 77);
	run.leak = stack_of(&run, "/job/train.py", "log_metrics", 88);
	run.loss = stack_of(&run, "/job/train.py", "loss", 22);
	if (options->devices && rank) {
		allocate(&run, 10 * MIB, run.model);
		run.allocated = run.reserved = 0;
		run.device = (int16_t)rank;
	}
	for (unsigned i = 0; i < LAYERS; i++)
		allocate(&run, (1 + run.stage) * MIB, run.model);
	for (unsigned i = 0; i < LAYERS; i++)
		allocate(&run, 2 * (1 + run.stage) * MIB, run.optimizer);
	if (rank == options->odd)
		allocate(&run, 64 * MIB, run.odd);
	uint64_t per_step = options->short_steps ? 6 : 6 * (2 * LAYERS + 1) - LAYERS,
	         events = 4 * LAYERS;
	for (; events < options->events; events += per_step) {
		step_begins(&run, (run.time - run.begin) / 1000);
		if (options->short_steps)
			release(&run,
			        allocate(&run, (events == 4 * LAYERS + 5000 * 6 ? 8 : 4) * MIB,
			                run.loss),
			        run.loss);
		else
			run_step(&run, rank == options->leak);
	}
	if (rank == options->oom)
		put_event(&run, GM_OOM, (struct held){0, UINT64_C(8) << 30}, run.loss);
	stop_at(gm_log_writer_close(run.log));
}

int main(int argc, char **argv)
{
	struct options options = {.odd = UINT32_MAX,
	        .leak = UINT32_MAX,
	        .oom = UINT32_MAX,
	        .set = UINT32_MAX,
	        .small = UINT32_MAX,
	        .other = UINT32_MAX,
	        .pid = 1000,
	        .stages = 1};
	if (argc < 5) {
		fprintf(stderr, "usage: rank_recordings FOLDER RANKS EVENTS SEED [OPTION N ...]\n");
		return 2;
	}
	options.ranks = (uint32_t)strtoul(argv[2], NULL, 10);
	options.events = strtoull(argv[3], NULL, 10);
	options.seed = strtoull(argv[4], NULL, 10);
	const struct {
		const char *name;
		uint32_t *value;
	} known[] = {{"--odd", &options.odd}, {"--leak", &options.leak}, {"--oom", &options.oom},
	        {"--stages", &options.stages}, {"--set", &options.set},
	        {"--world", &options.parallel}, {"--devices", &options.devices},
	        {"--job", &options.job}, {"--short", &options.short_steps},
	        {"--small", &options.small}, {"--other", &options.other},
	        {"--first", &options.first}, {"--begin", &options.begin}, {"--late", &options.late},
	        {"--pid", &options.pid}, {"--per-node", &options.per_node}};
	for (int i = 5; i + 1 < argc; i += 2)
		for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
			if (strcmp(argv[i], known[k].name) == 0)
				*known[k].value = (uint32_t)strtoul(argv[i + 1], NULL, 10);
	if (options.stages == 0)
		options.stages = 1;
	for (uint32_t rank = options.first; rank < options.first + options.ranks; rank++)
		write_rank(argv[1], rank, &options);
	return 0;
}
