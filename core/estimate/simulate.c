/* The process that builds the model: its request and its answer. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/sibling_path.h"
#include "estimate/internal.h"
#include "sim/listen.h"

/* Larger than any model that fits one GPU: it takes no space until it is written. The small tensors
 * by which transformers decides about masks are computed up to this size. */
#define DEVICE "2048GiB"
#define COMPUTED "1MiB"

static struct gm_error *check(const struct gm_estimate_settings *settings)
{
	if (settings->world > 1 || settings->zero || settings->offload)
		return gm_error_create(GM_USAGE,
		        "estimate: --method simulate: it builds the model on one GPU: leave out "
		        "--world, "
		        "--tp, --pp, --cp, --ep, --zero and --offload, or use --method formula");
	if (settings->master_weights || settings->optimizer == GM_ESTIMATE_ADAMW_8BIT ||
	        settings->optimizer == GM_ESTIMATE_LION)
		return gm_error_create(GM_USAGE,
		        "estimate: --method simulate: it has the optimizers of PyTorch alone: use "
		        "adamw, adamw-fused, sgd or sgd-momentum without --master-weights");
	if (settings->checkpointing == GM_ESTIMATE_CHECKPOINT_SELECTIVE)
		return gm_error_create(GM_USAGE, "estimate: --method simulate: transformers has no "
		                                 "selective checkpointing: use "
		                                 "--checkpointing full or none");
	return NULL;
}

static struct gm_error *check_hooks(const struct gm_estimate_settings *settings)
{
	if (settings->inference)
		return gm_error_create(GM_USAGE,
		        "estimate: --method hooks: it counts the activations of training: leave "
		        "out --inference");
	if (settings->tp * settings->pp * settings->cp * settings->ep > 1)
		return gm_error_create(GM_USAGE,
		        "estimate: --method hooks: the model is built on one GPU: leave out "
		        "--tp, --pp, --cp and --ep, or use --method formula");
	return NULL;
}

static json_t *question(const char *config, bool hooks, const struct gm_estimate_settings *settings)
{
	return json_pack("{s:s,s:s,s:I,s:I,s:s,s:s?,s:s,s:s,s:I,s:s,s:b}", "method",
	        hooks ? "hooks" : "simulate", "config", config, "batch",
	        (json_int_t)settings->batch, "sequence", (json_int_t)settings->sequence, "dtype",
	        gm_estimate_dtype_name(settings->dtype), "autocast",
	        settings->autocast ? gm_estimate_dtype_name(settings->autocast) : NULL, "optimizer",
	        gm_estimate_optimizer_name(settings->optimizer), "checkpointing",
	        settings->checkpointing ? "full" : "none", "accumulation",
	        (json_int_t)settings->accumulation, "attention",
	        settings->materialized ? "materialized" : "efficient", "inference",
	        settings->inference);
}

/* In a file without a name. */
static struct gm_error *ask(
        const char *config, bool hooks, const struct gm_estimate_settings *settings, int *ret_file)
{
	json_t *asked = question(config, hooks, settings);
	_cleanup_close_ int fd = memfd_create("gpumem-estimate", MFD_CLOEXEC);
	if (!asked) /* or a path that is not UTF-8, which JSON cannot represent */
		return gm_error_create(
		        GM_USAGE, "estimate: %s: its name is not UTF-8: rename it", config);
	int failed = fd < 0 ? -1 : json_dumpfd(asked, fd, 0);
	json_decref(asked);
	if (failed || lseek(fd, 0, SEEK_SET) != 0)
		return gm_error_os(GM_INTERNAL, errno, "estimate: the question");
	*ret_file = fd;
	fd = -1;
	return NULL;
}

/* --- its output ------------------------------------------------------------------------------- */

struct heard {
	struct gm_estimate_simulated simulated;
	struct gm_estimate_hooked hooked; /* its numbers; the others are in `simulated` */
	bool whole, whole_hooks;
	char refused[256];
};

static void take_number(const json_t *result, const char *name, uint64_t *ret)
{
	json_int_t number = json_integer_value(json_object_get(result, name));
	*ret = number > 0 ? (uint64_t)number : 0;
}

