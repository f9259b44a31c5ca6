#include "ask/segments.h"
#include "ask/target/request.h"
#include "ask/target/memory.h"
#include "base/cleanup.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/target.h"
#include "render/memory.h"

extern const struct gm_command gm_command_segments;

struct options {
	struct gm_context *context;
	struct gm_segments_options segments;
	bool has_request;
	uint64_t request, stream;
};

enum { KEY_AT = 0x1101, KEY_AT_PEAK, KEY_REQUEST, KEY_STREAM, KEY_DEVICE };

static const struct argp_option option_table[] = {
        {"request", KEY_REQUEST, "SIZE", 0,
                "whether a request of so many bytes would succeed, such as 64MiB", 0},
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
		options->segments.has_event = true;
		return gm_error_prefix(
		        gm_parse_number(argument, 0, UINT32_MAX - 1, &options->segments.event),
		        "--at");
	case KEY_AT_PEAK:
		options->segments.at_peak = true;
		return NULL;
	case KEY_REQUEST:
		options->has_request = true;
		return gm_error_prefix(gm_parse_bytes(argument, &options->request), "--request");
	case KEY_STREAM:
		return gm_error_prefix(
		        gm_parse_number(argument, 0, UINT64_MAX, &options->stream), "--stream");
	case KEY_DEVICE:
		gm_try(gm_error_prefix(gm_parse_number(argument, 0, 127, &number), "--device"));
		options->segments.device = (int)number;
		return NULL;
	default:
		return gm_target_option(options->context, key, argument);
	}
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct options options = {.context = context, .segments.device = -1};
	bool target;
	gm_try(gm_arguments_parse(&gm_command_segments, argc, argv, option_table, handle, &options,
	        1, false, out, &arguments));
	if (arguments.help)
		return NULL;
	if (options.segments.has_event && options.segments.at_peak)
		return gm_error_create(
		        GM_USAGE, "segments: --at and --at-peak exclude each other: choose one");
	gm_try(gm_target_take_file(&arguments, context, 0, &target));
	struct gm_memory memory;
	struct gm_request request;
	options.segments.target = target;
	gm_try(gm_ask_segments(context, &options.segments, &memory));
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
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
