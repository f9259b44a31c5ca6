#include "cli/fit_options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/arguments.h"
#include "sim/profile.h"

/* Those that gpumem applies to a program itself: measures/sitecustomize.py. */
static const char measures[] =
        "autocast, checkpoint, checkpoint:CLASS, for_loop_optimizer, fused_optimizer, "
        "offload_activations, set_to_none, zero_grad_earlier";

enum { DEVICES_MAX = 64, WAYS_MAX = 64, VALUES_MAX = 1024 };

/* Words that stay as long as the options do. */
struct parsing {
	struct gm_fit_options *options;
	char *next; /* free space within options->words: a copy of all arguments fits */
};

static char *keep(struct parsing *parsing, const char *text)
{
	char *copy = parsing->next;
	size_t size = strlen(text) + 1;
	memcpy(copy, text, size);
	parsing->next += size;
	return copy;
}

/* ---- --vary ---------------------------------------------------------------------------------- */

static struct gm_error *not_a_variable(const char *text)
{
	return gm_error_create(GM_USAGE,
	        "fit: --vary %s: not NAME=A..B: give a name and two whole numbers, the smaller one "
	        "first, as in --vary batch=1..512, or the values as in --vary sequence=512,1024",
	        text);
}

/* "1..512" */
static bool is_range(const char *text, int64_t *ret_from, int64_t *ret_to)
{
	char *dots = NULL, *end = NULL;
	errno = 0;
	*ret_from = strtoll(text, &dots, 10);
	if (dots == text || strncmp(dots, "..", 2) != 0)
		return false;
	*ret_to = strtoll(dots + 2, &end, 10);
	return end != dots + 2 && !*end && !errno && *ret_from <= *ret_to;
}

static bool is_known(const struct gm_fit_options *options, const char *name)
{
	bool known = strcmp(options->range, name) == 0 || strcmp(name, "with") == 0;
	for (size_t i = 0; i < options->table.variable_count && !known; i++)
		known = strcmp(options->table.variables[i].name, name) == 0;
	return known;
}

/* "512,1024,2048" */
static struct gm_error *take_values(
        struct parsing *parsing, const char *text, const char *name, const char *list)
{
	struct gm_fit_table *table = &parsing->options->table;
	if (table->variable_count == GM_FIT_VARIABLES_MAX)
		return gm_error_create(GM_USAGE,
		        "fit: --vary %s: more than %d variables: leave out one", text,
		        GM_FIT_VARIABLES_MAX);
	struct gm_fit_variable *variable = &table->variables[table->variable_count];
	snprintf(variable->name, sizeof(variable->name), "%s", name);
	variable->values = calloc(VALUES_MAX, sizeof(*variable->values));
	if (!variable->values)
		return &gm_error_no_memory;
	table->variable_count++;
	char *next = keep(parsing, list);
	for (char *value; (value = strsep(&next, ","));) {
		if (!*value || variable->count == VALUES_MAX)
			return not_a_variable(text);
		variable->values[variable->count++] = value;
	}
	return NULL;
}

static struct gm_error *take_variable(struct parsing *parsing, const char *text)
{
	struct gm_fit_options *options = parsing->options;
	const char *equals = strchr(text, '=');
	size_t length = equals ? (size_t)(equals - text) : 0;
	char name[sizeof(options->range)];
	int64_t from, to;
	if (!length || length >= sizeof(name) - 3 || strpbrk(text, "{}"))
		return not_a_variable(text);
	snprintf(name, sizeof(name), "%.*s", (int)length, text);
	if (is_known(options, name))
		return gm_error_create(
		        GM_USAGE, "fit: --vary %s: the name is taken: use another one", text);
	if (!is_range(equals + 1, &from, &to))
		return strstr(equals + 1, "..") ? not_a_variable(text)
		                                : take_values(parsing, text, name, equals + 1);
	if (*options->range)
		return gm_error_create(GM_USAGE,
		        "fit: --vary %s: {%s} has a range too, and only one value is searched for: "
		        "give the values of the other one, as in --vary %s=%lld,%lld",
		        text, options->range, name, (long long)from, (long long)to);
	snprintf(options->range, sizeof(options->range), "%s", name);
	options->table.from = from;
	options->table.to = to;
	return NULL;
}

/* ---- --sim and --price ----------------------------------------------------------------------- */

static struct gm_error *add_device(struct gm_fit_table *table, const char *spec)
{
	struct gm_sim_choice choice;
	if (table->device_count == DEVICES_MAX)
		return gm_error_create(
		        GM_USAGE, "fit: --sim: more than %d devices: name fewer", DEVICES_MAX);
	gm_try(gm_sim_profile_parse(spec, &choice));
	struct gm_fit_device *device = &table->devices[table->device_count++];
	*device = (struct gm_fit_device){.total = choice.profile.memory,
	        .room = choice.profile.memory - choice.profile.context};
	/* as it was asked for, with the number of devices */
	snprintf(device->name, sizeof(device->name), "%s", *spec ? spec : choice.spec);
	snprintf(device->profile, sizeof(device->profile), "%s", choice.spec);
	return NULL;
}

