/* `detach`: ends the recording of a program. */
#include "base/cleanup.h"
#include "base/put.h"
#include "cli/arguments.h"
#include "cli/attach_common.h"
#include "cli/attach_way.h"
#include "cli/command.h"
#include "inject/inject.h"

extern const struct gm_command gm_command_detach;

enum { KEY_TIMEOUT = 0x1301, KEY_WAY, SECONDS_MAX = 3600 };

/* What gpumem_agent_stop() returns (gpumem_agent.h). */
enum { NOT_RECORDED = 1 };

struct request {
	uint64_t seconds;
	struct gm_attach_way way;
};

static const struct argp_option option_table[] = {
        {"timeout", KEY_TIMEOUT, "SECONDS", 0, "how long to wait for a safe moment (30)", 0},
        {"way", KEY_WAY, "auto|python|thread", 0,
                "through its Python (3.14 and later), or through one of its threads (auto)", 0},
        {0},
};

static struct gm_error *take_option(void *input, int key, const char *argument)
{
	struct request *request = input;
	if (key == KEY_TIMEOUT)
		return gm_parse_number(argument, 1, SECONDS_MAX, &request->seconds);
	return gm_attach_way_parse(argument, &request->way.wanted);
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct request request = {.seconds = 30};
	struct gm_arguments arguments;
	gm_try(gm_arguments_parse(&gm_command_detach, argc, argv, option_table, take_option,
	        &request, 1, false, out, &arguments));
	if (arguments.help)
		return NULL;
	gm_try(gm_attach_take_pid(context, "detach", &arguments));
	_cleanup_(gm_inject_identity_deinit) struct gm_inject_identity identity;
	struct gm_image *image;
	struct gm_symbols *symbols;
	gm_try(gm_attach_open(context, &identity, &image, &symbols));
	struct gm_attach_waiting waiting = {err, context->pid, request.seconds};
	struct gm_inject_options options = {.identity = &identity,
	        .waits = gm_attach_put_wait,
	        .waits_context = &waiting,
	        .seconds = (double)request.seconds};
	struct gm_injected injected;
	gm_try(gm_attach_way_prepare(&request.way, context, &options));
	gm_try(gm_inject_stop(image, symbols, &options, &injected));
	if (injected.state == GM_INJECT_WAITING)
		return gm_attach_still_waiting(context->pid, "end the recording");
	if (injected.result == NOT_RECORDED)
		return gm_error_create(GM_TARGET,
		        "process %d: it is not recorded: `gpumem attach %d` begins a recording",
		        context->pid, context->pid);
	if (arguments.json)
		return gm_attach_put_json(
		        out, context->pid, injected.stopped, &request.way, &injected);
	gm_put(out, "the recording of process %d has ended\n", context->pid);
	return NULL;
}

const struct gm_command gm_command_detach = {
        .name = "detach",
        .summary = "ends the recording that `attach` or `run` began",
        .usage = "PID [--timeout SECONDS] [--way auto|python|thread] [--json]\n"
                 "Ends the recording and completes its file. The program continues at full speed.\n"
                 "\n"
                 " Example: gpumem detach 4711",
        .effect = GM_EFFECT_PROCESS,
        .shell = true,
        .run = run,
};
