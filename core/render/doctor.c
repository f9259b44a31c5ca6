#include "render/doctor.h"

#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "render/json.h"

static const char *const marks[] = {"ok", "-", "!!"};
static const char *const states[] = {"ok", "absent", "problem"};

static void text_checks(const struct gm_doctor_checks *checks, FILE *out)
{
	for (size_t i = 0; i < checks->count; i++) {
		const struct gm_doctor_check *check = &checks->items[i];
		gm_put(out, "  %-2s  %-17s %s\n", marks[check->state], check->name, check->value);
		if (check->advice)
			gm_put(out, "      %-17s to do: %s\n", "", check->advice);
	}
}

void gm_render_doctor_text(const struct gm_doctor *doctor, FILE *out)
{
	gm_put(out, "this machine\n");
	text_checks(&doctor->machine, out);
	if (doctor->core) {
		gm_put(out, "\ncore %s\n", doctor->core);
		text_checks(&doctor->process, out);
	} else if (doctor->pid > 0) {
		gm_put(out, "\nprocess %d: %.100s\n", doctor->pid,
		        doctor->command && *doctor->command ? doctor->command : "?");
		text_checks(&doctor->process, out);
	}
	gm_put(out, "\nwhat works%s\n", doctor->core || doctor->pid > 0 ? " on it" : "");
	for (size_t i = 0; i < doctor->command_count; i++) {
		const struct gm_doctor_command *command = &doctor->commands[i];
		gm_put(out, "  %-3s %s%s%s\n", command->works ? "yes" : "no", command->name,
		        command->reason ? ": " : "", command->reason ? command->reason : "");
	}
}

static json_t *string_or_null(const char *text)
{
	return text ? gm_json_string(text) : json_null();
}

static json_t *json_checks(const struct gm_doctor_checks *checks)
{
	json_t *list = json_array();
	for (size_t i = 0; list && i < checks->count; i++) {
		const struct gm_doctor_check *check = &checks->items[i];
		json_array_append_new(
		        list, json_pack("{s:s,s:s,s:o,s:o}", "name", check->name, "state",
		                      states[check->state], "value", string_or_null(check->value),
		                      "advice", string_or_null(check->advice)));
	}
	return list;
}

struct gm_error *gm_render_doctor_json(const struct gm_doctor *doctor, FILE *out)
{
	json_t *commands = json_array();
	for (size_t i = 0; commands && i < doctor->command_count; i++) {
		const struct gm_doctor_command *command = &doctor->commands[i];
		json_array_append_new(commands,
		        json_pack("{s:s,s:b,s:o}", "name", command->name, "works", command->works,
		                "reason", string_or_null(command->reason)));
	}
	json_t *process = json_null();
	if (doctor->core)
		process = json_pack("{s:o,s:o}", "core", string_or_null(doctor->core), "checks",
		        json_checks(&doctor->process));
	else if (doctor->pid > 0)
		process = json_pack("{s:i,s:o,s:o}", "pid", doctor->pid, "command",
		        string_or_null(doctor->command), "checks", json_checks(&doctor->process));
	json_t *root = json_pack("{s:o,s:o,s:o}", "machine", json_checks(&doctor->machine),
	        "process", process, "commands", commands);
	return gm_json_write(root, false, out);
}
