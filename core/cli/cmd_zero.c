#include <string.h>

#include "ask/collectives.h"
#include "ask/context.h"
#include "ask/zero.h"
#include "ask/zero/ranks.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/target.h"
#include "render/collectives.h"
#include "render/zero.h"
#include "render/zero_ranks.h"

extern const struct gm_command gm_command_zero;

/* One of several processes or cores */
struct target {
	int pid;
	const char *core; /* NULL: a process */
};

struct options {
	struct gm_context *context;
	GM_ARRAY(struct target) targets; /* in the order of the arguments */
};

static const struct argp_option option_table[] = {
        GM_TARGET_OPTIONS,
        {0},
};

static struct gm_error *add(struct options *options, int pid, const char *core)
{
	return gm_array_push(&options->targets, ((struct target){pid, core})) ? NULL
	                                                                      : &gm_error_no_memory;
}

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct options *options = input;
	struct gm_context *context = options->context;
	gm_try(gm_target_option(context, key, argument));
	if (key == GM_TARGET_PID)
		return add(options, context->pid, NULL);
	return key == GM_TARGET_CORE ? add(options, 0, argument) : NULL;
}

static struct gm_error *ask_one(struct gm_context *context, bool json, FILE *out)
{
	const struct gm_style style = {context->columns, context->colors};
	struct gm_zero_now now;
	gm_try(gm_ask_zero(context, &now));
	struct gm_error *error =
	        json ? gm_render_zero_json(&now, out) : gm_render_zero_text(&now, &style, out);
	gm_zero_deinit(&now);
	return error;
}

/* A recording does not show who owns what; it shows what the ranks transferred. */
static struct gm_error *ask_recording(struct gm_context *context, bool json, FILE *out)
{
	const struct gm_style style = {context->columns, context->colors};
	struct gm_collectives collectives;
	struct gm_model *model;
	gm_try(gm_context_model(context, &model));
	gm_try(gm_collectives_find(model, &collectives)); /* without blocks: it shows sums */
	struct gm_error *error = json ? gm_render_collective_groups_json(&collectives, out)
	                              : gm_render_collective_groups_text(&collectives, &style, out);
	gm_collectives_deinit(&collectives);
	return error;
}

static struct gm_error *ask_each(
        struct gm_context *context, const struct options *options, struct gm_zero_ranks *ranks)
{
	ranks->nows = calloc(options->targets.count, sizeof(*ranks->nows));
	if (!ranks->nows)
		return &gm_error_no_memory;
	for (size_t i = 0; i < options->targets.count; i++) {
		const struct target *target = &options->targets.items[i];
		context->pid = target->pid;
		gm_try(gm_context_set_core(context, target->core));
		gm_try(gm_ask_zero(context, &ranks->nows[i]));
		ranks->count++;
	}
	return gm_zero_ranks_match(ranks) ? NULL : &gm_error_no_memory;
}

static struct gm_error *ask_several(
        struct gm_context *context, const struct options *options, bool json, FILE *out)
{
	const struct gm_style style = {context->columns, context->colors};
	struct gm_zero_ranks ranks = {0};
	struct gm_error *error = ask_each(context, options, &ranks);
	if (!error)
		error = json ? gm_render_zero_ranks_json(&ranks, out)
		             : gm_render_zero_ranks_text(&ranks, &style, out);
	gm_zero_ranks_deinit(&ranks);
	return error;
}

static struct gm_error *check_several(
        const struct gm_context *context, const struct options *options)
{
	if (!context->shell)
		return gm_error_create(GM_USAGE, "zero: several processes: not possible in gdb, "
		                                 "where the question is about the "
		                                 "process in gdb: name them in a shell");
	for (size_t i = 0; i < options->targets.count; i++)
		for (size_t k = 0; k < i; k++) {
			const struct target *one = &options->targets.items[i];
			const struct target *other = &options->targets.items[k];
			if (one->core && other->core ? strcmp(one->core, other->core) == 0
			                             : !one->core && one->pid == other->pid)
				return one->core ? gm_error_create(GM_USAGE,
				                           "zero: core '%s' is named twice",
				                           one->core)
				                 : gm_error_create(GM_USAGE,
				                           "zero: process %d is named twice",
				                           one->pid);
		}
	return NULL;
}

static struct gm_error *ask(struct gm_context *context, struct gm_arguments *arguments,
        struct options *options, FILE *out)
{
	gm_try(gm_target_check(context));
	/* cores may be given without --core too */
	bool several = options->targets.count + (size_t)arguments->positional_count > 1;
	if (several) {
		if (context->shell && arguments->positional_count && context->pid > 0)
			return gm_error_create(GM_USAGE,
			        "zero: %s --pid %d: both a core and a process were given: leave "
			        "one out",
			        arguments->positional[0], context->pid);
		for (int i = 0; i < arguments->positional_count; i++)
			gm_try(add(options, 0, arguments->positional[i]));
		gm_try(check_several(context, options));
		return ask_several(context, options, arguments->json, out);
	}
	bool target = true;
	gm_try(gm_target_take_core(arguments, context, 0));
	gm_try(gm_target_check(context));
	/* in gdb a recording is used if the process has ended */
	if (arguments->positional_count || !gm_context_has_target(context))
		gm_try(gm_target_take_file(arguments, context, 0, &target));
	if (!target)
		return ask_recording(context, arguments->json, out);
	return ask_one(context, arguments->json, out);
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct options options = {.context = context};
	struct gm_error *error = gm_arguments_parse(&gm_command_zero, argc, argv, option_table,
	        handle, &options, GM_ARGUMENTS_MAX, false, out, &arguments);
	if (!error && !arguments.help)
		error = ask(context, &arguments, &options, out);
	gm_array_deinit(&options.targets);
	return error;
}

const struct gm_command gm_command_zero = {
        .name = "zero",
        .summary = "how the optimizer's state is sharded over ranks, compared with the ideal",
        .usage = "[FILE | CORE... | --pid PID... | --core CORE...] [--json]\n"
                 "Shows for each sharded optimizer which parameters this rank owns, and the bytes "
                 "of parameters, gradients,\n"
                 "master copies, optimizer state and communication buffers. It compares them with "
                 "the bytes that the ZeRO\n"
                 "paper counts, and shows the cause of each difference. It knows PyTorch's "
                 "ZeroRedundancyOptimizer, DeepSpeed's\n"
                 "stages 1 to 3, FSDP1 and FSDP2. It reads the process or core from outside; no "
                 "code runs there.\n"
                 "For several processes or cores it shows the ranks side by side, where they "
                 "differ and why.\n"
                 "For a recording it shows what moved between the ranks: the calls of NCCL by step "
                 "and phase.\n"
                 "\n"
                 "Example: gpumem zero --pid 4711\n"
                 "         gpumem zero --pid 4711 --pid 4712",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
