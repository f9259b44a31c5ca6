#include "holders/native/owner.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static void part_deinit(struct gm_native_part *part)
{
	free((char *)(uintptr_t)part->name);
	free((char *)(uintptr_t)part->of);
}

/* The part, with copies of its names. */
static bool part_copy(const struct gm_native_part *from, struct gm_native_part *ret_part)
{
	struct gm_native_part made = *from;
	made.name = from->name ? strdup(from->name) : NULL;
	made.of = from->of ? strdup(from->of) : NULL;
	bool whole = (made.name || !from->name) && (made.of || !from->of);
	if (whole)
		*ret_part = made;
	else
		part_deinit(&made);
	return whole;
}

struct gm_native_owner *gm_native_owner_create(struct gm_native_part part)
{
	struct gm_native_owner *owner = calloc(1, sizeof(*owner));
	if (!owner)
		return NULL;
	owner->users = 1;
	if (gm_native_owner_add(owner, part))
		return owner;
	gm_native_owner_release(owner);
	return NULL;
}

bool gm_native_owner_add(struct gm_native_owner *owner, struct gm_native_part part)
{
	struct gm_native_part *grown =
	        realloc(owner->parts, (owner->count + 1) * sizeof(*owner->parts));
	if (!grown)
		return false;
	owner->parts = grown;
	if (!part_copy(&part, &owner->parts[owner->count]))
		return false;
	owner->count++;
	return true;
}

struct gm_native_owner *gm_native_owner_share(struct gm_native_owner *owner)
{
	if (owner)
		owner->users++;
	return owner;
}

void gm_native_owner_release(struct gm_native_owner *owner)
{
	if (!owner || --owner->users > 0)
		return;
	for (size_t i = 0; i < owner->count; i++)
		part_deinit(&owner->parts[i]);
	free(owner->parts);
	free(owner);
}

/* Item 2 is before item 10. */
static int compare_texts(const char *left, const char *right)
{
	return strverscmp(left ? left : "", right ? right : "");
}

static int compare_parts(const struct gm_native_part *left, const struct gm_native_part *right)
{
	int order = ((int)left->form > (int)right->form) - ((int)left->form < (int)right->form);
	order = order ? order : compare_texts(left->name, right->name);
	order = order ? order : (left->index > right->index) - (left->index < right->index);
	order = order ? order : (left->number > right->number) - (left->number < right->number);
	return order ? order : compare_texts(left->of, right->of);
}

int gm_native_owner_compare(const struct gm_native_owner *left, const struct gm_native_owner *right)
{
	if (!left || !right)
		return (left != NULL) - (right != NULL);
	for (size_t i = 0; i < left->count && i < right->count; i++) {
		int order = compare_parts(&left->parts[i], &right->parts[i]);
		if (order)
			return order;
	}
	return (left->count > right->count) - (left->count < right->count);
}

static uint64_t hash_text(const char *text, uint64_t seed)
{
	return text ? gm_hash_bytes(text, strlen(text), seed) : seed;
}

uint64_t gm_native_owner_hash(const struct gm_native_owner *owner)
{
	uint64_t hash = 0;
	for (size_t i = 0; i < owner->count; i++) {
		const struct gm_native_part *part = &owner->parts[i];
		const uint64_t numbers[] = {part->form, (uint64_t)part->index, part->number};
		hash = gm_hash_bytes(numbers, sizeof(numbers), hash);
		hash = hash_text(part->of, hash_text(part->name, hash));
	}
	return hash;
}

static const char *const form_names[GM_NATIVE_FORM_COUNT] = {
        [GM_NATIVE_SCRIPT_OBJECT] = "script_object",
        [GM_NATIVE_DATA_POINTER] = "data_pointer",
        [GM_NATIVE_CLASS] = "class",
        [GM_NATIVE_FIELD] = "field",
        [GM_NATIVE_UNKNOWN_STACK] = "unknown_stack",
        [GM_NATIVE_THREAD_LOCAL] = "thread_local",
        [GM_NATIVE_ARGUMENT] = "argument",
        [GM_NATIVE_OPERAND] = "operand",
        [GM_NATIVE_AUTOCAST] = "autocast",
        [GM_NATIVE_BUCKET] = "bucket",
        [GM_NATIVE_CUBLAS] = "cublas",
        [GM_NATIVE_CUBLASLT] = "cublaslt",
        [GM_NATIVE_REDUCER] = "reducer",
        [GM_NATIVE_ITEM] = "item",
        [GM_NATIVE_SENT] = "sent",
        [GM_NATIVE_HEAP_AT] = "heap_at",
        [GM_NATIVE_HEAP] = "heap",
        [GM_NATIVE_SLOT] = "slot",
        [GM_NATIVE_STATIC] = "static",
        [GM_NATIVE_SHELF] = "shelf",
        [GM_NATIVE_INTERPRETER] = "interpreter",
        [GM_NATIVE_STACK] = "stack",
};

const char *gm_native_form_name(enum gm_native_form form)
{
	return form_names[form];
}

bool gm_native_form_find(const char *name, enum gm_native_form *ret_form)
{
	for (size_t i = 0; i < GM_NATIVE_FORM_COUNT; i++)
		if (strcmp(form_names[i], name) == 0) {
			*ret_form = (enum gm_native_form)i;
			return true;
		}
	return false;
}
