/*
 * How a log and its model scale: writes a synthetic run of N events, then times opening it and
 * making the model, and the state at random events; and tells the memory an event costs. The run is
 * a training loop, or allocations and frees at random, which no cache foresees. Usage: bench_log
 * [EVENTS] [FILE] [random|training] [packed]; prints JSON.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "log/log.h"
#include "model/model.h"

enum { STACKS = 500, DEPTH = 22, LIVE = 4000 };

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void check(struct gm_error *error)
{
	if (!error)
		return;
	fprintf(stderr, "bench_log: %s\n", error->message);
	exit(error->status);
}

static uint64_t next(uint64_t *random)
{
	*random = *random * 6364136223846793005ull + 1442695040888963407ull;
	return *random >> 33;
}

/* Stacks of DEPTH frames under one loop; their outermost frame's offset grows with the stack's
 * number, so that a run over all of them is one pass of the loop. */
static void write_stacks(struct gm_log_writer *writer, uint32_t *ret_python, uint32_t *ret_native)
{
	const struct gm_log_loop loop = {100, 100 + STACKS * 2, 3, 9};
	uint32_t file = gm_log_writer_string(writer, "train.py");
	uint32_t name = gm_log_writer_string(writer, "train");
	const struct gm_log_code code = {file, name, 1, 1, &loop};
	uint32_t outer = gm_log_writer_code(writer, &code);
	for (uint32_t i = 0; i < STACKS; i++) {
		uint32_t frames[DEPTH];
		uint64_t addresses[2 * DEPTH];
		for (uint32_t j = 0; j < DEPTH; j++) {
			const struct gm_log_code inner = {file, name, 10 + j, 0, NULL};
			const struct gm_log_frame frame =
			        j + 1 == DEPTH
			                ? (struct gm_log_frame){outer, 100 + 2 * i, 4, 0, 0}
			                : (struct gm_log_frame){
			                          gm_log_writer_code(writer, &inner), i, i, 0, 0};
			frames[j] = gm_log_writer_frame(writer, &frame);
		}
		for (uint32_t j = 0; j < 2 * DEPTH; j++)
			addresses[j] = 0x7f0000000000 + (i * 977 + j * 131071) % 100000000;
		ret_python[i] = gm_log_writer_python_stack(writer, frames, DEPTH);
		ret_native[i] = gm_log_writer_native_stack(writer, addresses, 2 * DEPTH);
	}
}

static void write_random(struct gm_log_writer *writer, uint64_t events)
{
	uint32_t python[STACKS], native[STACKS];
	write_stacks(writer, python, native);
	static uint64_t sizes[LIVE];
	uint64_t random = 1, allocated = 0, time = 0;
	for (uint64_t n = 0; n < events;) {
		uint32_t slot = (uint32_t)(next(&random) % LIVE),
		         stack = (uint32_t)(n / 3 % STACKS);
		struct gm_event event = {
		        .device_type = 1,
		        .thread = 1,
		        .time_ns = time += 900 + next(&random) % 200,
		        .address = 0x7e0000000000 + (uint64_t)slot * (1 << 21),
		        .reserved = UINT64_C(80) << 30,
		        .python_stack = python[stack],
		        .native_stack = native[stack],
		};
		if (sizes[slot]) {
			event.size = event.requested = sizes[slot];
			allocated -= sizes[slot];
			sizes[slot] = 0;
			event.allocated = allocated;
			event.action = GM_FREE_REQUESTED;
			gm_log_writer_event(writer, &event);
			event.action = GM_FREE_COMPLETED;
			gm_log_writer_event(writer, &event);
			n += 2;
		} else {
			event.size = sizes[slot] = 512 * (1 + next(&random) % 4000);
			event.requested = event.size - next(&random) % 512;
			event.allocated = allocated += event.size;
			event.action = GM_ALLOC;
			gm_log_writer_event(writer, &event);
			n++;
		}
	}
}

/* ---- a training loop ------------------------------------------------------------------------- */

enum { LAYERS = 300, PER_LAYER = 4 };

