/* `gpumem estimate`: the memory that a model needs in training or inference, before anything runs.
 * */
#include <string.h>

#include "ask/estimate.h"
#include "base/cleanup.h"
#include "base/nearest_word.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "render/estimate.h"

extern const struct gm_command gm_command_estimate;

enum {
	KEY_PARAMETERS = 0x1101,
	KEY_ARCHITECTURE,
	KEY_LAYERS,
	KEY_HIDDEN,
	KEY_HEADS,
	KEY_KV_HEADS,
	KEY_HEAD_DIM,
	KEY_INTERMEDIATE,
	KEY_VOCAB,
	KEY_BATCH,
	KEY_SEQUENCE,
	KEY_DTYPE,
	KEY_AUTOCAST,
	KEY_MASTER,
	KEY_OPTIMIZER,
	KEY_CHECKPOINTING,
	KEY_ACCUMULATION,
	KEY_ATTENTION,
	KEY_ZERO,
	KEY_WORLD,
	KEY_TP,
	KEY_PP,
	KEY_CP,
	KEY_EP,
	KEY_SEQUENCE_PARALLEL,
	KEY_OFFLOAD,
	KEY_INFERENCE,
	KEY_ACTIVATIONS,
	KEY_BUDGET,
	KEY_METHOD,
	KEY_PYTHON,
};

static const struct argp_option option_table[] = {
        {"parameters", KEY_PARAMETERS, "N", 0, "the number of parameters (7e9 or 7000000000)", 0},
        {"architecture", KEY_ARCHITECTURE, "TYPE", 0, "a config's model_type (llama)", 0},
        {"layers", KEY_LAYERS, "N", 0, "layers", 0},
        {"hidden", KEY_HIDDEN, "N", 0, "width of the residual stream", 0},
        {"heads", KEY_HEADS, "N", 0, "attention heads", 0},
        {"kv-heads", KEY_KV_HEADS, "N", 0, "heads of keys and values", 0},
        {"head-dim", KEY_HEAD_DIM, "N", 0, "width of a head", 0},
        {"intermediate", KEY_INTERMEDIATE, "N", 0, "width of the MLP", 0},
        {"vocab", KEY_VOCAB, "N", 0, "tokens of the vocabulary", 0},
        {"batch", KEY_BATCH, "N", 0, "sequences of a microbatch on one GPU (1)", 0},
        {"sequence", KEY_SEQUENCE, "N", 0, "tokens of a sequence (2048)", 0},
        {"dtype", KEY_DTYPE, "DTYPE", 0,
                "the parameters' dtype: float32, bfloat16, float16 (the file's; else float32)", 0},
        {"autocast", KEY_AUTOCAST, "DTYPE", 0, "torch.autocast's dtype: bfloat16, float16", 0},
        {"optimizer", KEY_OPTIMIZER, "NAME", 0,
                "adamw (PyTorch's default, foreach), adamw-fused, adamw-8bit, sgd, sgd-momentum, "
                "lion",
                0},
        {"master-weights", KEY_MASTER, NULL, 0,
                "the optimizer keeps float32 parameters and states, as in DeepSpeed and Megatron",
                0},
        {"checkpointing", KEY_CHECKPOINTING, "KIND", 0,
                "none, selective (the attention's matrices), full (each layer)", 0},
        {"accumulation", KEY_ACCUMULATION, "N", 0, "microbatches of a step (1)", 0},
        {"attention", KEY_ATTENTION, "KIND", 0,
                "efficient (flash: n), materialized (keeps its matrix: n x n)", 0},
        {"inference", KEY_INFERENCE, NULL, 0, "no training: parameters and the KV cache", 0},
        {"zero", KEY_ZERO, "STAGE", 0, "ZeRO stage 0 to 3; FSDP is stage 3", 0},
        {"world", KEY_WORLD, "N", 0, "the total number of GPUs (tp x pp x cp)", 0},
        {"tp", KEY_TP, "N", 0, "tensor parallel ranks", 0},
        {"sequence-parallel", KEY_SEQUENCE_PARALLEL, NULL, 0, "norms and dropout split by --tp", 0},
        {"pp", KEY_PP, "N", 0, "pipeline stages (one forward, one backward)", 0},
        {"cp", KEY_CP, "N", 0, "context parallel ranks: each has a part of the sequence", 0},
        {"ep", KEY_EP, "N", 0, "expert parallel ranks", 0},
        {"offload", KEY_OFFLOAD, "WHAT", 0,
                "to the host: optimizer, parameters, activations; may be given several times", 0},
        {"activations", KEY_ACTIVATIONS, "WAY", 0,
                "operators, paper, text, text-bytes (operators; text if only N is known)", 0},
        {"budget", KEY_BUDGET, "SIZE", 0, "a GPU's memory, such as 24GiB", 0},
        {"method", KEY_METHOD, "METHOD", 0,
                "formula; hooks: builds the model, and counts what its modules return; simulate: "
                "builds the model, and runs it on the simulated device",
                0},
        {"python", KEY_PYTHON, "PYTHON", 0,
                "for hooks and simulate: a Python with PyTorch and transformers "
                "(python3)",
                GM_EFFECT_PROGRAM},
        {0},
};

