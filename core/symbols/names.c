#include "symbols/names.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocation.h"
#include "base/hash.h"

/* The C++ ABI's demangler, from libstdc++ (there is no C header for it). */
char *__cxa_demangle(const char *name, char *buffer, size_t *length, int *status);

enum {
	MANGLED_MAX = 64 << 10
}; /* its recursion goes with the length; a damaged table must not end us */

char *gm_demangle(const char *linkage_name)
{
	if (strncmp(linkage_name, "_Z", 2) == 0 && strlen(linkage_name) <= MANGLED_MAX) {
		int status;
		char *demangled = __cxa_demangle(linkage_name, NULL, NULL, &status);
		if (demangled)
			return demangled;
		if (status == -1) /* no memory */
			gm_allocation_note_failure();
	}
	return strdup(linkage_name);
}

static void free_name(struct gm_name *name)
{
	if (name->demangled != name->text)
		free((char *)name->demangled);
	free((char *)name->text);
	free(name);
}

void gm_names_deinit(struct gm_names *names)
{
	for (size_t i = 0; i < names->capacity; i++) {
		if (names->slots[i])
			free_name(names->slots[i]);
	}
	free(names->slots);
	*names = (struct gm_names){0};
}

static size_t find_slot(struct gm_name **slots, size_t capacity, const char *text)
{
	size_t index = gm_hash_bytes(text, strlen(text), 0) & (capacity - 1);
	while (slots[index] && strcmp(slots[index]->text, text) != 0)
		index = (index + 1) & (capacity - 1);
	return index;
}

static bool grow(struct gm_names *names)
{
	size_t capacity = names->capacity ? names->capacity * 2 : 256;
	struct gm_name **slots = calloc(capacity, sizeof(struct gm_name *));
	if (!slots)
		return false;
	for (size_t i = 0; i < names->capacity; i++) {
		if (names->slots[i])
			slots[find_slot(slots, capacity, names->slots[i]->text)] = names->slots[i];
	}
	free(names->slots);
	names->slots = slots;
	names->capacity = capacity;
	return true;
}

static struct gm_name *intern(struct gm_names *names, const char *text)
{
	if (names->count * 2 >= names->capacity && !grow(names))
		return NULL;
	struct gm_name **slot = &names->slots[find_slot(names->slots, names->capacity, text)];
	if (*slot)
		return *slot;
	struct gm_name *name = calloc(1, sizeof(*name));
	if (!name || !(name->text = strdup(text))) {
		free(name);
		return NULL;
	}
	*slot = name;
	names->count++;
	return name;
}

const char *gm_names_string(struct gm_names *names, const char *text)
{
	struct gm_name *name = intern(names, text);
	return name ? name->text : NULL;
}

bool gm_names_symbol(struct gm_names *names, const char *linkage_name,
        const char **ret_linkage_name, const char **ret_function)
{
	/* A separate debug file writes a symbol's version behind its name
	 * ("qsort@@GLIBC_2.2.5"). */
	char plain[256];
	size_t length = strcspn(linkage_name, "@");
	if (linkage_name[length] && length > 0 && length < sizeof(plain)) {
		memcpy(plain, linkage_name, length);
		plain[length] = '\0';
		linkage_name = plain;
	}
	struct gm_name *name = intern(names, linkage_name);
	if (!name)
		return false;
	if (!name->demangled)
		name->demangled = gm_demangle(linkage_name);
	if (!name->demangled)
		return false;
	*ret_linkage_name = name->text;
	*ret_function = name->demangled;
	return true;
}
