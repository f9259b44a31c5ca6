/* The chains of an answer: queries about a chain, and their memory. */
#include "holders/holders.h"

#include <stdlib.h>

const struct gm_holder_step *gm_holder_first(const struct gm_holder *holder)
{
	for (size_t i = holder->step_count; i-- > 0;)
		if (gm_step_speaks(&holder->steps[i]))
			return &holder->steps[i];
	return NULL;
}

void gm_holder_deinit(struct gm_holder *holder)
{
	for (size_t i = 0; i < holder->step_count; i++) {
		free(holder->steps[i].name);
		free(holder->steps[i].function);
		free(holder->steps[i].file);
		free(holder->steps[i].type);
		free(holder->steps[i].of);
		free(holder->steps[i].slot);
		gm_native_owner_release(holder->steps[i].native);
	}
	free(holder->steps);
	*holder = (struct gm_holder){0};
}

void gm_holders_answer_deinit(struct gm_holders_answer *answer)
{
	for (size_t i = 0; i < answer->holder_count; i++)
		gm_holder_deinit(&answer->holders[i]);
	for (size_t i = 0; i < answer->note_count; i++)
		free(answer->notes[i].type);
	free(answer->holders);
	free(answer->notes);
	free(answer->storages);
	free(answer->file);
	free(answer->part);
	*answer = (struct gm_holders_answer){0};
}