#define CHOOSE(word, ret, ...)                                           \
	({                                                               \
		static const char *const names_[] = {__VA_ARGS__, NULL}; \
		gm_word_choose(NULL, word, names_, ret);                 \
	})

/* Also 7e9 and 1.5e9, which are integers all the same. */
static struct gm_error *parse_many(const char *text, uint64_t *ret)
{
	char *end;
	double value = strtod(text, &end);
	if (strspn(text, "0123456789.e+") != strlen(text) || end == text || *end)
		return gm_error_create(GM_USAGE, "'%s' is not a number: write it like 7e9", text);
	if (!(value >= 1 && value <= 1e16))
		return gm_error_create(
		        GM_USAGE, "'%s' is out of range: give a number from 1 to 1e16", text);
	if (!strpbrk(text, ".e"))
		return gm_parse_number(text, 1, UINT64_C(10000000000000000), ret);
	*ret = (uint64_t)value;
	return NULL;
}

static struct gm_error *handle_number(
        struct gm_estimate_options *options, int key, const char *text)
{
	struct gm_estimate_numbers *given = &options->given;
	struct gm_estimate_settings *settings = &options->settings;
	const struct {
		int key;
		uint64_t most;
		uint64_t *at;
	} numbers[] = {
	        {KEY_LAYERS, 1 << 16, &given->layers},
	        {KEY_HIDDEN, 1 << 28, &given->hidden},
	        {KEY_HEADS, 1 << 28, &given->heads},
	        {KEY_KV_HEADS, 1 << 28, &given->kv_heads},
	        {KEY_HEAD_DIM, 1 << 28, &given->head_dim},
	        {KEY_INTERMEDIATE, 1 << 28, &given->intermediate},
	        {KEY_VOCAB, 1 << 28, &given->vocab},
	        {KEY_BATCH, 1 << 30, &settings->batch},
	        {KEY_SEQUENCE, 1 << 30, &settings->sequence},
	        {KEY_ACCUMULATION, 1 << 20, &settings->accumulation},
	        {KEY_WORLD, 1 << 20, &settings->world},
	        {KEY_TP, 1 << 16, &settings->tp},
	        {KEY_PP, 1 << 16, &settings->pp},
	        {KEY_CP, 1 << 16, &settings->cp},
	        {KEY_EP, 1 << 16, &settings->ep},
	};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (numbers[i].key == key)
			return gm_parse_number(text, 1, numbers[i].most, numbers[i].at);
	return parse_many(text, &given->parameters);
}

static struct gm_error *handle_word(struct gm_estimate_options *options, int key, const char *word)
{
	struct gm_estimate_settings *settings = &options->settings;
	size_t chosen = 0;
	switch (key) {
	case KEY_DTYPE:
		gm_try(CHOOSE(word, &chosen, "float32", "bfloat16", "float16"));
		settings->dtype = (enum gm_estimate_dtype)(chosen + 1);
		return NULL;
	case KEY_AUTOCAST:
		gm_try(CHOOSE(word, &chosen, "bfloat16", "float16"));
		settings->autocast = chosen ? GM_ESTIMATE_FLOAT16 : GM_ESTIMATE_BFLOAT16;
		return NULL;
	case KEY_OPTIMIZER:
		gm_try(CHOOSE(word, &chosen, "adamw", "adamw-fused", "adamw-8bit", "sgd",
		        "sgd-momentum", "lion"));
		settings->optimizer = (enum gm_estimate_optimizer)chosen;
		return NULL;
	case KEY_CHECKPOINTING:
		gm_try(CHOOSE(word, &chosen, "none", "selective", "full"));
		settings->checkpointing = (enum gm_estimate_checkpointing)chosen;
		return NULL;
	case KEY_ATTENTION:
		gm_try(CHOOSE(word, &chosen, "efficient", "materialized"));
		settings->materialized = chosen == 1;
		return NULL;
	case KEY_OFFLOAD:
		gm_try(CHOOSE(word, &chosen, "optimizer", "parameters", "activations"));
		settings->offload |= 1u << chosen;
		return NULL;
	case KEY_ACTIVATIONS:
		gm_try(CHOOSE(word, &chosen, "operators", "paper", "text", "text-bytes"));
		settings->way = (enum gm_estimate_way)(chosen + 1);
		return NULL;
	default:
		gm_try(CHOOSE(word, &chosen, "formula", "hooks", "simulate"));
		options->hooks = chosen == 1;
		options->simulate = chosen == 2;
		return NULL;
	}
}

