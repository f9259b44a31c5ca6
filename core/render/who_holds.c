#include "render/who_holds.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "render/chain.h"
#include "render/holder_lines.h"
#include "render/holders_note.h"
#include "render/json.h"
#include "render/pause.h"
#include "render/say.h"

/* --- text ------------------------------------------------------------------------------------- */

/* 1000341504 as "1,000,341,504". */
static const char *grouped(uint64_t number, char buffer[32])
{
	char digits[24];
	size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, number), at = 0;
	for (size_t i = 0; i < length; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			buffer[at++] = ',';
		buffer[at++] = digits[i];
	}
	buffer[at] = 0;
	return buffer;
}

/* "float32 [1000, 1000], requires_grad, Parameter"; NULL: there is no tensor. Caller frees. */
static char *tensor_text(const struct gm_block_note *tensor)
{
	char shape[GM_TENSOR_MAX_DIMENSIONS * 24] = "";
	size_t used = 0;
	if (!tensor->dtype)
		return NULL;
	for (uint32_t i = 0; i < tensor->dimensions && i < GM_TENSOR_MAX_DIMENSIONS; i++)
		used += (size_t)snprintf(shape + used, sizeof(shape) - used, "%s%jd", i ? ", " : "",
		        (intmax_t)tensor->shape[i]);
	return gm_say("%s [%s%s]%s%s%s", tensor->dtype, shape,
	        tensor->dimensions > GM_TENSOR_MAX_DIMENSIONS ? ", ..." : "",
	        tensor->requires_grad ? ", requires_grad" : "",
	        tensor->parameter ? ", Parameter" : "", tensor->gradient ? ", a gradient" : "");
}

static void render_block(const struct gm_holders_answer *answer, FILE *out)
{
	char size[32];
	gm_put(out, "block 0x%" PRIx64 ", %s bytes", answer->address, grouped(answer->size, size));
	if (answer->device_type == GM_DEVICE_CUDA)
		gm_put(out, ", device %d", answer->device);
	else if (answer->device_type == GM_DEVICE_CPU)
		fputs(", host memory", out);
	_cleanup_free_ char *tensor = tensor_text(&answer->tensor);
	if (tensor)
		gm_put(out, ": %s", tensor);
	fputc('\n', out);
}

static void render_storages(const struct gm_who_holds *result, FILE *out)
{
	const struct gm_holders_answer *answer = &result->answer;
	if (answer->storage_count == 0)
		fputs("no tensor uses it\n", out);
	for (size_t i = 0; i < answer->storage_count; i++) {
		const struct gm_held_storage *storage = &answer->storages[i];
		gm_put(out,
		        result->complete ? "storage 0x%" PRIx64
		                           ": complete: every reference was found (%u of %u)\n"
		                         : "storage 0x%" PRIx64 ": %u of %u references found\n",
		        storage->address, storage->found, storage->refcount);
	}
}

static void free_texts(char **texts, size_t count)
{
	for (size_t i = 0; texts && i < count; i++)
		free(texts[i]);
	free(texts);
}

/* For each holder. NULL: out of memory. */
static char **make_texts(const struct gm_holders_answer *answer)
{
	char **texts = calloc(answer->holder_count + 1, sizeof(*texts));
	for (size_t i = 0; texts && i < answer->holder_count; i++) {
		if (!(texts[i] = gm_chain_text(&answer->holders[i]))) {
			free_texts(texts, i);
			return NULL;
		}
	}
	return texts;
}

/* The number of holders with the same text; 0: an earlier one counts. */
static size_t alike(const struct gm_holders_answer *answer, char *const *texts, size_t index)
{
	size_t times = 0;
	for (size_t i = 0; i < answer->holder_count; i++) {
		if (answer->holders[i].class != answer->holders[index].class ||
		        strcmp(texts[i], texts[index]) != 0)
			continue;
		if (i < index)
			return 0;
		times++;
	}
	return times;
}

