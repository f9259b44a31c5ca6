#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ask/oom/oom_text.h"
#include "ask/context.h"
#include "ask/oom.h"
#include "ask/oom/oom_facts.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/target.h"
#include "render/oom.h"

extern const struct gm_command gm_command_oom;

enum { KEY_AT = 0x1101, KEY_TEXT, KEY_DEVICE, KEY_REPORT };
enum { TEXT_MAX = 1 << 29 }; /* bytes of a log that are searched */

struct options {
	struct gm_context *context;
	bool has_event, text, report;
	uint64_t event;
	int device;
};

static const struct argp_option option_table[] = {
        {"text", KEY_TEXT, NULL, 0, "FILE, or standard input (-), is text with PyTorch's messages",
                0},
        {"at", KEY_AT, "EVENT", 0, "the oom event with this number (the last one)", 0},
        {"report", KEY_REPORT, NULL, 0, "leaves out the suggestions for the next command", 0},
        {"device", KEY_DEVICE, "N", 0, "the device (the one in the error)", 0},
        GM_TARGET_OPTIONS,
        {0},
};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct options *options = input;
	switch (key) {
	case KEY_TEXT:
		options->text = true;
		return NULL;
	case KEY_REPORT:
		options->report = true;
		return NULL;
	case KEY_AT:
		options->has_event = true;
		return gm_error_prefix(
		        gm_parse_number(argument, 0, UINT32_MAX - 1, &options->event), "--at");
	case KEY_DEVICE:
		return gm_parse_device(argument, &options->device);
	default:
		return gm_target_option(options->context, key, argument);
	}
}

/* --- text ------------------------------------------------------------------------------------- */

static struct gm_error *read_all(const char *path, char **ret_text, size_t *ret_length)
{
	bool typed = !path || strcmp(path, "-") == 0;
	_cleanup_fclose_ FILE *opened = typed ? NULL : fopen(path, "re");
	FILE *file = typed ? stdin : opened;
	if (!file)
		return gm_error_os(GM_CORRUPT, errno, "%s: cannot be read", path);
	GM_ARRAY(char) text = {0};
	for (;;) {
		if (text.count > TEXT_MAX || !gm_array_reserve(&text, 1 << 16)) {
			bool large = text.count > TEXT_MAX;
			gm_array_deinit(&text);
			return large ? gm_error_create(GM_USAGE,
			                       "%s: more than 512 MiB of text: give the part "
			                       "with the errors (grep -A3 'out of memory')",
			                       typed ? "standard input" : path)
			             : &gm_error_no_memory;
		}
		size_t got = fread(text.items + text.count, 1, 1 << 16, file);
		text.count += got;
		if (got == 0)
			break;
	}
	if (ferror(file)) {
		int code = errno;
		gm_array_deinit(&text);
		return gm_error_os(
		        GM_CORRUPT, code, "%s: cannot be read", typed ? "standard input" : path);
	}
	*ret_text = text.items;
	*ret_length = text.count;
	return NULL;
}

/* A failing call of CUDA itself has no figures: it is distinguished, because a search for "out of
 * memory" finds both. */
static struct gm_error *no_message(const char *path, const char *text, size_t length)
{
	static const char *const others[] = {
	        "CUDA error: out of memory", "cuda runtime error (2)", "CUDA_ERROR_OUT_OF_MEMORY"};
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (memmem(text, length, others[i], strlen(others[i])))
			return gm_error_create(GM_NEGATIVE,
			        "%s: contains no message of PyTorch's allocator, but \"%s\": a "
			        "CUDA call failed outside the allocator (a context, a library's "
			        "workspace, or a kernel): other processes or libraries fill the "
			        "device: check with nvidia-smi",
			        path, others[i]);
	return gm_error_create(GM_NEGATIVE,
	        "%s: contains no out-of-memory message of PyTorch: they look like \"... out of "
	        "memory. Tried to allocate ...\"",
	        path);
}

static struct gm_error *judge_all(
        const struct gm_oom_messages *messages, bool json, const struct gm_style *style, FILE *out)
{
	struct gm_oom_judgement *judgements = calloc(messages->count, sizeof(*judgements));
	if (!judgements)
		return &gm_error_no_memory;
	for (size_t i = 0; i < messages->count; i++)
		gm_oom_judge(&messages->items[i].facts, &judgements[i]);
	struct gm_error *error =
	        json ? gm_render_oom_messages_json(messages, judgements, out)
	             : gm_render_oom_messages_text(messages, judgements, style, out);
	free(judgements);
	return error;
}

