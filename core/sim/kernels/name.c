/* Parses kernel names. They are searched as text, for words of PyTorch's source. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "sim/kernels/kernels.h"

enum { LONGEST = 64 << 10 }; /* no kernel of PyTorch has a name of nearly this length */

/* From the C++ runtime: a program with such kernels has it loaded; we do not link it. */
static char *demangle(const char *mangled)
{
	typedef char *function(const char *, char *, size_t *, int *);
	static function *_Atomic known;
	function *call = known;
	if (!call) {
		void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
		if (!library)
			library = dlopen("libc++abi.so.1", RTLD_LAZY | RTLD_NOLOAD);
		*(void **)&call = dlsym(library ? library : RTLD_DEFAULT, "__cxa_demangle");
		known = call;
	}
	int status = 0;
	return call && strlen(mangled) < LONGEST ? call(mangled, NULL, NULL, &status) : NULL;
}

static void remove_all(char *text, const char *word)
{
	size_t length = strlen(word);
	char *to = text;
	for (const char *from = text; *from;) {
		if (strncmp(from, word, length) == 0)
			from += length;
		else
			*to++ = *from++;
	}
	*to = 0;
}

char *gm_sim_name_readable(const char *mangled)
{
	char *name = demangle(mangled);
	if (!name)
		return NULL;
	remove_all(name, "(anonymous namespace)::");
	remove_all(name, "at::native::");
	if (strncmp(name, "void ", 5) == 0)
		memmove(name, name + 5, strlen(name + 5) + 1);
	return name;
}

bool gm_sim_name_is_product(const char *name)
{
	return strcmp(name, "reduction_prod_kernel") == 0;
}

bool gm_sim_text_is(struct gm_sim_text text, const char *word)
{
	return text.size == strlen(word) && memcmp(text.at, word, text.size) == 0;
}

bool gm_sim_text_begins(struct gm_sim_text text, const char *word)
{
	size_t length = strlen(word);
	return text.size >= length && memcmp(text.at, word, length) == 0;
}

bool gm_sim_text_has(struct gm_sim_text text, const char *word)
{
	return memmem(text.at, text.size, word, strlen(word)) != NULL;
}

/* Splits at the commas of one level, up to the closing bracket; returns its position. */
static size_t split(struct gm_sim_text text, size_t at, struct gm_sim_text *parts, unsigned most,
        unsigned *ret_count)
{
	unsigned count = 0, depth = 0;
	size_t start = at;
	for (;; at++) {
		char c = at < text.size ? text.at[at] : 0;
		if (c == '-' && at + 1 < text.size && text.at[at + 1] == '>') {
			at++; /* an arrow is not a closing bracket */
			continue;
		}
		bool closes = c == '>' || c == ')' || c == ']' || c == '}';
		if (!c || (depth == 0 && (closes || c == ','))) {
			while (start < at && text.at[start] == ' ')
				start++;
			size_t end = at;
			while (end > start && text.at[end - 1] == ' ')
				end--;
			if (end > start) {
				if (count < most)
					parts[count] =
					        (struct gm_sim_text){text.at + start, end - start};
				count++;
			}
			start = at + 1;
			if (c != ',')
				break;
		} else if (closes) {
			depth--;
		} else if (c == '<' || c == '(' || c == '[' || c == '{') {
			depth++;
		}
	}
	*ret_count = count;
	return at;
}

/* The beginning of the template's arguments: the first '<'. */
static size_t bracket(struct gm_sim_text name)
{
	size_t at = 0;
	while (at < name.size && name.at[at] != '<' && name.at[at] != '(')
		at++;
	return at;
}

unsigned gm_sim_name_template(struct gm_sim_text name, struct gm_sim_text *ret_base,
        struct gm_sim_text *ret_arguments, unsigned most)
{
	size_t at = bracket(name), start = at;
	while (start > 0 && name.at[start - 1] != ':')
		start--;
	*ret_base = (struct gm_sim_text){name.at + start, at - start};
	unsigned count = 0;
	if (at < name.size && name.at[at] == '<')
		split(name, at + 1, ret_arguments, most, &count);
	return count;
}

unsigned gm_sim_name_parameters(
        struct gm_sim_text name, struct gm_sim_text *ret_types, unsigned most)
{
	size_t at = bracket(name);
	unsigned count = 0;
	if (at < name.size && name.at[at] == '<')
		at = split(name, at + 1, NULL, 0, &count) + 1;
	count = 0;
	if (at < name.size && name.at[at] == '(')
		split(name, at + 1, ret_types, most, &count);
	return count;
}

unsigned gm_sim_name_lambda(
        struct gm_sim_text name, struct gm_sim_text *ret_types, unsigned most, unsigned *ret_number)
{
	static const char word[] = "{lambda(";
	size_t last = name.size;
	for (size_t at = 0; at + sizeof(word) - 1 <= name.size; at++)
		if (memcmp(name.at + at, word, sizeof(word) - 1) == 0)
			last = at;
	*ret_number = 0;
	if (last == name.size)
		return 0;
	unsigned count = 0;
	size_t at = split(name, last + sizeof(word) - 1, ret_types, most, &count);
	if (at + 2 < name.size && name.at[at + 1] == '#')
		*ret_number = (unsigned)strtoul(name.at + at + 2, NULL, 10);
	return count;
}
