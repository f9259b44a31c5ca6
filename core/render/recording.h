/* The figures of a recording in progress, in one line. */
#ifndef GM_RENDER_RECORDING_H
#define GM_RENDER_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

struct gm_recording_figures {
	uint64_t events, gaps;
	uint64_t cuda_peak, cpu_peak; /* bytes */
	bool torch_seen;              /* the program has loaded PyTorch */
};

/* "1,234 events, peak 4,436,169,216 bytes allocated". The caller frees it; NULL: no memory. */
char *gm_render_recording(const struct gm_recording_figures *figures);

#endif
