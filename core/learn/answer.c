/* The probe's text: "field NAME VALUE" and "missing NAME WHY", one on each line. It comes from
 * another program: hostile input. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "learn/answer.h"
#include "torch/fields.h"

static const char HEAD[] = "gpumem-torch-probe 1\n";

static struct gm_error *no_answer(const char *why)
{
	return gm_error_create(GM_TARGET,
	        "learn: the probe's answer cannot be read (%s): nothing was learned: report this",
	        why);
}

static struct gm_error *read_pid(const struct gm_probe *probe, const char *line)
{
	int pid;
	/* the reading process was started directly, or is in its group if a script comes before the
	 * interpreter */
	if (sscanf(line, "pid %d", &pid) != 1 || pid <= 1 || getpgid(pid) != probe->pid)
		return no_answer("its process is not the one that was started");
	return NULL;
}

static struct gm_error *read_field(
        const char *line, struct gm_torch_layout *layout, unsigned *count)
{
	char name[64];
	unsigned value;
	if (sscanf(line, "field %63s %u", name, &value) != 2)
		return no_answer("half a line");
	const struct gm_torch_field *field = gm_torch_field_find(name);
	if (!field) /* this gpumem does not read it */
		return NULL;
	if (value > field->most)
		return gm_error_create(GM_TARGET,
		        "learn: %s at %u: out of range: nothing was learned", name, value);
	gm_torch_field_set(layout, field, value);
	(*count)++;
	return NULL;
}

enum { REASON = 400 };

/* Why a field was not found: the reason from its own line, or another field that was not found and
 * that it may depend on. */
static const char *reason(const char *missing, const char *name, char text[REASON])
{
	size_t length = strlen(name), size = 0;
	for (const char *line = missing; line && *line; line = strchr(line, '\n') + 1) {
		if (strncmp(line, name, length) == 0 && line[length] == ' ') {
			snprintf(text, REASON, "%.200s", line + length + 1);
			text[strcspn(text, "\n")] = 0;
			return text;
		}
	}
	snprintf(text, REASON, "a field that it depends on was not found");
	for (const char *line = missing; line && *line; line = strchr(line, '\n') + 1) {
		size = strlen(text);
		snprintf(text + size, REASON - size, "; %.*s", (int)strcspn(line, "\n"), line);
	}
	return text;
}

struct gm_error *gm_answer_row(
        const struct gm_probe *probe, struct gm_torch_layout *ret_layout, char **ret_missing)
{
	struct gm_torch_layout layout = {0};
	_cleanup_free_ char *missing = NULL;
	size_t missing_size = 0;
	unsigned fields = 0;
	bool pid = false, version = false;
	if (probe->size < sizeof(HEAD) || strncmp(probe->text, HEAD, sizeof(HEAD) - 1) != 0 ||
	        strlen(probe->text) != probe->size)
		return no_answer("it is not a probe's text");
	_cleanup_fclose_ FILE *out = open_memstream(&missing, &missing_size);
	if (!out)
		return &gm_error_no_memory;
	for (const char *line = probe->text; *line; line = strchr(line, '\n') + 1) {
		if (strncmp(line, "pid ", 4) == 0) {
			gm_try(read_pid(probe, line));
			pid = true;
		} else if (strncmp(line, "version ", 8) == 0) {
			version = sscanf(line, "version %d.%d", &layout.major,
			                  &layout.minor_first) == 2;
			layout.minor_last = layout.minor_first;
		} else if (strncmp(line, "field ", 6) == 0) {
			gm_try(read_field(line, &layout, &fields));
		} else if (strncmp(line, "missing ", 8) == 0) {
			for (const char *at = line + 8; *at != '\n'; at++)
				fputc(isprint((unsigned char)*at) ? *at : '?', out);
			fputc('\n', out);
		}
	}
	fflush(out);
	if (!pid || !version || fields == 0)
		return no_answer("its process, version or fields are missing");
	const char *why;
	const struct gm_torch_field *unsound = gm_torch_layout_unsound(&layout, &why);
	char text[REASON];
	if (unsound)
		return gm_error_create(GM_TARGET,
		        "learn: PyTorch %d.%d: where %s lies was not found (%s): its holders are "
		        "not known; a recording and "
		        "call stacks still work",
		        layout.major, layout.minor_first, unsound->name,
		        reason(missing, unsound->name, text));
	fclose(gm_take(out));
	*ret_layout = layout;
	*ret_missing = gm_take(missing);
	return NULL;
}
