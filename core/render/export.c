#include "render/export.h"

#include <string.h>

#include "base/put.h"
#include "base/size.h"

void gm_render_export_text(
        const char *path, const char *form, uint64_t events, uint64_t bytes, FILE *out)
{
	static const struct {
		const char *form, *reader;
	} readers[] = {{"pytorch", "https://pytorch.org/memory_viz reads it"},
	        {"perfetto", "https://ui.perfetto.dev reads it"},
	        {"folded", "flamegraph.pl and https://speedscope.app read it"},
	        {"sqlite", "docs/export.md describes its tables"}};
	const char *reader = NULL;
	char count[GM_SIZE_GROUPED], size[GM_SIZE_TEXT];
	for (size_t i = 0; i < sizeof(readers) / sizeof(*readers); i++)
		if (strcmp(readers[i].form, form) == 0)
			reader = readers[i].reader;
	gm_put(out, "%s: %s event%s as %s in %s%s%s\n", path, gm_text_grouped(events, count),
	        gm_text_s(events), form, gm_text_size(bytes, size), reader ? ": " : "",
	        reader ? reader : "");
}
