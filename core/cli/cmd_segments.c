#include "base/cleanup.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/target.h"
#include "render/memory.h"

extern const struct gm_command gm_command_segments;

struct options {
	struct gm_context *context;
	bool has_event, at_peak, has_request;
	uint64_t event, request, stream;
	int device;
};

enum { KEY_AT = 0x1101, KEY_AT_PEAK, KEY_REQUEST, KEY_STREAM, KEY_DEVICE };

static const struct argp_option option_table[] = {
        {"request", KEY_REQUEST, "SIZE", 0,
                "whether a request of so many bytes would succeed (64MiB)", 0},
        {"stream", KEY_STREAM, "N", 0, "the stream of the request (the default one)", 0},
        {"device", KEY_DEVICE, "N", 0, "the device (the first with memory)", 0},
        {"at", KEY_AT, "EVENT", 0, "the segments after this event of a recording", 0},
        {"at-peak", KEY_AT_PEAK, NULL, 0, "the segments at the peak of a recording", 0},
        GM_TARGET_OPTIONS,
        {0},
};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct options *options = input;
	uint64_t number = 0;
	switch (key) {
	case KEY_AT:
		options->has_event = true;
		return gm_error_prefix(
		        gm_parse_number(argument, 0, UINT32_MAX - 1, &options->event), "--at");
	case KEY_AT_PEAK:
		options->at_peak = true;
		return NULL;
	case KEY_REQUEST:
		options->has_request = true;
		return gm_error_prefix(gm_parse_bytes(argument, &options->request), "--request");
	case KEY_STREAM:
		return gm_error_prefix(
		        gm_parse_number(argument, 0, UINT64_MAX, &options->stream), "--stream");
	case KEY_DEVICE:
		gm_try(gm_error_prefix(gm_parse_number(argument, 0, 127, &number), "--device"));
		options->device = (int)number;
		return NULL;
	default:
		return gm_target_option(options->context, key, argument);
	}
}

static struct gm_error *look(struct gm_context *context, const struct options *options, bool target,
        struct gm_memory *ret_memory)
{
	if (target) {
		if (options->has_event || options->at_peak)
			return gm_error_create(GM_TARGET,
			        "segments: --at and --at-peak need a recording: leave "
			        "them out, or record the program");
		return gm_memory_now(context, options->device, ret_memory);
	}
	uint32_t event = options->has_event ? (uint32_t)options->event : GM_NO_EVENT;
	if (options->at_peak) {
		struct gm_model *model;
		gm_try(gm_context_model(context, &model));
		size_t device = gm_model_main_device(model);
		if (device != SIZE_MAX)
			event = gm_model_device(model, device)->peak_event;
	}
	return gm_memory_after(context, options->device, event, ret_memory);
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct options options = {.context = context, .device = -1};
	bool target;
	gm_try(gm_arguments_parse(&gm_command_segments, argc, argv, option_table, handle, &options,
	        1, false, out, &arguments));
	if (arguments.help)
		return NULL;
	if (options.has_event && options.at_peak)
		return gm_error_create(
		        GM_USAGE, "segments: --at and --at-peak exclude each other: choose one");
	gm_try(gm_target_take_file(&arguments, context, 0, &target));
	struct gm_memory memory;
	struct gm_request request;
	gm_try(look(context, &options, target, &memory));
	if (options.has_request)
		gm_memory_request(&memory, options.request, options.stream, &request);
	const struct gm_request *asked = options.has_request ? &request : NULL;
	const struct gm_style style = {context->columns, context->colors};
	struct gm_error *error = arguments.json
	                                 ? gm_render_segments_json(&memory, asked, out)
	                                 : gm_render_segments_text(&memory, asked, &style, out);
	gm_memory_deinit(&memory);
	return error;
}

const struct gm_command gm_command_segments = {
        .name = "segments",
        .summary = "the memory that PyTorch got from CUDA: segments, their free parts, why a "
                   "request would fail",
        .usage = "[FILE | --pid PID | --core CORE] [--request=SIZE] [--at=EVENT | --at-peak] "
                 "[--json]\n"
                 "The allocator divides segments into blocks. A free part between blocks serves "
                 "only requests of\n"
                 "its stream and size. --request shows which free part a request of a given size "
                 "would get, or why\n"
                 "it fits none. A process or a core dump needs no recording.\n"
                 "\n"
                 " Example: gpumem segments --pid 4711 --request 512MiB\n"
                 " Example: gpumem segments run.gpumem --at-peak",
        .shell = true,
        .gdb = true,
        .run = run,
};
