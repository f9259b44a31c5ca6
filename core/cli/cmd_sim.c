/* `gpumem sim list`: lists the simulated devices. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/put.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "render/json.h"
#include "sim/profile.h"

extern const struct gm_command gm_command_sim;

/* enum cudaDeviceAttr (driver_types.h, CUDA 13.0) */
enum { MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76 };

static int attribute(const struct gm_sim_profile *profile, int id)
{
	int known;
	return gm_sim_profile_attribute(profile, id, &known);
}

static void list_text(FILE *out)
{
	gm_put(out, "%-12s %-24s %10s %10s %4s %4s\n", "PROFILE", "DEVICE", "MEMORY", "CONTEXT",
	        "SMS", "CC");
	for (const struct gm_sim_profile *p = gm_sim_profiles; p->name; p++)
		gm_put(out, "%-12s %-24s %6.2f GiB %6.0f MiB %4d %2d.%d\n", p->name, p->device_name,
		        (double)p->memory / (1 << 30), (double)p->context / (1 << 20),
		        attribute(p, MULTIPROCESSORS), attribute(p, MAJOR), attribute(p, MINOR));
	gm_put(out, "\n"
	            "A size such as 24GiB means the first profile with that memory; PROFILExN "
	            "means N devices.\n");
}

static struct gm_error *list_json(FILE *out)
{
	json_t *list = json_array();
	for (const struct gm_sim_profile *p = gm_sim_profiles; list && p->name; p++)
		json_array_append_new(
		        list, json_pack("{s:s,s:s,s:I,s:I,s:i,s:[i,i]}", "profile", p->name, "name",
		                      p->device_name, "total", (json_int_t)p->memory, "context",
		                      (json_int_t)p->context, "multiprocessors",
		                      attribute(p, MULTIPROCESSORS), "compute_capability",
		                      attribute(p, MAJOR), attribute(p, MINOR)));
	json_t *whole = list ? json_pack("{s:o}", "profiles", list) : NULL;
	return gm_json_write(whole, false, out);
}

static struct gm_error *run_sim(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct gm_error *error = gm_arguments_parse(
	        &gm_command_sim, argc, argv, NULL, NULL, NULL, 1, false, out, &arguments);
	if (error || arguments.help)
		return error;
	if (arguments.positional_count != 1 || strcmp(arguments.positional[0], "list") != 0)
		return gm_error_create(GM_USAGE, "sim: %s%s%s: type `gpumem sim list`",
		        arguments.positional_count ? "unknown word '" : "no action given",
		        arguments.positional_count ? arguments.positional[0] : "",
		        arguments.positional_count ? "'" : "");
	if (arguments.json)
		return list_json(out);
	list_text(out);
	return NULL;
}

const struct gm_command gm_command_sim = {
        .name = "sim",
        .summary = "lists the simulated CUDA devices",
        .usage = "list [--json]\n"
                 "Prints the simulated devices' profiles, for `gpumem run --sim=PROFILE` and "
                 "`gpumem gdb "
                 "--sim=PROFILE`.\n\n"
                 "Example: gpumem sim list",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run_sim,
};