static int by_memory(const void *a, const void *b)
{
	const struct gm_fit_device *left = a, *right = b;
	if (left->total != right->total)
		return left->total < right->total ? -1 : 1;
	return strcmp(left->name, right->name);
}

static struct gm_error *take_devices(struct parsing *parsing, const char *list)
{
	struct gm_fit_table *table = &parsing->options->table;
	table->device_count = 0;
	if (strcmp(list, "all") == 0) {
		for (const struct gm_sim_profile *profile = gm_sim_profiles; profile->name;
		        profile++)
			gm_try(add_device(table, profile->name));
		qsort(table->devices, table->device_count, sizeof(*table->devices), by_memory);
		return NULL;
	}
	char *next = keep(parsing, list);
	for (char *spec; (spec = strsep(&next, ","));)
		gm_try(add_device(table, spec));
	return NULL;
}

/* "l4-24gb=0.80" */
static struct gm_error *take_price(struct gm_fit_table *table, const char *text)
{
	const char *equals = strchr(text, '=');
	char *end = NULL;
	double price = equals && equals[1] ? strtod(equals + 1, &end) : 0;
	if (!equals || !end || *end || !isfinite(price) || price < 0)
		return gm_error_create(GM_USAGE,
		        "fit: --price %s: not PROFILE=AMOUNT: give one of the devices and a "
		        "number, as "
		        "in --price l4-24gb=0.80",
		        text);
	for (size_t i = 0; i < table->device_count; i++) {
		struct gm_fit_device *device = &table->devices[i];
		if (strlen(device->name) == (size_t)(equals - text) &&
		        strncmp(device->name, text, (size_t)(equals - text)) == 0) {
			device->priced = true;
			device->price = price;
			return NULL;
		}
	}
	return gm_error_create(GM_USAGE,
	        "fit: --price %s: no such device in --sim: name it in --sim too, or use --sim=all",
	        text);
}

/* ---- --with ---------------------------------------------------------------------------------- */

static bool is_measure(const char *name)
{
	size_t length = strlen(name);
	for (const char *at = measures; *at; at += strspn(at, ", ")) {
		if (strcspn(at, ",") == length && strncmp(at, name, length) == 0)
			return true;
		at += strcspn(at, ",");
	}
	return strncmp(name, "checkpoint:", 11) == 0 && name[11] && !strpbrk(name, ", \t\n");
}

static struct gm_error *take_way(struct parsing *parsing, const char *text)
{
	struct gm_fit_table *table = &parsing->options->table;
	struct gm_fit_way *way = &table->ways[table->way_count];
	const char *equals = strchr(text, '=');
	size_t length = equals ? (size_t)(equals - text) : strlen(text);
	if (table->way_count == WAYS_MAX)
		return gm_error_create(GM_USAGE, "fit: --with %s: more than %d: leave out some",
		        text, WAYS_MAX - 1);
	if (!length || length >= sizeof(way->name))
		return gm_error_create(GM_USAGE,
		        "fit: --with %s: a measure has a name of 1 to %zu characters: as in --with "
		        "checkpoint, or --with checkpoint='--gradient-checkpointing'",
		        text, sizeof(way->name) - 1);
	*way = (struct gm_fit_way){0};
	snprintf(way->name, sizeof(way->name), "%.*s", (int)length, text);
	if (equals) {
		way->arguments = keep(parsing, equals + 1);
		table->way_count++;
		return NULL;
	}
	char *next = keep(parsing, text);
	for (char *measure; (measure = strsep(&next, "+"));) {
		if (!is_measure(measure) || way->measure_count == GM_FIT_MEASURES_MAX)
			return gm_error_create(GM_USAGE,
			        "fit: --with %s: gpumem cannot apply %s itself: it can apply %s; "
			        "for "
			        "others add the program's own arguments, as in --with "
			        "%s='--some-option'",
			        text, *measure ? measure : "a measure without a name", measures,
			        *measure ? measure : "NAME");
		way->measures[way->measure_count++] = measure;
	}
	table->way_count++;
	return NULL;
}

/* ---- all of them ----------------------------------------------------------------------------- */

enum fit_option { VARY, SIM, PRICE, WITH, OPTIONS };
static const char *const option_names[OPTIONS] = {
        [VARY] = "--vary", [SIM] = "--sim", [PRICE] = "--price", [WITH] = "--with"};

