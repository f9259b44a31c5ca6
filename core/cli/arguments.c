#include "cli/arguments.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/nearest_word.h"
#include "base/put.h"
#include "base/size.h"
#include "ask/context.h"

enum { KEY_JSON = 0x7001, KEY_HELP = 'h', OPTIONS_MAX = 64 };

struct parse {
	struct gm_arguments *arguments;
	gm_option_handler handler;
	void *input;
	int positional_max;
	bool stop_at_positional;
	struct gm_error *error; /* the first */
	int failed_at;          /* index in argv after the argument that argp rejected */
};

static error_t parse_one(int key, char *argument, struct argp_state *state)
{
	struct parse *parse = state->input;
	switch (key) {
	case KEY_JSON:
		parse->arguments->json = true;
		return 0;
	case KEY_HELP:
		parse->arguments->help = true;
		return 0;
	case ARGP_KEY_ARG:
		if (parse->stop_at_positional ||
		        (parse->arguments->rest && parse->positional_max == 0)) {
			if (!parse->arguments->rest)
				parse->arguments->rest = state->next - 1;
			state->next = state->argc;
			return 0;
		}
		if (parse->arguments->positional_count == parse->positional_max) {
			if (!parse->error)
				parse->error = gm_error_create(GM_USAGE,
				        "unexpected argument '%s': the command takes %s%d",
				        argument, parse->positional_max ? "at most " : "",
				        parse->positional_max);
			return EINVAL;
		}
		parse->arguments->positional[parse->arguments->positional_count++] = argument;
		return 0;
	case ARGP_KEY_ERROR:
		parse->failed_at = state->next;
		return 0;
	case ARGP_KEY_INIT:
	case ARGP_KEY_END:
	case ARGP_KEY_NO_ARGS:
	case ARGP_KEY_ARGS:
	case ARGP_KEY_SUCCESS:
	case ARGP_KEY_FINI:
		return key == ARGP_KEY_ARGS ? ARGP_ERR_UNKNOWN : 0;
	default:
		if (!parse->handler)
			return ARGP_ERR_UNKNOWN;
		/* The handler must not get our own keys: argp's special ones are 0x1000000 and
		 * above. */
		if (key >= 0x1000000)
			return ARGP_ERR_UNKNOWN;
		parse->error = parse->handler(parse->input, key, argument);
		return parse->error ? EINVAL : 0;
	}
}

/* The option that `name` probably means, NULL: none. --by-line also means --by. */
static const struct argp_option *nearest(const struct argp_option *options, const char *name)
{
	const struct argp_option *best = NULL;
	size_t best_distance = SIZE_MAX;
	for (const struct argp_option *option = options; option->name || option->key; option++) {
		if (!option->name)
			continue;
		size_t distance = gm_word_distance(name, option->name);
		size_t length = strlen(option->name);
		if (option->arg && strncmp(name, option->name, length) == 0 && name[length] == '-')
			distance = 0;
		if (distance < best_distance) {
			best = option;
			best_distance = distance;
		}
	}
	return best;
}

/* Why argp rejected an argument: argp reports only its position. */
static struct gm_error *refusal(
        const struct argp_option *options, int argc, char **argv, int failed_at)
{
	const char *text = failed_at > 0 && failed_at <= argc ? argv[failed_at - 1] : "";
	if (text[0] != '-')
		return gm_error_create(GM_USAGE, "wrong arguments near '%s'", text);
	size_t length = strcspn(text, "=");
	size_t matches = 0;
	const struct argp_option *match = NULL;
	for (const struct argp_option *option = options; option->name || option->key; option++) {
		if (!option->name || length < 3 || strncmp(option->name, text + 2, length - 2) != 0)
			continue;
		match = option;
		matches++;
		if (strlen(option->name) == length - 2) {
			matches = 1;
			break;
		}
	}
	if (matches > 1)
		return gm_error_create(GM_USAGE,
		        "option '%.*s' is ambiguous: several options begin with it", (int)length,
		        text);
	if (match && match->arg && !text[length])
		return gm_error_create(
		        GM_USAGE, "option '--%s' needs a value: %s", match->name, match->arg);
	if (match && !match->arg && text[length])
		return gm_error_create(GM_USAGE, "option '--%s' takes no value", match->name);
	char name[64];
	snprintf(name, sizeof(name), "%.*s", (int)length, text);
	match = name[1] == '-' ? nearest(options, name + 2) : NULL;
	if (match)
		return gm_error_create(GM_USAGE, "unknown option '%.*s': did you mean --%s%s%s?",
		        (int)length, text, match->name, match->arg ? "=" : "",
		        match->arg ? match->arg : "");
	return gm_error_create(GM_USAGE, "unknown option '%.*s'", (int)length, text);
}