static void take_result(const json_t *result, struct heard *heard)
{
	struct gm_estimate_simulated *found = &heard->simulated;
	const struct {
		const char *name;
		uint64_t *at;
	} numbers[] = {
	        {"parameters", &found->parameters},
	        {"parameter_bytes", &found->parameter_bytes},
	        {"gradients", &found->gradients},
	        {"state", &found->state},
	        {"activations", &found->activations},
	        {"kv_cache", &found->kv_cache},
	        {"backward_peak", &found->backward},
	        {"optimizer_peak", &found->optimizer},
	        {"inference_peak", &found->inference},
	        {"reserved", &found->reserved},
	        {"modules", &heard->hooked.modules},
	        {"token_bytes", &heard->hooked.token},
	        {"output_bytes", &heard->hooked.bytes},
	};
	const char *torch = json_string_value(json_object_get(result, "torch")),
	           *transformers = json_string_value(json_object_get(result, "transformers"));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		take_number(result, numbers[i].name, numbers[i].at);
	snprintf(found->torch, sizeof(found->torch), "%.63s", torch ? torch : "");
	snprintf(found->transformers, sizeof(found->transformers), "%.63s",
	        transformers ? transformers : "");
	found->seconds = json_number_value(json_object_get(result, "seconds"));
	found->total = gm_most(gm_most(found->backward, found->optimizer), found->inference);
	heard->whole = found->parameters > 0 && found->total > 0;
	const char *device = json_string_value(json_object_get(result, "device"));
	heard->hooked.on_meta = device && strcmp(device, "meta") == 0;
	heard->whole_hooks = found->parameters > 0 && heard->hooked.bytes > 0;
}

/* A line that is not part of the protocol is ignored: a library may print there. */
static void take_line(void *data, const char *line)
{
	struct heard *heard = data;
	if (strncmp(line, "refused ", 8) == 0) {
		snprintf(heard->refused, sizeof(heard->refused), "%.255s", line + 8);
	} else if (strncmp(line, "result ", 7) == 0) {
		json_t *result = json_loads(line + 7, 0, NULL);
		take_result(result, heard);
		json_decref(result);
	}
}

static struct gm_error *explain(const char *config, const char *python, const struct heard *heard,
        struct gm_sim_listened *listened)
{
	if (listened->stopped)
		return gm_error_create(GM_TARGET, "estimate: stopped");
	if (*heard->refused)
		return gm_error_in_file(
		        gm_error_create(GM_CORRUPT, "%s: transformers does not build it: %s",
		                config, heard->refused),
		        config);
	if (WIFEXITED(listened->status) && WEXITSTATUS(listened->status) == 127)
		return gm_error_create(GM_TARGET,
		        "estimate: %s: no such program: name a Python that has PyTorch and "
		        "transformers with --python",
		        python);
	const char *line = gm_tail_last_line(&listened->errors);
	return gm_error_create(GM_TARGET,
	        "estimate: %s ended without an answer%s%.300s: name a Python that has PyTorch and "
	        "transformers with --python",
	        python, *line ? ": " : "", line);
}

/* Starts the program and reads its output. */
static struct gm_error *run(const char *config, const char *python, bool hooks,
        const struct gm_estimate_settings *settings, struct heard *heard)
{
	_cleanup_close_ int file = -1;
	_cleanup_free_ char *program = gm_installed_path("gpumem-estimate/simulate.py");
	_cleanup_free_ struct gm_sim_listened *listened = calloc(1, sizeof(*listened));
	if (!program)
		return gm_error_create(GM_INTERNAL,
		        "estimate: gpumem-estimate/simulate.py is not installed next to this "
		        "program: install all of gpumem");
	if (!listened)
		return &gm_error_no_memory;
	gm_try(ask(config, hooks, settings, &file));
	const char *const argv[] = {python, "-u", program, NULL};
	const struct gm_sim_program asked = {.argv = argv,
	        .launch = {.profile = DEVICE, .compute_below = COMPUTED},
	        .input = file,
	        .line = take_line,
	        .data = heard};
	gm_try(gm_sim_listen(&asked, listened));
	if (!(hooks ? heard->whole_hooks : heard->whole) || listened->stopped)
		return explain(config, python, heard, listened);
	return NULL;
}

struct gm_error *gm_estimate_simulate(const char *config, const char *python,
        const struct gm_estimate_settings *settings, struct gm_estimate_simulated *ret_simulated)
{
	struct heard heard = {0};
	gm_try(check(settings));
	gm_try(run(config, python, false, settings, &heard));
	*ret_simulated = heard.simulated;
	return NULL;
}

struct gm_error *gm_estimate_hooks(const char *config, const char *python,
        const struct gm_estimate_settings *settings, struct gm_estimate_hooked *ret_hooked)
{
	struct heard heard = {0};
	gm_try(check_hooks(settings));
	gm_try(run(config, python, true, settings, &heard));
	*ret_hooked = heard.hooked;
	ret_hooked->parameters = heard.simulated.parameters;
	ret_hooked->seconds = heard.simulated.seconds;
	memcpy(ret_hooked->torch, heard.simulated.torch, sizeof(ret_hooked->torch));
	memcpy(ret_hooked->transformers, heard.simulated.transformers,
	        sizeof(ret_hooked->transformers));
	return NULL;
}
