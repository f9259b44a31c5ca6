/* advise's text and JSON: measures by what they save, and what makes the peak then. */
#include "render/advise.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "render/json.h"
#include "render/say.h"

/* ---- sentences ---- */

static char *variable_text(const struct gm_candidate *of)
{
	return gm_say("release `%s` before the next iteration (`del %s` at its end): %s:%u",
	        of->name, of->name, gm_text_path(of->place.file), of->place.line);
}

static char *held_text(const struct gm_candidate *of)
{
	struct gm_said_sizes sizes = {0};
	return gm_say("release what %s:%u allocates when its step ends, if nothing uses it later "
	              "(%s times steps are held)",
	        gm_text_path(of->place.file), of->place.line, gm_say_size(&sizes, of->byte_steps));
}

/* "checkpoint each call of Block (examples/gpt.py:12)"; the name is that of forward() */
static char *checkpoint_text(const struct gm_candidate *of)
{
	const char *dot = strrchr(of->name, '.');
	int length = dot ? (int)(dot - of->name) : 0;
	if (length == 0)
		return gm_say("checkpoint each call of forward() at %s:%u",
		        gm_text_path(of->place.file), of->place.line);
	return gm_say("checkpoint each call of %.*s (%s:%u)", length, of->name,
	        gm_text_path(of->place.file), of->place.line);
}

/* What to do, in words; NULL: no memory. The caller frees it. */
static char *measure_text(const struct gm_candidate *of)
{
	static const char *const whole[GM_MEASURE_COUNT] = {
	        [GM_MEASURE_RELEASE] = "release variables before the next iteration",
	        [GM_MEASURE_RELEASE_ALL] =
	                "release all variables of the iteration at its end (make it a function)",
	        [GM_MEASURE_HELD] = "release what is held for longer than its step",
	        [GM_MEASURE_HELD_ALL] = "release all that is held for longer than its step, if "
	                                "nothing uses it later",
	        [GM_MEASURE_ZERO_GRAD] = "zero_grad() right behind optimizer.step()",
	        [GM_MEASURE_SET_TO_NONE] =
	                "zero_grad(set_to_none=True) right behind optimizer.step()",
	        [GM_MEASURE_FOR_LOOP] = "an optimizer that updates one parameter after another "
	                                "(foreach=False)",
	        [GM_MEASURE_FUSED] = "the fused optimizer (fused=True)",
	        [GM_MEASURE_STATES_8BIT] = "optimizer state in 8 bits (bitsandbytes)",
	        [GM_MEASURE_AUTOCAST] = "autocast: multiplications in half precision",
	        [GM_MEASURE_CHECKPOINT] = "checkpoint modules",
	        [GM_MEASURE_ATTENTION] =
	                "attention that keeps no scores (scaled_dot_product_attention)",
	        [GM_MEASURE_OFFLOAD_OPTIMIZER] = "optimizer state and update in the host's memory",
	        [GM_MEASURE_OFFLOAD_ACTIVATIONS] = "what is saved for backward in the host's "
	                                           "memory (save_on_cpu)",
	        [GM_MEASURE_OFFLOAD_PARAMETERS] = "parameters, gradients and optimizer state in "
	                                          "the host's memory (CPUOffloadPolicy)",
	};
	static const char *const sharded[] = {"optimizer state is shared",
	        "optimizer state and gradients are shared",
	        "optimizer state, gradients and parameters are shared (FSDP)"};
	if (of->measure == GM_MEASURE_RELEASE && of->name)
		return variable_text(of);
	if (of->measure == GM_MEASURE_HELD && of->place.code)
		return held_text(of);
	if (of->measure == GM_MEASURE_CHECKPOINT && of->place.code)
		return checkpoint_text(of);
	if (of->measure == GM_MEASURE_CHUNKED_LOSS)
		return gm_say(
		        "output layer and loss of %u chunks of the tokens, one after another, "
		        "each in a checkpoint",
		        of->number);
	if (of->measure >= GM_MEASURE_ZERO1 && of->measure <= GM_MEASURE_ZERO3)
		return gm_say("ZeRO-%d over %u ranks: %s", of->measure - GM_MEASURE_ZERO1 + 1,
		        of->number, sharded[of->measure - GM_MEASURE_ZERO1]);
	if (of->measure == GM_MEASURE_TENSOR_PARALLEL)
		return gm_say("tensor parallelism over %u ranks: matrices are split", of->number);
	if (of->measure == GM_MEASURE_PIPELINE_PARALLEL)
		return gm_say("pipeline parallelism with %u stages and as many micro-batches",
		        of->number);
	if (of->measure == GM_MEASURE_SMALLER_BATCH)
		return gm_say("a batch of 1/%u of the size", of->number);
	if (of->measure == GM_MEASURE_ACCUMULATE)
		return gm_say("accumulate gradients over %u parts of the batch", of->number);
	return gm_say("%s", whole[of->measure] ? whole[of->measure] : gm_measure_name(of->measure));
}

