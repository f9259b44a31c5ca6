#include "render/native_owner.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ask/recording/place.h"
#include "render/json.h"

enum { MAX_PARTS = 64 }; /* for an owner that is read from a file */

static void put_static(const struct gm_native_part *part, FILE *out)
{
	const char *library = part->of ? part->of : "?";
	if (part->name)
		fprintf(out, "static '%s' of %s", part->name, library);
	else
		fprintf(out, "static data of %s", library);
}

static void put_bucket(const struct gm_native_part *part, FILE *out)
{
	fprintf(out, "%s", part->name ? part->name : "?");
	if (part->index >= 0)
		fprintf(out, "[%" PRId64 "]", part->index);
	fprintf(out, " of DDP's bucket %" PRIu64, part->number);
}

/* The parts of an owner on a stack. */
static void put_stack(const struct gm_native_part *part, FILE *out)
{
	switch (part->form) {
	case GM_NATIVE_UNKNOWN_STACK:
		fputs("a native stack", out);
		fputs(part->index ? " (the main thread's)" : "", out);
		break;
	case GM_NATIVE_THREAD_LOCAL:
		fprintf(out, "a thread_local variable of thread %" PRIu64, part->number);
		break;
	case GM_NATIVE_ARGUMENT:
		fputs("an argument of a running call", out);
		break;
	case GM_NATIVE_OPERAND:
		fprintf(out, "an operand of %s() at %s:%" PRIu64, part->name ? part->name : "?",
		        gm_place_base_name(part->of ? part->of : "?"), part->number);
		break;
	default:
		fprintf(out, "the native stack of thread %" PRIu64, part->number);
		if (part->name)
			fprintf(out, ", in %s", part->name);
	}
}

static void put_part(const struct gm_native_part *part, FILE *out)
{
	const char *name = part->name ? part->name : "?";
	switch (part->form) {
	case GM_NATIVE_SCRIPT_OBJECT:
		fputs("a TorchScript object (c10::ivalue::Object)", out);
		break;
	case GM_NATIVE_DATA_POINTER:
		fprintf(out,
		        "a c10::DataPtr at 0x%" PRIx64
		        " that is in no tensor: a library's workspace",
		        part->number);
		break;
	case GM_NATIVE_CLASS:
		fprintf(out, strchr("aeiou", name[0]) ? "an %s" : "a %s", name);
		break;
	case GM_NATIVE_FIELD:
		fprintf(out, "a field of a %s object at 0x%" PRIx64, name, part->number);
		break;
	case GM_NATIVE_AUTOCAST:
		fputs("autocast's cache of cast weights", out);
		break;
	case GM_NATIVE_BUCKET:
		put_bucket(part, out);
		break;
	case GM_NATIVE_CUBLAS:
		fputs("cuBLAS workspaces", out);
		break;
	case GM_NATIVE_CUBLASLT:
		fputs("cuBLASLt workspaces", out);
		break;
	case GM_NATIVE_REDUCER:
		fputs("DDP's gradient buckets (c10d::Reducer)", out);
		break;
	case GM_NATIVE_ITEM:
		fprintf(out, "item %" PRId64 " of a vector of %" PRIu64 " tensor", part->index,
		        part->number);
		fputs(part->number == 1 ? "" : "s", out);
		break;
	case GM_NATIVE_SENT:
		fputs("memory that was sent to other processes (CUDA IPC)", out);
		break;
	case GM_NATIVE_HEAP_AT:
		fprintf(out, "native memory at 0x%" PRIx64, part->number);
		break;
	case GM_NATIVE_HEAP:
		fprintf(out, "native memory of %" PRIu64 " bytes", part->number);
		break;
	case GM_NATIVE_SLOT:
		fprintf(out, "slot %" PRId64 " of a TorchScript object", part->index);
		break;
	case GM_NATIVE_STATIC:
		put_static(part, out);
		break;
	case GM_NATIVE_SHELF:
		fprintf(out, "tensors of a collective (%s)", name);
		break;
	case GM_NATIVE_INTERPRETER:
		fputs("the Python interpreter's own data", out);
		break;
	case GM_NATIVE_UNKNOWN_STACK:
	case GM_NATIVE_THREAD_LOCAL:
	case GM_NATIVE_ARGUMENT:
	case GM_NATIVE_OPERAND:
	case GM_NATIVE_STACK:
	case GM_NATIVE_FORM_COUNT:
		put_stack(part, out);
	}
}

void gm_put_native_owner(const struct gm_native_owner *owner, FILE *out)
{
	for (size_t i = 0; i < owner->count; i++) {
		fputs(i ? ", held by " : "", out);
		put_part(&owner->parts[i], out);
	}
}

char *gm_native_owner_text(const struct gm_native_owner *owner)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	gm_put_native_owner(owner, out);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* Operands of 0 are omitted; numbers may be addresses, but a JSON integer has 64 bits here. */
json_t *gm_native_owner_json(const struct gm_native_owner *owner)
{
	json_t *parts = json_array();
	for (size_t i = 0; i < owner->count; i++) {
		const struct gm_native_part *part = &owner->parts[i];
		json_t *one = json_pack("{s:s}", "form", gm_native_form_name(part->form));
		if (part->name)
			json_object_set_new(one, "name", gm_json_string(part->name));
		if (part->of)
			json_object_set_new(one, "of", gm_json_string(part->of));
		if (part->index)
			json_object_set_new(one, "index", json_integer(part->index));
		if (part->number)
			json_object_set_new(one, "number", json_integer((json_int_t)part->number));
		json_array_append_new(parts, one);
	}
	return parts;
}

struct gm_native_owner *gm_native_owner_read(const json_t *array)
{
	struct gm_native_owner *owner = NULL;
	for (size_t i = 0; i < json_array_size(array); i++) {
		const json_t *from = json_array_get(array, i);
		const char *form = json_string_value(json_object_get(from, "form"));
		struct gm_native_part part = {
		        .name = json_string_value(json_object_get(from, "name")),
		        .of = json_string_value(json_object_get(from, "of")),
		        .index = json_integer_value(json_object_get(from, "index")),
		        .number = (uint64_t)json_integer_value(json_object_get(from, "number"))};
		bool whole = form && gm_native_form_find(form, &part.form) && i < MAX_PARTS;
		if (whole && owner)
			whole = gm_native_owner_add(owner, part);
		else if (whole)
			whole = (owner = gm_native_owner_create(part)) != NULL;
		if (!whole) {
			gm_native_owner_release(owner);
			return NULL;
		}
	}
	return owner;
}