static struct gm_error *wrong(const char *program, const char *command, struct gm_error *error)
{
	if (!error || error == &gm_error_no_memory)
		return error;
	size_t length = strlen(error->message);
	bool asks = length && error->message[length - 1] == '?';
	struct gm_error *whole = gm_error_create(error->status, "%s: %s%s see `%s %s --help`",
	        command, error->message, asks ? "" : ":", program, command);
	gm_error_destroy(error);
	return whole;
}

struct gm_error *gm_arguments_wrong(const char *command, struct gm_error *error)
{
	return wrong("gpumem", command, error);
}

struct gm_error *gm_arguments_unknown(const char *word, const char *const *known)
{
	size_t length = strcspn(word, "=");
	const char *meant = length > 2 ? gm_word_nearest(word, length, known) : NULL;
	return gm_error_create(GM_USAGE, "unknown option '%.*s'%s%s%s", (int)length, word,
	        meant ? ": did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

/* argp skips "--" itself; PROG's arguments begin after it. */
static int find_rest(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--") == 0)
			return i + 1;
	return 0;
}

struct gm_error *gm_arguments_parse(const struct gm_command *command, int argc, char **argv,
        const struct argp_option *options, gm_option_handler handler, void *input,
        int positional_max, bool stop_at_positional, FILE *out, struct gm_arguments *ret_arguments)
{
	*ret_arguments = (struct gm_arguments){0};
	struct argp_option all[OPTIONS_MAX] = {0};
	size_t count = 0;
	for (; options && (options->name || options->key) && count < OPTIONS_MAX - 3; options++)
		all[count++] = *options;
	all[count++] =
	        (struct argp_option){"json", KEY_JSON, NULL, 0, "prints the answer as JSON", 0};
	all[count++] = (struct argp_option){"help", KEY_HELP, NULL, 0, "this help", 0};

	struct parse parse = {
	        .arguments = ret_arguments,
	        .handler = handler,
	        .input = input,
	        .positional_max =
	                positional_max < GM_ARGUMENTS_MAX ? positional_max : GM_ARGUMENTS_MAX,
	        .stop_at_positional = stop_at_positional,
	};
	/* Everything after "--" belongs to another program; argp sees only our arguments. */
	int rest = find_rest(argc, argv);
	const struct argp argp = {.options = all, .parser = parse_one};
	unsigned flags = ARGP_NO_EXIT | ARGP_NO_ERRS | ARGP_NO_HELP;
	if (stop_at_positional)
		flags |= ARGP_IN_ORDER;
	int own = rest ? rest - 1 : argc;
	error_t failed = argp_parse(&argp, own, argv, flags, NULL, &parse);
	if (rest && !ret_arguments->rest)
		ret_arguments->rest = rest;
	if (parse.error || failed) {
		if (!parse.error)
			parse.error = failed == ENOMEM ? &gm_error_no_memory
			                               : refusal(all, own, argv, parse.failed_at);
		return wrong(
		        command->program ? command->program : "gpumem", command->name, parse.error);
	}
	if (ret_arguments->help && ret_arguments->json)
		return gm_command_help_json(command, all, out);
	if (ret_arguments->help) {
		gm_command_help(command, out);
		fputs("\nOptions:\n", out);
		for (const struct argp_option *option = all; option->name; option++) {
			char name[64];
			snprintf(name, sizeof(name), "--%s%s%s", option->name,
			        option->arg ? "=" : "", option->arg ? option->arg : "");
			gm_put(out, "  %-22s %s\n", name, option->doc ? option->doc : "");
		}
	}
	return NULL;
}

struct gm_error *gm_parse_number(
        const char *text, uint64_t least, uint64_t most, uint64_t *ret_number)
{
	bool hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	uint64_t value = 0;
	if (!gm_parse_digits(hexadecimal ? text + 2 : text, hexadecimal ? 16 : 10, &value))
		return gm_error_create(GM_USAGE, "'%s' is not a number", text);
	if (value < least || value > most)
		return gm_error_create(GM_USAGE,
		        "%s is out of range: give a number from %llu to %llu", text,
		        (unsigned long long)least, (unsigned long long)most);
	*ret_number = value;
	return NULL;
}

struct gm_error *gm_parse_device(const char *text, int *ret_device)
{
	uint64_t number;
	gm_try(gm_error_prefix(gm_parse_number(text, 0, 127, &number), "--device"));
	*ret_device = (int)number;
	return NULL;
}

struct gm_error *gm_arguments_take_file(
        struct gm_arguments *arguments, struct gm_context *context, int others)
{
	if (arguments->positional_count <= others) {
		if (context->shell)
			free(gm_take(context->log_path));
		return NULL; /* the context's own log, or its error when it is used */
	}
	gm_try(gm_context_set_log(context, arguments->positional[0]));
	arguments->positional_count--;
	memmove(arguments->positional, arguments->positional + 1,
	        sizeof(arguments->positional[0]) * (size_t)arguments->positional_count);
	return NULL;
}