/* The category with the most bytes beside `except`. */
static int most_of(const struct gm_advice_peak *peak, int except)
{
	int most = -1;
	for (int i = 0; i < GM_CATEGORY_COUNT; i++)
		if (i != except && (most < 0 || peak->by_category[i] > peak->by_category[most]))
			most = i;
	return most;
}

static void put_category(
        const struct gm_advice_peak *peak, int category, const char *comma, FILE *out)
{
	char size[GM_SIZE_TEXT];
	if (peak->by_category[category])
		gm_put(out, "%s%s %s", comma, gm_category_name((enum gm_category)category),
		        gm_text_size(peak->by_category[category], size));
}

/* "#2814 in step 2 (backward): activation 399.00 MiB, temporary 392.00 MiB" */
static void put_peak(const struct gm_advice_peak *peak, FILE *out)
{
	if (peak->event == GM_NO_EVENT) {
		gm_put(out, "nothing is allocated");
		return;
	}
	gm_put(out, "#%u", peak->event);
	if (peak->step)
		gm_put(out, " in step %u", peak->step);
	gm_put(out, " (%s): ", gm_phase_name(peak->phase));
	int most = most_of(peak, -1), next = most_of(peak, most);
	put_category(peak, most, "", out);
	put_category(peak, next, ", ", out);
}

static const char *const costs[GM_COST_COUNT] = {
        [GM_COST_NOTHING] = NULL,
        [GM_COST_TIME] = "takes more time",
        [GM_COST_NUMBERS] = "changes the results",
        [GM_COST_TRANSFERS] = "takes transfers to the host's memory and back",
        [GM_COST_DEVICES] = "takes several devices",
};

/* "954.00 MiB to 1.12 GiB; takes more time; the peak is then at #8 in step 1 (forward): …" */
static void put_details(const struct gm_advice *advice, FILE *out)
{
	char least[GM_SIZE_TEXT], most[GM_SIZE_TEXT];
	if (advice->least != advice->most)
		gm_put(out, "an estimate: %s to %s; ", gm_text_size(advice->least, least),
		        gm_text_size(advice->most, most));
	if (costs[advice->cost])
		gm_put(out, "%s; ", costs[advice->cost]);
	if (advice->of.recomputed > 0)
		gm_put(out, "%.0f %% of the forward pass runs once more; ",
		        advice->of.recomputed * 100);
	fputs("the peak is then at ", out);
	put_peak(&advice->peak, out);
}

static struct gm_error *put_table(
        const struct gm_advice *items, size_t count, const struct gm_style *style, FILE *out)
{
	static const char *const heads[] = {"saves", "new peak", "measure", NULL};
	struct gm_table *table = gm_table_create(heads, "rrl");
	for (size_t i = 0; i < count; i++) {
		char size[GM_SIZE_TEXT];
		const struct gm_advice *advice = &items[i];
		_cleanup_free_ char *text = measure_text(&advice->of), *details = NULL;
		size_t length;
		FILE *stream = open_memstream(&details, &length);
		if (stream) {
			put_details(advice, stream);
			fclose(stream);
		}
		gm_table_cell(table, "%s", gm_text_size(advice->saved, size));
		gm_table_cell(table, "%s", gm_text_size(advice->peak.bytes, size));
		gm_table_cell(table, "%s", text ? text : "");
		gm_table_cell(table, "%s", "");
		gm_table_cell(table, "%s", "");
		gm_table_cell(table, "  %s", details ? details : "");
	}
	return gm_table_finish(table, style, out) ? NULL : &gm_error_no_memory;
}