static struct gm_error *explain_text(
        const char *path, bool json, const struct gm_style *style, FILE *out)
{
	_cleanup_free_ char *text = NULL;
	struct gm_oom_messages messages;
	size_t length;
	gm_try(read_all(path, &text, &length));
	if (!gm_oom_parse(text, length, &messages))
		return &gm_error_no_memory;
	struct gm_error *error = messages.count
	                                 ? judge_all(&messages, json, style, out)
	                                 : no_message(path ? path : "standard input", text, length);
	free(messages.items);
	return error;
}

/* --- other sources ---------------------------------------------------------------------------- */

static struct gm_error *show(struct gm_context *context, const struct gm_oom *oom, bool target,
        bool report, bool json, const struct gm_style *style, FILE *out)
{
	if (json)
		return gm_render_oom_json(oom, out);
	char where[512] = "", retained[600], segments[600];
	if (target && context->core_path)
		snprintf(where, sizeof(where), " --core %s", context->core_path);
	else if (target && context->shell)
		snprintf(where, sizeof(where), " --pid %d", context->pid);
	snprintf(retained, sizeof(retained), "gpumem retained%s", where);
	snprintf(segments, sizeof(segments), "gpumem segments%s", where);
	const char *next[3] = {retained, NULL, NULL};
	if (!target || report)
		next[0] = NULL;
	else if (oom->judgement.verdict == GM_OOM_FRAGMENTATION)
		next[1] = segments;
	return gm_render_oom_text(oom, next, style, out);
}

/*
 * In gdb there may be both a program that is stopped in its error and a recording. The program has
 * more information (the device's figures, the holders); the recording is used if the program has
 * none.
 */
static struct gm_error *ask(struct gm_context *context, const struct options *options, bool file,
        bool *target, struct gm_oom *ret_oom)
{
	bool stands = gm_context_has_target(context);
	if (!*target && !context->shell && !file && !options->has_event && stands) {
		_cleanup_error_ struct gm_error *error =
		        gm_ask_oom_target(context, options->device, ret_oom);
		if (!error && ret_oom->judgement.verdict) {
			*target = true;
			return NULL;
		}
		if (!error)
			gm_oom_deinit(ret_oom);
	}
	return *target ? gm_ask_oom_target(context, options->device, ret_oom)
	               : gm_ask_oom_event(context, options->device, options->has_event,
	                         options->event, ret_oom);
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct options options = {.context = context, .device = -1};
	const struct gm_style style = {context->columns, context->colors};
	bool target;
	gm_try(gm_arguments_parse(&gm_command_oom, argc, argv, option_table, handle, &options, 1,
	        false, out, &arguments));
	if (arguments.help)
		return NULL;
	if (options.text) {
		if (!context->shell && !arguments.positional_count)
			return gm_error_create(
			        GM_USAGE, "oom: --text: gdb has no standard input: name a FILE");
		return explain_text(arguments.positional_count ? arguments.positional[0] : NULL,
		        arguments.json, &style, out);
	}
	bool file = arguments.positional_count > 0;
	gm_try(gm_target_take_file(&arguments, context, 0, &target));
	if (target && options.has_event)
		return gm_error_create(GM_TARGET, "oom: --at needs a recording: leave it out");
	struct gm_oom oom;
	gm_try(ask(context, &options, file, &target, &oom));
	struct gm_error *error =
	        show(context, &oom, target, options.report, arguments.json, &style, out);
	gm_oom_deinit(&oom);
	return error;
}

const struct gm_command gm_command_oom = {
        .name = "oom",
        .summary = "why PyTorch ran out of memory: the verdict, what fills the device, what would "
                   "be enough",
        .usage = "[FILE | CORE | --pid PID | --core CORE] [--at=EVENT] [--report] [--json]\n"
                 "       gpumem oom --text [FILE | -] [--report] [--json]\n"
                 "Explains an out-of-memory error from a core dump or a process (no recording is "
                 "needed), from a\n"
                 "recording or a snapshot with an oom event, or from the error's text. The verdict "
                 "is capacity (too\n"
                 "little memory), fragmentation (enough, but not contiguous), pending (released, "
                 "but waiting for\n"
                 "a stream) or outside (held outside PyTorch), with the calculation that proves it."
                 "\n"
                 "--text finds PyTorch's messages in a pasted error or in a log of many ranks.\n"
                 "\n"
                 " Example: gpumem oom core.4711\n"
                 " Example: gpumem oom --pid 4711\n"
                 " Example: gpumem oom --text train.log",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