/* Paths from this holder's root that no line shows. */
static size_t other_ways(const struct gm_holders_answer *answer, const struct gm_holder *holder)
{
	size_t shown = 0;
	if (holder->root == 0 || holder->further)
		return 0;
	for (size_t i = 0; i < answer->holder_count; i++)
		if (answer->holders[i].root == holder->root)
			shown += answer->holders[i].references;
	return holder->ways > shown ? holder->ways - shown : 0;
}

static void render_ways(
        const struct gm_holders_answer *answer, const struct gm_holder *holder, FILE *out)
{
	char number[32];
	size_t others = other_ways(answer, holder);
	if (others > 0)
		gm_put(out, " (and %s%s other path%s)", holder->ways >= GM_WAYS_MOST ? "over " : "",
		        grouped(others, number), others == 1 ? "" : "s");
}

static void render_omitted(const struct gm_holders_answer *answer, FILE *out)
{
	const size_t roots = answer->omitted_roots;
	if (answer->omitted > 0)
		gm_put(out, "  and %zu more", answer->omitted);
	if (roots > 0)
		gm_put(out, "%s %zu other variable%s", answer->omitted > 0 ? ", of" : "  and",
		        roots, roots == 1 ? "" : "s");
	if (answer->omitted > 0 || roots > 0)
		fputc('\n', out);
}

static void render_further(
        const struct gm_holder *holder, const struct gm_holder_line *line, FILE *out)
{
	_cleanup_free_ char *object = line->further ? gm_holder_object_text(holder) : NULL;
	if (object)
		gm_put(out, "    and %zu paths from frames of PyTorch or Python to %s (--all)\n",
		        line->further, object);
}