/* One of what the loop's body calls: a statement of it, and the frames of PyTorch's below. */
struct call {
	const char *file, *function;
	uint32_t offset;                                                 /* in the loop's code */
	uint32_t python[LAYERS * PER_LAYER], native[LAYERS * PER_LAYER]; /* stacks, once made */
};
static struct call forward = {
        .file = "/usr/lib/python3/dist-packages/torch/nn/modules/module.py",
        .function = "Module._call_impl",
        .offset = 120,
};
static struct call backward = {
        .file = "/usr/lib/python3/dist-packages/torch/autograd/graph.py",
        .function = "_engine_run_backward",
        .offset = 140,
};
static struct call optimizer = {
        .file = "/usr/lib/python3/dist-packages/torch/optim/adamw.py",
        .function = "AdamW.step",
        .offset = 160,
};
static struct call zero_grad = {
        .file = "/usr/lib/python3/dist-packages/torch/optim/optimizer.py",
        .function = "Optimizer.zero_grad",
        .offset = 110,
};

struct training {
	struct gm_log_writer *writer;
	uint32_t outer;           /* code of the loop */
	struct gm_event event;    /* the last */
	uint64_t random, written; /* events */
	uint32_t *places; /* free ones, those freed last on top, as a caching allocator does */
	size_t place_count;
};

struct life {
	uint32_t place;
	uint64_t size, requested;
};

/* Ten frames of the user's, one of PyTorch's, and what that calls: a stack of each layer and
 * statement. */
static void make_stack(struct training *training, struct call *call, uint32_t layer)
{
	struct gm_log_writer *writer = training->writer;
	uint32_t file = gm_log_writer_string(writer, "train.py");
	uint32_t frames[DEPTH];
	uint64_t addresses[DEPTH];
	for (uint32_t i = 0; i < DEPTH; i++) {
		char name[32];
		snprintf(name, sizeof(name), "function_%u", i);
		struct gm_log_code code = {
		        file, gm_log_writer_string(writer, name), 10 * i, 0, NULL};
		if (i == DEPTH / 2)
			code = (struct gm_log_code){gm_log_writer_string(writer, call->file),
			        gm_log_writer_string(writer, call->function), 1000, 0, NULL};
		struct gm_log_frame frame = {0, i < DEPTH / 2 ? 2 * layer : 2, 10 * i + 1, 0, 0};
		if (i + 1 == DEPTH)
			frame = (struct gm_log_frame){training->outer, call->offset, 7, 0, 0};
		else
			frame.code = gm_log_writer_code(writer, &code);
		frames[i] = gm_log_writer_frame(writer, &frame);
		addresses[i] =
		        0x7f0000000000 + (layer * 977 + i * 131071 + call->offset) % 100000000;
	}
	call->python[layer] = gm_log_writer_python_stack(writer, frames, DEPTH);
	call->native[layer] = gm_log_writer_native_stack(writer, addresses, DEPTH);
}

static void stand(struct training *training, struct call *call, uint32_t layer)
{
	if (!call->python[layer])
		make_stack(training, call, layer);
	training->event.python_stack = call->python[layer];
	training->event.native_stack = call->native[layer];
}

static void append(struct training *training, enum gm_action action, const struct life *life)
{
	struct gm_event *event = &training->event;
	event->action = (uint8_t)action;
	event->time_ns += 900 + next(&training->random) % 200;
	event->address = 0x7e0000000000 + (uint64_t)life->place * (1 << 21);
	event->size = life->size;
	event->requested = action == GM_ALLOC ? life->requested : life->size;
	gm_log_writer_event(training->writer, event);
	training->written++;
}

static struct life allocate(
        struct training *training, struct call *call, uint32_t layer, uint64_t size)
{
	struct life life = {
	        training->places[--training->place_count], (size + 511) & ~511ull, size};
	stand(training, call, layer);
	training->event.allocated += life.size;
	append(training, GM_ALLOC, &life);
	return life;
}

static void release(struct training *training, struct call *call, uint32_t layer, struct life life)
{
	stand(training, call, layer);
	training->event.allocated -= life.size;
	append(training, GM_FREE_REQUESTED, &life);
	append(training, GM_FREE_COMPLETED, &life);
	training->places[training->place_count++] = life.place;
}

/* A step of LAYERS layers: activations, which backward frees from the last to the first while it
 * leaves gradients; temporaries of each, and the optimizer's; gradients freed before the next. */
