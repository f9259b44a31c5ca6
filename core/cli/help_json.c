/* Help as JSON. */
#include <argp.h>
#include <jansson.h>
#include <string.h>

#include "cli/command.h"
#include "render/json.h"

static const char *effect_name(int effect)
{
	static const char *const names[] = {
	        [GM_EFFECT_NONE] = "none",
	        [GM_EFFECT_FILES] = "files",
	        [GM_EFFECT_PROCESS] = "processes",
	        [GM_EFFECT_PROGRAM] = "programs",
	};
	return effect >= 0 && effect <= GM_EFFECT_PROGRAM ? names[effect] : names[GM_EFFECT_NONE];
}

/* The lines of `text` from `*at` up to the next empty line. */
static json_t *usage_lines(const char *text, size_t *at)
{
	json_t *lines = json_array();
	const char *again = "       gpumem ";
	for (const char *line = text;;) {
		size_t length = strcspn(line, "\n");
		json_array_append_new(lines, json_stringn(line, length));
		line += length + (line[length] == '\n');
		*at = (size_t)(line - text);
		if (strncmp(line, again, strlen(again)) != 0)
			return lines;
		/* "       gpumem oom --text": the name stands before the first one too */
		line += strlen(again);
		line += strcspn(line, " \n");
		line += *line == ' ';
	}
}

static json_t *option_json(const struct argp_option *option)
{
	const char letter[2] = {option->key > ' ' && option->key <= '~' ? (char)option->key : 0};
	bool optional = option->flags & OPTION_ARG_OPTIONAL;
	return json_pack("{s:s,s:s?,s:s?,s:b,s:s,s:s}", "name", option->name, "letter",
	        letter[0] ? letter : NULL, "value", option->arg, "value_optional", optional, "text",
	        option->doc ? option->doc : "", "effect", effect_name(option->group));
}

struct gm_error *gm_command_help_json(
        const struct gm_command *command, const struct argp_option *options, FILE *out)
{
	size_t text = 0;
	json_t *usage = usage_lines(command->usage, &text), *list = json_array();
	for (; options->name; options++)
		json_array_append_new(list, option_json(options));
	return gm_json_write(
	        json_pack("{s:s,s:s,s:o,s:s,s:o,s:s,s:b,s:b}", "name", command->name, "summary",
	                command->summary, "usage", usage, "text", command->usage + text, "options",
	                list, "effect", effect_name((int)command->effect), "shell", command->shell,
	                "gdb", command->gdb),
	        true, out);
}

struct gm_error *gm_commands_help_json(bool shell, FILE *out)
{
	json_t *list = json_array();
	for (size_t i = 0; gm_commands[i]; i++) {
		const struct gm_command *command = gm_commands[i];
		if (shell ? command->shell : command->gdb)
			json_array_append_new(
			        list, json_pack("{s:s,s:s,s:s,s:b,s:b}", "name", command->name,
			                      "summary", command->summary, "effect",
			                      effect_name((int)command->effect), "shell",
			                      command->shell, "gdb", command->gdb));
	}
	return gm_json_write(
	        json_pack("{s:s,s:o}", "version", GPUMEM_VERSION, "commands", list), true, out);
}
