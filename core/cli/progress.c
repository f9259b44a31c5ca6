#include "cli/progress.h"

#include <string.h>
#include <unistd.h>

#include "base/put.h"
#include "base/size.h"
#include "render/progress.h"

struct gm_progress_line gm_progress_begin(FILE *out)
{
	return (struct gm_progress_line){.out = isatty(fileno(out)) ? out : NULL, .percent = -1};
}

void gm_progress_show(
        struct gm_progress_line *line, enum gm_progress_kind kind, uint64_t done, uint64_t all)
{
	const char *what = gm_text_progress(kind);
	if (!what) {
		gm_progress_end(line);
		return;
	}
	/* The total size of a compressed file is not known; then `all` is 0. */
	int percent = all ? (int)(100 * (double)done / (double)all) : (int)(done >> 26);
	if (!line->out || percent == line->percent)
		return;
	line->percent = percent;
	char text[160], size[GM_SIZE_TEXT], total[GM_SIZE_TEXT];
	int length =
	        kind == GM_PROGRESS_REPLAYING || kind == GM_PROGRESS_TRYING
	                ? snprintf(text, sizeof(text), "%.80s: %ju of %ju", what, (uintmax_t)done,
	                          (uintmax_t)all)
	        : all  ? snprintf(text, sizeof(text), "%.80s: %s of %s", what,
	                         gm_text_size(done, size), gm_text_size(all, total))
	        : done ? snprintf(text, sizeof(text), "%.80s: %s", what, gm_text_size(done, size))
	               : snprintf(text, sizeof(text), "%.80s", what);
	size_t width = line->width;
	line->width = length > 0 ? (size_t)length : 0;
	gm_put(line->out, "\r%s%*s", text, (int)(width > line->width ? width - line->width : 0),
	        "");
	fflush(line->out);
}

void gm_progress_end(struct gm_progress_line *line)
{
	if (line->out && line->width > 0) {
		gm_put(line->out, "\r%*s\r", (int)line->width, "");
		fflush(line->out);
	}
	line->width = 0;
}
