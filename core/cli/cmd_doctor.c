#include "cli/arguments.h"
#include "render/doctor.h"

extern const struct gm_command gm_command_doctor;

static struct gm_error *take_option(void *input, int key, const char *argument)
{
	struct gm_context *context = input;
	uint64_t pid;
	struct gm_error *error = gm_parse_number(argument, 1, INT32_MAX, &pid);
	if (!error)
		context->pid = (int)pid;
	return error;
}

static struct gm_error *run_doctor(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	static const struct argp_option options[] = {
	        {"pid", 'p', "PID", 0, "the process to look at", 0}, {0}};
	struct gm_arguments arguments;
	struct gm_error *error = gm_arguments_parse(&gm_command_doctor, argc, argv, options,
	        take_option, context, 0, false, out, &arguments);
	if (error || arguments.help)
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
        .summary = "what was detected, what works and what does not",
        .usage = "[--pid PID] [--json]\n"
                 "Says what of this machine and of a process was detected: gdb, devices, CPython, "
                 "PyTorch, its\n"
                 "allocator, the CUDA runtime; and which commands therefore work. Without a "
                 "process, about this\n"
                 "machine alone.\n\n"
                 "Example: gpumem doctor --pid 4711",
        .shell = true,
        .gdb = true,
        .run = run_doctor,
};