static struct gm_error *handle_option(void *input, int key, const char *argument)
{
	struct gm_estimate_options *options = input;
	struct gm_estimate_settings *settings = &options->settings;
	uint64_t stage;
	switch (key) {
	case KEY_ARCHITECTURE:
		options->given.architecture = argument;
		return NULL;
	case KEY_PYTHON:
		options->python = argument;
		return NULL;
	case KEY_MASTER:
		settings->master_weights = true;
		return NULL;
	case KEY_SEQUENCE_PARALLEL:
		settings->sequence_parallel = true;
		return NULL;
	case KEY_INFERENCE:
		settings->inference = true;
		return NULL;
	case KEY_ZERO:
		gm_try(gm_parse_number(argument, 0, 3, &stage));
		settings->zero = (unsigned)stage;
		return NULL;
	case KEY_BUDGET:
		gm_try(gm_parse_bytes(argument, &settings->budget));
		return settings->budget
		               ? NULL
		               : gm_error_create(GM_USAGE,
		                         "--budget %s: less than a byte: give the memory of "
		                         "the GPU, such as 24GiB",
		                         argument);
	case KEY_DTYPE:
	case KEY_AUTOCAST:
	case KEY_OPTIMIZER:
	case KEY_CHECKPOINTING:
	case KEY_ATTENTION:
	case KEY_OFFLOAD:
	case KEY_ACTIVATIONS:
	case KEY_METHOD:
		return handle_word(options, key, argument);
	default:
		return handle_number(options, key, argument);
	}
}

static struct gm_error *handle(void *input, int key, const char *argument)
{
	const struct argp_option *option = option_table;
	while (option->key != key)
		option++;
	return gm_error_prefix(handle_option(input, key, argument), "--%s", option->name);
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct gm_estimate_options options = {.settings = {.batch = 1,
	                                              .sequence = 2048,
	                                              .accumulation = 1,
	                                              .tp = 1,
	                                              .pp = 1,
	                                              .cp = 1,
	                                              .ep = 1}};
	struct gm_estimate_settings *settings = &options.settings;
	struct gm_estimate_answer answer;
	gm_try(gm_arguments_parse(&gm_command_estimate, argc, argv, option_table, handle, &options,
	        1, false, out, &arguments));
	if (arguments.help)
		return NULL;
	if (arguments.positional_count)
		options.path = arguments.positional[0];
	if (!settings->world)
		settings->world = settings->tp * settings->pp * settings->cp;
	gm_try(gm_ask_estimate(&options, &answer));
	struct gm_error *error = NULL;
	if (arguments.json)
		error = gm_render_estimate_json(&answer, out);
	else
		gm_render_estimate_text(&answer, out);
	*ret_status = answer.fits ? 0 : GM_NEGATIVE;
	gm_estimate_answer_deinit(&answer);
	return error;
}

const struct gm_command gm_command_estimate = {
        .name = "estimate",
        .summary = "memory before running: from a model's size and the settings",
        .usage = "[FILE] [--batch=N] [--sequence=N] [--dtype=DTYPE] [--optimizer=NAME] "
                 "[--zero=STAGE] [--budget=SIZE] … [--json]\n"
                 "Works out what a model needs on each GPU, without running it: parameters, "
                 "gradients, optimizer state,\n"
                 "activations and the optimizer's intermediates, and which peak is the higher "
                 "one. FILE is a transformers\n"
                 "config.json, a folder with one, a safetensors file or its index; without FILE "
                 "give --parameters, or\n"
                 "--layers, --hidden, --heads, --intermediate and --vocab. Each term is shown "
                 "with its formula and the\n"
                 "formula's source. The architectures: llama, mistral, qwen2, qwen3, phi3, "
                 "granite, smollm3, olmo2, gemma,\n"
                 "gemma2, gemma3_text, starcoder2, phi, gpt_neox, gpt2, opt, mixtral, qwen2_moe, "
                 "qwen3_moe, deepseek_v2,\n"
                 "deepseek_v3, gpt_oss. With --method simulate the model of any config.json that "
                 "transformers knows is built on\n"
                 "the simulated device, and two steps of it run. With --method hooks it is built "
                 "without memory, and forward\n"
                 "hooks add up what its modules return. No GPU is needed, and no code that a "
                 "config names is loaded.\n"
                 "Exit status: 0 it fits --budget, or there is none; 1 it does not fit.\n"
                 "\n"
                 " Example: gpumem estimate config.json --batch 16 --sequence 256 --budget 24GiB\n"
                 " Example: gpumem estimate config.json --method simulate --python "
                 ".venv/bin/python\n"
                 " Example: gpumem estimate --parameters 7e9 --zero 1 --world 64 --dtype float16 "
                 "--master-weights",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .run = run,
};
