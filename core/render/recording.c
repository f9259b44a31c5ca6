#include "render/recording.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/size.h"

char *gm_render_recording(const struct gm_recording_figures *figures)
{
	char events[GM_SIZE_GROUPED], cuda[GM_SIZE_GROUPED], cpu[GM_SIZE_GROUPED], gaps[48] = "";
	gm_text_grouped(figures->events, events);
	gm_text_grouped(figures->cuda_peak, cuda);
	gm_text_grouped(figures->cpu_peak, cpu);
	if (figures->gaps)
		snprintf(gaps, sizeof(gaps), ", %" PRIu64 " gap%s (see `gpumem info`)",
		        figures->gaps, gm_text_s(figures->gaps));
	const char *s = gm_text_s(figures->events);
	char *text = NULL;
	int length;
	if (figures->cuda_peak && figures->cpu_peak)
		length = asprintf(&text,
		        "%s event%s, peak %s bytes allocated on CUDA devices, %s by CPU tensors%s",
		        events, s, cuda, cpu, gaps);
	else if (figures->cuda_peak || figures->cpu_peak)
		length = asprintf(&text, "%s event%s, peak %s bytes allocated%s", events, s,
		        figures->cuda_peak ? cuda : cpu, gaps);
	else
		length = asprintf(&text, "%s event%s%s%s", events, s,
		        figures->torch_seen ? "" : ": PyTorch was not loaded", gaps);
	return length < 0 ? NULL : text;
}
