#include "record/readers.h"
#include "record/gap.h"
#include "record/record.h"

#include <stdio.h>
#include <string.h>

enum { TRY_AGAIN_AFTER = 256 };

const char *gm_recorder_refusal(const struct gm_recorder *recorder)
{
	return recorder->refusal;
}

/* --- life ------------------------------------------------------------------------------------- */

static void open_python(struct gm_recorder *recorder)
{
	if (recorder->python || recorder->event_count < recorder->next_python_try)
		return;
	recorder->next_python_try = recorder->event_count + TRY_AGAIN_AFTER;
	_cleanup_error_ struct gm_error *error =
	        gm_python_open(recorder->image, recorder->symbols, &recorder->python);
	if (!error || recorder->reported_python)
		return;
	recorder->reported_python = true;
	gm_record_gap(recorder, "no Python stacks: %s", error->message);
}

static void open_torch(struct gm_recorder *recorder)
{
	if (recorder->torch || recorder->event_count < recorder->next_torch_try ||
	        !gm_symbols_find_module(recorder->symbols, "libc10.so"))
		return;
	recorder->next_torch_try = recorder->event_count + TRY_AGAIN_AFTER;
	_cleanup_error_ struct gm_error *error = gm_torch_open(
	        recorder->image, recorder->symbols, recorder->python, &recorder->torch);
	if (!error || recorder->reported_torch)
		return;
	recorder->reported_torch = true;
	gm_record_gap(
	        recorder, "no requested sizes, streams or deferred frees: %s", error->message);
}

void gm_record_open_readers(struct gm_recorder *recorder)
{
	open_python(recorder);
	open_torch(recorder);
}

static void refuse(struct gm_recorder *recorder, const char *kind)
{
	if (recorder->refusal)
		return;
	char *text = NULL;
	if (asprintf(&text,
	            "the allocator is %s, not PyTorch's caching allocator: its blocks cannot be "
	            "recorded: "
	            "%s",
	            kind,
	            strcmp(kind, "cudaMallocAsync") == 0
	                    ? "remove backend:cudaMallocAsync from PYTORCH_CUDA_ALLOC_CONF"
	                    : "run the program without changing the allocator") < 0)
		return;
	recorder->refusal = text;
	gm_record_gap(recorder, "%s", text);
}

void gm_record_check_allocator(struct gm_recorder *recorder)
{
	if (!recorder->cuda || !recorder->torch)
		return;
	const char *kind = gm_torch_allocator_kind(recorder->torch);
	if (strcmp(kind, "native") != 0 && strcmp(kind, "none") != 0)
		refuse(recorder, kind);
}