static void write_step(struct training *training, struct life *gradients, struct life *activations)
{
	for (uint32_t i = 0; gradients[0].size && i < LAYERS; i++)
		release(training, &zero_grad, i, gradients[i]);
	for (uint32_t i = 0; i < LAYERS * PER_LAYER; i++) {
		activations[i] =
		        allocate(training, &forward, i, 100000 + next(&training->random) % 4000000);
		if (i % 3 == 0)
			release(training, &forward, i, allocate(training, &forward, i, 50000));
	}
	for (uint32_t i = LAYERS * PER_LAYER; i-- > 0;) {
		struct life temporary = allocate(training, &backward, i, activations[i].size);
		if (i % PER_LAYER == 0)
			gradients[i / PER_LAYER] =
			        allocate(training, &backward, i, 4 * (1000000 + i * 512));
		release(training, &backward, i, activations[i]);
		release(training, &backward, i, temporary);
	}
	for (uint32_t i = 0; i < LAYERS; i++)
		release(training, &optimizer, i, allocate(training, &optimizer, i, 4000000));
}

static void write_training(struct gm_log_writer *writer, uint64_t events)
{
	enum { PLACES = LAYERS * (PER_LAYER + 3) };
	static uint32_t places[PLACES];
	static struct life gradients[LAYERS], activations[LAYERS * PER_LAYER];
	const struct gm_log_loop loop = {100, 200, 3, 9};
	const struct gm_log_code code = {gm_log_writer_string(writer, "train.py"),
	        gm_log_writer_string(writer, "<module>"), 1, 1, &loop};
	struct training training = {.writer = writer,
	        .outer = gm_log_writer_code(writer, &code),
	        .event = {.device_type = 1, .thread = 1, .reserved = UINT64_C(80) << 30},
	        .random = 1,
	        .places = places,
	        .place_count = PLACES};
	for (uint32_t i = 0; i < PLACES; i++)
		places[i] = PLACES - i;
	while (training.written < events)
		write_step(&training, gradients, activations);
}

static void write_log(const char *path, uint64_t events, bool is_training, bool packed)
{
	struct gm_log_writer *writer;
	const struct gm_log_writer_options options = {.source = "bench_log", .packed = packed};
	check(gm_log_writer_create(path, &options, &writer));
	if (is_training)
		write_training(writer, events);
	else
		write_random(writer, events);
	check(gm_log_writer_close(writer));
}

/* The time that the state at a random event takes: the mean and the longest, in microseconds. */
static void time_states(
        const struct gm_model *model, uint64_t events, double *ret_mean, double *ret_most)
{
	enum { TIMES = 1000 };
	uint64_t random = 7;
	double sum = 0, most = 0;
	for (int i = 0; i < TIMES; i++) {
		uint64_t event = next(&random) % events;
		double start = now();
		volatile uint64_t allocated = gm_model_usage_after(model, 0, event).allocated;
		double took = now() - start;
		(void)allocated;
		sum += took;
		most = took > most ? took : most;
	}
	*ret_mean = sum / TIMES * 1e6;
	*ret_most = most * 1e6;
}

static size_t heap(void)
{
	struct mallinfo2 info = mallinfo2();
	return info.uordblks + info.hblkhd;
}

int main(int argc, char **argv)
{
	uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
	char path[] = "/tmp/gpumem-bench-XXXXXX";
	const char *name = argc > 2 ? argv[2] : path;
	if (argc <= 2)
		close(mkstemp(path));
	double start = now();
	write_log(name, events, argc > 3 && strcmp(argv[3], "training") == 0,
	        argc > 4 && strcmp(argv[4], "packed") == 0);
	double written = now();
	struct stat status = {0};
	stat(name, &status);
	size_t before = heap();
	struct gm_log *log;
	struct gm_model *model;
	double opening = now();
	check(gm_log_open(name, &log));
	double opened = now();
	check(gm_model_create(log, &model));
	double made = now();
	size_t after = heap();
	double count = (double)gm_log_event_count(log);
	const struct gm_model_device *device = gm_model_device(model, 0);
	double mean, most;
	time_states(model, gm_log_event_count(log), &mean, &most);
	printf("{\"events\": %.0f, \"file_bytes_per_event\": %.2f, \"write_ns_per_event\": %.0f, "
	       "\"open_s\": %.3f, \"model_s\": %.3f, \"memory_bytes_per_event\": %.2f, "
	       "\"state_us\": %.1f, \"state_us_most\": %.1f, "
	       "\"peak_allocated\": %" PRIu64 ", \"steps\": %u}\n",
	        count, (double)status.st_size / count, (written - start) * 1e9 / count,
	        opened - opening, made - opened, (double)(after - before) / count, mean, most,
	        device->peak.allocated, gm_model_step_count(model));
	gm_model_destroy(model);
	gm_log_close(log);
	if (argc <= 2)
		unlink(path);
	return 0;
}
