/* Any text is looked through for PyTorch's messages, and what is found is judged: never a crash, no sum that wraps. */
#include <stdint.h>
#include <stdlib.h>

#include "ask/oom/oom_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_oom_message *messages;
	size_t count;
	if (!gm_oom_parse((const char *)data, size, &messages, &count))
		return 0;
	for (size_t i = 0; i < count; i++) {
		struct gm_oom_judgement judgement;
		if (!gm_oom_judge(&messages[i].facts, &judgement))
			abort();
		if (!judgement.verdict || !judgement.sentence)
			abort();
		gm_oom_judgement_deinit(&judgement);
	}
	free(messages);
	return 0;
}