/* Of "--vary=x" and "--vary", "x" the value. */
static int option_of(int argc, char **argv, int *at, const char **ret_value)
{
	for (int i = 0; i < OPTIONS; i++) {
		size_t length = strlen(option_names[i]);
		const char *word = argv[*at];
		if (strncmp(word, option_names[i], length) != 0 ||
		        (word[length] && word[length] != '='))
			continue;
		if (word[length])
			*ret_value = word + length + 1;
		else if (i == SIM) /* the default device */
			*ret_value = "";
		else
			*ret_value = *at + 1 < argc ? argv[++*at] : "";
		return i;
	}
	return -1;
}

static struct gm_error *take(struct parsing *parsing, int option, const char *value)
{
	switch (option) {
	case VARY:
		return take_variable(parsing, value);
	case SIM:
		return take_devices(parsing, value);
	case WITH:
		return take_way(parsing, value);
	default:
		return NULL; /* prices come behind the devices */
	}
}

static struct gm_error *unknown(const char *word)
{
	static const char *const known[] = {
	        "--vary", "--sim", "--price", "--with", "--json", "--help", NULL};
	return word[0] == '-'
	               ? gm_arguments_wrong("fit", gm_arguments_unknown(word, known))
	               : gm_error_create(GM_USAGE,
	                         "fit: %s: not an option: the program comes after --, as in "
	                         "`gpumem fit --vary batch=1..512 -- python train.py --batch "
	                         "{batch}`",
	                         word);
}

static struct gm_error *take_all(struct parsing *parsing, int argc, char **argv, int *ret_end)
{
	struct gm_fit_options *options = parsing->options;
	int i;
	for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		const char *value = "";
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			options->help = true;
			return NULL;
		}
		if (strcmp(argv[i], "--json") == 0) {
			options->json = true;
			continue;
		}
		const char *word = argv[i];
		int option = option_of(argc, argv, &i, &value);
		if (option < 0)
			return unknown(word);
		gm_try(take(parsing, option, value));
	}
	options->program = i < argc ? &argv[i + 1] : NULL;
	*ret_end = i;
	for (i = 1; i < *ret_end; i++) {
		const char *value = "";
		if (option_of(argc, argv, &i, &value) == PRICE)
			gm_try(take_price(&options->table, value));
	}
	return NULL;
}

static struct gm_error *check_placed(const struct gm_fit_options *options, const char *name)
{
	char braced[sizeof(options->range) + 2];
	snprintf(braced, sizeof(braced), "{%s}", name);
	for (char **at = options->program; *at; at++)
		if (strstr(*at, braced))
			return NULL;
	for (size_t i = 0; i < options->table.way_count; i++)
		if (options->table.ways[i].arguments &&
		        strstr(options->table.ways[i].arguments, braced))
			return NULL;
	return gm_error_create(GM_USAGE,
	        "fit: %s is not in the program's arguments: put it in place of the value, as in "
	        "--%s %s",
	        braced, name, braced);
}

static struct gm_error *check(struct gm_fit_options *options)
{
	struct gm_fit_table *table = &options->table;
	options->tabled = table->variable_count || table->way_count > 1 || table->device_count > 1;
	if (!*options->range && !options->tabled)
		return gm_error_create(GM_USAGE,
		        "fit: --vary is missing: add --vary NAME=A..B, as in --vary batch=1..512");
	if (!options->program || !options->program[0])
		return gm_error_create(GM_USAGE,
		        "fit: no program: add it after --, with {%s} in place of the value",
		        *options->range ? options->range : "NAME");
	if (*options->range) {
		table->range = options->range;
		gm_try(check_placed(options, options->range));
	}
	for (size_t i = 0; i < table->variable_count; i++)
		gm_try(check_placed(options, table->variables[i].name));
	return NULL;
}

struct gm_error *gm_fit_options_parse(int argc, char **argv, struct gm_fit_options *ret_options)
{
	*ret_options = (struct gm_fit_options){0};
	size_t size = 1;
	for (int i = 0; i < argc; i++)
		size += strlen(argv[i]) + 1;
	struct gm_fit_table *table = &ret_options->table;
	ret_options->words = calloc(2, size);
	table->devices = calloc(DEVICES_MAX, sizeof(*table->devices));
	table->ways = calloc(WAYS_MAX, sizeof(*table->ways));
	if (!ret_options->words || !table->devices || !table->ways)
		return &gm_error_no_memory;
	table->way_count = 1; /* the program as it is */
	struct parsing parsing = {ret_options, ret_options->words};
	int end = argc;
	gm_try(take_devices(&parsing, ""));
	gm_try(take_all(&parsing, argc, argv, &end));
	return ret_options->help ? NULL : check(ret_options);
}

void gm_fit_options_deinit(struct gm_fit_options *options)
{
	for (size_t i = 0; i < options->table.variable_count; i++)
		free(options->table.variables[i].values);
	free(options->table.devices);
	free(options->table.ways);
	free(options->table.cells);
	free(options->words);
}
