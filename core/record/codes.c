#include "record/codes.h"

#include <stdlib.h>

#include "base/cleanup.h"

struct gm_code_id *gm_record_code(struct gm_recorder *recorder, const struct gm_code *code)
{
	struct gm_code_id *known;
	HASH_FIND(hh, recorder->code_ids, &code->id, sizeof(code->id), known);
	if (known)
		return known;
	_cleanup_free_ struct gm_log_loop *loops = calloc(code->loop_count + 1u, sizeof(*loops));
	if (!loops)
		return NULL;
	for (uint32_t i = 0; i < code->loop_count; i++)
		loops[i] = (struct gm_log_loop){.start = code->loops[i].start,
		        .end = code->loops[i].end,
		        .line = code->loops[i].line,
		        .line_end = code->loops[i].line_end,
		        .has_lines = true};
	struct gm_log_code record = {
	        .file = gm_log_writer_string(recorder->writer, code->file),
	        .name = gm_log_writer_string(recorder->writer, code->name),
	        .first_line = code->first_line,
	        .loop_count = code->loop_count,
	        .loops = loops,
	};
	uint32_t id = gm_log_writer_code(recorder->writer, &record);
	known = malloc(sizeof(*known));
	if (known) {
		*known = (struct gm_code_id){.code = code->id, .id = id, .loops = gm_take(loops)};
		HASH_ADD(hh, recorder->code_ids, code, sizeof(known->code), known);
	}
	return known;
}
