/* Any text is looked through for PyTorch's messages, and what is found is judged and put into
 * words: never a crash, no sum that wraps. */
#include <stdint.h>
#include <stdlib.h>

#include "ask/oom/oom_text.h"
#include "ask/oom/oom_facts.h"
#include "render/oom_verdict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(char *text)
{
	if (!text || !text[0])
		abort();
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_oom_messages messages;
	if (!gm_oom_parse((const char *)data, size, &messages))
		return 0;
	for (size_t i = 0; i < messages.count; i++) {
		const struct gm_oom_facts *facts = &messages.items[i].facts;
		struct gm_oom_judgement judgement;
		gm_oom_judge(facts, &judgement);
		if (!judgement.verdict)
			abort();
		check(gm_oom_sentence(facts, &judgement));
		for (size_t j = 0; j < judgement.line_count; j++)
			check(gm_oom_line_text(facts, &judgement, &judgement.lines[j]));
		for (size_t j = 0; j < judgement.remedy_count; j++)
			check(gm_oom_remedy_text(facts, &judgement, &judgement.remedies[j]));
	}
	free(messages.items);
	return 0;
}