struct gm_error *gm_render_who_holds(const struct gm_who_holds *result, bool all, FILE *out)
{
	const struct gm_holders_answer *answer = &result->answer;
	_cleanup_free_ struct gm_holder_line *lines = gm_holder_lines(answer, all);
	char **texts = lines ? make_texts(answer) : NULL;
	if (!texts)
		return &gm_error_no_memory;
	render_block(answer, out);
	render_storages(result, out);
	if (answer->holder_count > 0)
		fputs("held by\n", out);
	for (size_t i = 0; i < answer->holder_count; i++) {
		const struct gm_holder *holder = &answer->holders[i];
		size_t times = lines[i].hidden ? 0 : alike(answer, texts, i);
		if (times == 0) {
			render_further(holder, &lines[i], out);
			continue;
		}
		gm_put(out, "  %s", texts[i]);
		if (holder->class != GM_PROVEN)
			gm_put(out, " (%s)", gm_chain_class_name(holder->class));
		if (times > 1)
			gm_put(out, " (%zu times)", times);
		if (times == 1)
			render_ways(answer, holder, out);
		fputc('\n', out);
		render_further(holder, &lines[i], out);
	}
	render_omitted(answer, out);
	for (size_t i = 0; i < answer->note_count; i++) {
		_cleanup_free_ char *note = gm_holders_note_text(&answer->notes[i]);
		gm_put(out, "note: %s\n", note ? note : "");
	}
	gm_put_pause(&result->pause, out);
	free_texts(texts, answer->holder_count);
	return NULL;
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* Strings of the target may contain bytes that are not UTF-8: these become '?'. */
static json_t *text(const char *string)
{
	if (!string)
		return json_null();
	json_t *made = json_string(string);
	if (made)
		return made;
	_cleanup_free_ char *copy = strdup(string);
	if (!copy)
		return NULL;
	for (char *cursor = copy; *cursor; cursor++)
		if ((unsigned char)*cursor >= 0x80)
			*cursor = '?';
	return json_string(copy);
}

static json_t *step_json(const struct gm_holder_step *step)
{
	json_t *object = json_object();
	int failed = json_object_set_new(object, "kind", json_string(step->kind));
	if (step->name)
		failed |= json_object_set_new(object, "name", text(step->name));
	if (step->index >= 0)
		failed |= json_object_set_new(object, "index", json_integer(step->index));
	if (step->function)
		failed |= json_object_set_new(object,
		        step->form == GM_STEP_GLOBAL ? "module" : "function", text(step->function));
	if (step->file)
		failed |= json_object_set_new(object, "file", text(step->file));
	if (step->line)
		failed |= json_object_set_new(object, "line", json_integer(step->line));
	if (step->type)
		failed |= json_object_set_new(object, "type", text(step->type));
	if (step->address)
		failed |= json_object_set_new(object, "address", gm_json_address(step->address));
	if (!failed)
		return object;
	json_decref(object);
	return NULL;
}

static json_t *holder_json(const struct gm_holder *holder)
{
	json_t *path = json_array();
	for (size_t i = 0; i < holder->step_count; i++)
		if (!holder->steps[i].unlisted)
			json_array_append_new(path, step_json(&holder->steps[i]));
	_cleanup_free_ char *words = gm_chain_text(holder);
	if (!words) {
		json_decref(path);
		return NULL;
	}
	static const char *const ends[] = {[GM_CHAIN_ROOTED] = "root",
	        [GM_CHAIN_GARBAGE] = "garbage",
	        [GM_CHAIN_CYCLE] = "cycle",
	        [GM_CHAIN_UNKNOWN] = "unknown"};
	return json_pack("{s:o, s:s, s:s, s:I, s:o?, s:I, s:o}", "text", text(words), "class",
	        gm_chain_class_name(holder->class), "end", ends[holder->end], "references",
	        (json_int_t)holder->references, "root",
	        holder->root ? json_integer(holder->root) : json_null(), "ways",
	        (json_int_t)holder->ways, "path", path);
}

static const char *device_type(const struct gm_holders_answer *answer)
{
	if (answer->device_type == GM_DEVICE_CUDA)
		return "cuda";
	return answer->device_type == GM_DEVICE_CPU ? "cpu" : "other";
}

struct gm_error *gm_render_who_holds_json(const struct gm_who_holds *result, FILE *out)
{
	const struct gm_holders_answer *answer = &result->answer;
	json_t *storages = json_array(), *holders = json_array(), *notes = json_array();
	for (size_t i = 0; i < answer->storage_count; i++) {
		const struct gm_held_storage *storage = &answer->storages[i];
		json_array_append_new(storages,
		        json_pack("{s:o, s:I, s:I, s:I}", "address",
		                gm_json_address(storage->address), "refcount",
		                (json_int_t)storage->refcount, "found", (json_int_t)storage->found,
		                "size", (json_int_t)storage->size));
	}
	for (size_t i = 0; i < answer->holder_count; i++)
		json_array_append_new(holders, holder_json(&answer->holders[i]));
	for (size_t i = 0; i < answer->note_count; i++)
		json_array_append_new(notes, gm_json_take(gm_holders_note_text(&answer->notes[i])));
	const struct gm_holders_cost *cost = &result->cost;
	_cleanup_free_ char *tensor = tensor_text(&answer->tensor);
	json_t *scan = json_pack("{s:I, s:I, s:f, s:I, s:f}", "bytes",
	        (json_int_t)cost->bytes_scanned, "unread", (json_int_t)cost->bytes_unread,
	        "seconds", cost->scan_seconds, "python_objects", (json_int_t)cost->python_objects,
	        "python_seconds", cost->python_seconds);
	json_t *block = json_pack("{s:o, s:I, s:i, s:s, s:o}", "address",
	        gm_json_address(answer->address), "size", (json_int_t)answer->size, "device",
	        answer->device, "device_type", device_type(answer), "tensor", text(tensor));
	json_t *root = json_pack("{s:o, s:o, s:b, s:o, s:I, s:I, s:I, s:o, s:o, s:o}", "block",
	        block, "storages", storages, "complete", (int)result->complete, "holders", holders,
	        "omitted", (json_int_t)answer->omitted, "roots", (json_int_t)answer->roots,
	        "omitted_roots", (json_int_t)answer->omitted_roots, "notes", notes, "scan", scan,
	        "pause", gm_json_pause(&result->pause));
	return gm_json_write_as(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER, out);
}
