#include "ask/context.h"
#include "ask/doctor.h"
#include "cli/target.h"
#include "render/doctor.h"

extern const struct gm_command gm_command_doctor;

static struct gm_error *run_doctor(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	static const struct argp_option options[] = {GM_TARGET_OPTIONS, {0}};
	struct gm_arguments arguments;
	struct gm_error *error = gm_arguments_parse(&gm_command_doctor, argc, argv, options,
	        gm_target_option, context, 0, false, out, &arguments);
	if (error || arguments.help)
		return error;
	error = gm_target_check(context);
	if (error)
		return error;
	struct gm_doctor doctor;
	error = gm_ask_doctor(context, &doctor);
	if (error)
		return error;
	if (arguments.json)
		error = gm_render_doctor_json(&doctor, out);
	else
		gm_render_doctor_text(&doctor, out);
	gm_doctor_deinit(&doctor);
	return error;
}

const struct gm_command gm_command_doctor = {
        .name = "doctor",
        .summary = "shows what was detected, and which features work",
        .usage = "[--pid PID | --core CORE] [--json]\n"
                 "Shows what was detected on this machine and in a process or a core dump (gdb, "
                 "devices, CPython,\n"
                 "PyTorch, its allocator, the CUDA runtime), and which commands work as a result. "
                 "Without a process,\n"
                 "it shows only this machine.\n"
                 "\n"
                 "Example: gpumem doctor --pid 4711\n"
                 "Example: gpumem doctor --core core.4711",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run_doctor,
};