/* ---- what is not advised ---- */

static const struct {
	enum gm_advise_need need;
	const char *name, *text;
} needs[] = {
        {GM_NEED_STEPS, "steps",
                "steps: no training loop was found; --loop names one, gpumem.step() marks them"},
        {GM_NEED_STACKS, "stacks", "Python stacks: `gpumem run` records them"},
        {GM_NEED_SHAPES, "shapes", "shapes of tensors: `gpumem run` records them"},
        {GM_NEED_NATIVE, "native_stacks", "native stacks: `gpumem run` records them"},
};
enum { NEEDS = sizeof(needs) / sizeof(*needs) };
/* What is not missing in the recording, but in the program. */
static const char whole_name[] = "whole_parameters";

static void put_why_not(const struct gm_advise *advise, const struct gm_advice *advice, FILE *out)
{
	char size[GM_SIZE_TEXT];
	switch (advice->verdict) {
	case GM_ADVICE_PEAK_ELSEWHERE:
		gm_put(out, "does not lower the peak, which is elsewhere: ");
		put_peak(&advice->peak, out);
		break;
	case GM_ADVICE_NOT_LOWER:
		gm_put(out, "raises the peak by %s: ",
		        gm_text_size(advice->peak.bytes - advise->peak.bytes, size));
		put_peak(&advice->peak, out);
		break;
	case GM_ADVICE_NOTHING_THERE:
		gm_put(out, "there is nothing that it would change");
		break;
	default:
		if (advice->lacks & GM_NEED_WHOLE) {
			gm_put(out, "is not judged, because the program shards already (FSDP, "
			            "DeepSpeed "
			            "or ZeroRedundancyOptimizer)");
			break;
		}
		gm_put(out, "cannot be judged");
		for (int i = 0; i < NEEDS; i++)
			if (advice->lacks & needs[i].need)
				gm_put(out, ", without %s", needs[i].name);
		break;
	}
}

static struct gm_error *put_others(const struct gm_advise *advise, FILE *out)
{
	gm_put(out, "not advised:\n");
	for (size_t i = advise->helps; i < advise->count; i++) {
		_cleanup_free_ char *text = measure_text(&advise->items[i].of);
		if (!text)
			return &gm_error_no_memory;
		gm_put(out, "  %s: ", text);
		put_why_not(advise, &advise->items[i], out);
		fputc('\n', out);
	}
	return NULL;
}

/* What the recording lacks, of all measures. */
static void put_lacks(const struct gm_advise *advise, FILE *out)
{
	unsigned lacks = 0;
	size_t count = 0, sharded = 0;
	for (size_t i = 0; i < advise->count; i++) {
		if (advise->items[i].lacks & GM_NEED_WHOLE) {
			sharded++;
			continue;
		}
		lacks |= advise->items[i].lacks;
		count += advise->items[i].verdict == GM_ADVICE_UNKNOWN;
	}
	if (sharded)
		gm_put(out,
		        "%zu measures that shard or offload parameters are not judged, because the "
		        "program shards already.\n",
		        sharded);
	if (!count)
		return;
	gm_put(out, "%zu measure%s cannot be judged. The recording lacks:\n", count,
	        gm_text_s(count));
	for (int i = 0; i < NEEDS; i++)
		if (lacks & needs[i].need)
			gm_put(out, "  %s\n", needs[i].text);
}

static struct gm_error *put_together(
        const struct gm_advise *advise, const struct gm_style *style, FILE *out)
{
	char size[GM_SIZE_TEXT], grouped[GM_SIZE_GROUPED];
	if (advise->together_count < 2)
		return NULL;
	const struct gm_advice_peak *peak = &advise->together[advise->together_count - 1].peak;
	gm_put(out,
	        "\nTogether, those that keep the results and this device: a new peak of %s "
	        "(%s bytes)\n",
	        gm_text_size(peak->bytes, size), gm_text_grouped(peak->bytes, grouped));
	return put_table(advise->together, advise->together_count, style, out);
}

