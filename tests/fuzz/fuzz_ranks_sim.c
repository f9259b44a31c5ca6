/* The result of a simulated rank, as a file has it: read, and written again, it is the same. */
#include <stdlib.h>
#include <string.h>

#include "ranks/sim_result.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct gm_sim_result result, again;
	char *text;
	struct gm_error *error = gm_sim_result_read("input", (const char *)bytes, size, &result);
	if (error) {
		gm_error_destroy(error);
		return 0;
	}
	if (gm_sim_result_text(&result, &text) ||
	        gm_sim_result_read("again", text, strlen(text), &again) ||
	        gm_sim_result_class(&result) != gm_sim_result_class(&again))
		abort();
	free(text);
	return 0;
}
