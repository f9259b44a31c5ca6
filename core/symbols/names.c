#include "symbols/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocation.h"

/* The C++ ABI's demangler, from libstdc++ (there is no C header for it). */
char *__cxa_demangle(const char *name, char *buffer, size_t *length, int *status);

enum {
	MANGLED_MAX = 64 << 10
}; /* the depth of its recursion grows with the length; a damaged table must not end this process */

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

void gm_names_deinit(struct gm_names *names)
{
	for (size_t i = 0; i < names->demangled.count; i++)
		free(names->demangled.items[i]);
	gm_array_deinit(&names->demangled);
	gm_strings_deinit(&names->strings);
	*names = (struct gm_names){0};
}

const char *gm_names_string(struct gm_names *names, const char *text)
{
	uint32_t number = gm_strings_add(&names->strings, text);
	return number ? gm_strings_at(&names->strings, number) : NULL;
}

bool gm_names_symbol(struct gm_names *names, const char *linkage_name,
        const char **ret_linkage_name, const char **ret_function)
{
	/* A separate debug file has a symbol's version after its name ("qsort@@GLIBC_2.2.5"). */
	char plain[256];
	size_t length = strcspn(linkage_name, "@");
	if (linkage_name[length] && length > 0 && length < sizeof(plain)) {
		memcpy(plain, linkage_name, length);
		plain[length] = '\0';
		linkage_name = plain;
	}
	uint32_t number = gm_strings_add(&names->strings, linkage_name);
	if (!number)
		return false;
	while (names->demangled.count <= number)
		if (!gm_array_push(&names->demangled, NULL))
			return false;
	char **demangled = &names->demangled.items[number];
	if (!*demangled)
		*demangled = gm_demangle(linkage_name);
	if (!*demangled)
		return false;
	*ret_linkage_name = gm_strings_at(&names->strings, number);
	*ret_function = *demangled;
	return true;
}