struct gm_error *gm_render_advise_text(
        const struct gm_advise *advise, bool all, const struct gm_style *style, FILE *out)
{
	char size[GM_SIZE_TEXT], grouped[GM_SIZE_GROUPED], device[GM_SIZE_TEXT];
	if (advise->device == SIZE_MAX || advise->peak.event == GM_NO_EVENT) {
		fputs("The recording contains no allocations.\n", out);
		return NULL;
	}
	const struct gm_model_device *of = gm_model_device(advise->model, advise->device);
	gm_put(out, "%s: the peak is %s (%s bytes) at ",
	        gm_text_device(of->type, of->index, device), gm_text_size(advise->peak.bytes, size),
	        gm_text_grouped(advise->peak.bytes, grouped));
	put_peak(&advise->peak, out);
	fputc('\n', out);
	if (advise->helps)
		gm_try(put_table(advise->items, advise->helps, style, out));
	else
		fputs("No measure lowers the peak.\n", out);
	gm_try(put_together(advise, style, out));
	if (all)
		gm_try(put_others(advise, out));
	put_lacks(advise, out);
	return NULL;
}

/* ---- JSON ---- */

static json_t *peak_json(const struct gm_advise *advise, const struct gm_advice_peak *peak)
{
	json_t *sums = json_object(), *largest = json_null();
	for (int i = 0; i < GM_CATEGORY_COUNT; i++)
		if (peak->by_category[i])
			json_object_set_new(sums, gm_category_name((enum gm_category)i),
			        json_integer((json_int_t)peak->by_category[i]));
	if (peak->largest != GM_NO_BLOCK)
		largest = json_integer(gm_model_block(advise->model, peak->largest)->alloc);
	return json_pack("{s:I, s:o, s:o, s:s, s:o, s:I, s:o}", "bytes", (json_int_t)peak->bytes,
	        "event", gm_json_event_or_null(peak->event), "step",
	        peak->step ? json_integer(peak->step) : json_null(), "phase",
	        gm_phase_name(peak->phase), "by_category", sums, "added", (json_int_t)peak->added,
	        "largest", largest);
}

static json_t *lacks_json(unsigned lacks)
{
	json_t *list = json_array();
	for (int i = 0; i < NEEDS; i++)
		if (lacks & needs[i].need)
			json_array_append_new(list, json_string(needs[i].name));
	if (lacks & GM_NEED_WHOLE)
		json_array_append_new(list, json_string(whole_name));
	return list;
}

static json_t *advice_json(const struct gm_advise *advise, const struct gm_advice *advice)
{
	const struct gm_candidate *of = &advice->of;
	_cleanup_free_ char *text = measure_text(of);
	if (!text)
		return NULL;
	json_t *place = of->place.code
	                        ? gm_json_place(of->place.file, of->place.line, of->place.function)
	                        : json_null();
	return json_pack(
	        "{s:s, s:o, s:s, s:b, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:f, s:I, s:o}",
	        "measure", gm_measure_name(of->measure), "text", gm_json_string(text), "verdict",
	        gm_advice_verdict_name(advice->verdict), "exact", advice->exact, "costs",
	        gm_measure_cost_name(advice->cost), "saved", (json_int_t)advice->saved,
	        "saved_least", (json_int_t)advice->least, "saved_most", (json_int_t)advice->most,
	        "peak", peak_json(advise, &advice->peak), "name", gm_json_string_or_null(of->name),
	        "place", place, "number", of->number ? json_integer(of->number) : json_null(),
	        "recomputed", of->recomputed, "byte_steps", (json_int_t)of->byte_steps, "lacks",
	        lacks_json(advice->lacks));
}

static json_t *list_json(
        const struct gm_advise *advise, const struct gm_advice *items, size_t count)
{
	json_t *list = json_array();
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, advice_json(advise, &items[i]));
	return list;
}

struct gm_error *gm_render_advise_json(const struct gm_advise *advise, FILE *out)
{
	json_t *device = json_null();
	if (advise->device != SIZE_MAX)
		device = json_integer(gm_model_device(advise->model, advise->device)->index);
	return gm_json_write(
	        json_pack("{s:o, s:o, s:o, s:o, s:o}", "device", device, "peak",
	                peak_json(advise, &advise->peak), "advice",
	                list_json(advise, advise->items, advise->helps), "together",
	                list_json(advise, advise->together, advise->together_count), "not_advised",
	                list_json(advise, advise->items + advise->helps,
	                        advise->count - advise->helps)),
	        true, out);
}
