/* The stacks of an event, as text: the Python frames with their source lines, then the native ones.
 */
#include <string.h>

#include "ask/recording/place.h"
#include "base/cleanup.h"
#include "base/put.h"
#include "base/regular_file.h"
#include "render/answers.h"

enum { LINE_MAX_SHOWN = 200, FILE_MAX_READ = 16 << 20 };

/* A line of a source file without the blanks around it; false: there is none. The recording names
 * the file, so that it may be anything. */
static bool read_line(const char *path, uint32_t number, char line[LINE_MAX_SHOWN])
{
	if (path[0] != '/' || number == 0)
		return false;
	_cleanup_fclose_ FILE *file = gm_regular_file_stream(path);
	if (!file)
		return false;
	uint32_t at = 1;
	size_t length = 0;
	bool begun = false;
	for (long read = 0; read < FILE_MAX_READ; read++) {
		int c = fgetc(file);
		if (c == EOF || (c == '\n' && at == number))
			break;
		if (c == '\n') {
			at++;
			continue;
		}
		begun = at == number && (begun || (c != ' ' && c != '\t'));
		if (begun && length < LINE_MAX_SHOWN - 1)
			line[length++] = (char)c;
	}
	while (length > 0 && strchr(" \t\r", line[length - 1]))
		length--;
	line[length] = '\0';
	return at == number && length > 0;
}

static void put_python(const struct gm_log *log, const struct gm_event *event, FILE *out)
{
	struct gm_frame_place place;
	bool borrowed = event->flags & GM_EVENT_BORROWED;
	if (!gm_place_frame(log, event->python_stack, 0, &place)) {
		fputs("Python: no frames are recorded\n", out);
		return;
	}
	gm_put(out, "Python, innermost frame first%s:\n",
	        borrowed ? " (of the thread that waits in backward())" : "");
	for (size_t i = 0; gm_place_frame(log, event->python_stack, i, &place); i++) {
		char line[LINE_MAX_SHOWN];
		gm_put(out, "%4zu  %s:%u in %s\n", i, place.file, place.line, place.function);
		if (read_line(place.file, place.line, line))
			gm_put(out, "        %s\n", line);
	}
}

static void put_native(const struct gm_log *log, const struct gm_event *event, FILE *out)
{
	size_t count;
	const uint64_t *addresses = gm_log_native_stack(log, event->native_stack, &count);
	if (count == 0) {
		fputs("native: no frames are recorded\n", out);
		return;
	}
	fputs("native, innermost frame first:\n", out);
	for (size_t i = 0; i < count; i++) {
		struct gm_native_place place;
		gm_place_native(log, addresses[i], &place);
		gm_put(out, "%4zu  %s", i, place.function ? place.function : "??");
		if (place.object)
			gm_put(out, " in %s", place.object);
		if (place.file && place.line)
			gm_put(out, " at %s:%u", place.file, place.line);
		fputc('\n', out);
	}
}

void gm_render_event_stacks(const struct gm_log *log, const struct gm_event *event, FILE *out)
{
	put_python(log, event, out);
	put_native(log, event, out);
}
