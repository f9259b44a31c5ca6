/*
 * Whether a file defines a function, by the name that a user types to a debugger. Such names are
 * shorter than linkage names: without arguments and template arguments, and perhaps without
 * namespaces.
 *
 * A C++ linkage name has each identifier after its length ("10all_reduce"). So only the few names
 * that contain this text are demangled: PyTorch's tables have half a million.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocation.h"
#include "base/cleanup.h"
#include "symbols/elf_file.h"
#include "symbols/names.h"
#include "symbols/symbols.h"

enum { NAME_MAX_LENGTH = 1000 };

/* A name without template arguments, up to the arguments. `to` is as large as `from`. */
static void plain_name(const char *from, char *to)
{
	int depth = 0;
	for (; *from; from++) {
		if (strncmp(from, "(anonymous namespace)", 21) == 0) {
			memcpy(to, from, 21);
			to += 21;
			from += 20;
			continue;
		}
		if (*from == '(' && depth == 0)
			break;
		if (*from == '<' || *from == '[')
			depth++;
		else if (*from == '>' || *from == ']')
			depth -= depth > 0;
		else if (depth == 0)
			*to++ = *from;
	}
	*to = '\0';
}

/* Compares a demangled function "ns::(anonymous namespace)::Class<int>::name<float>(int)", which
 * begins with its result type if it is a template, with "Class::name". */
static bool is_called(const char *demangled, const char *wanted)
{
	_cleanup_free_ char *plain = malloc(strlen(demangled) + 1);
	if (!plain) {
		gm_allocation_note_failure();
		return false;
	}
	plain_name(demangled, plain);
	size_t length = strlen(plain), end = strlen(wanted);
	if (length < end || strcmp(plain + length - end, wanted) != 0)
		return false;
	const char *before = plain + length - end;
	return before == plain || before[-1] == ' ' ||
	       (before - plain >= 2 && strncmp(before - 2, "::", 2) == 0);
}

static bool table_defines(const struct gm_symbol_table *table, const char *wanted, const char *part)
{
	for (size_t i = 0; i < table->count; i++) {
		Elf64_Sym symbol = gm_symbol_entry(table, i);
		const char *name = gm_symbol_name(table, symbol.st_name);
		if (!gm_symbol_defined(&symbol) || ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT ||
		        strncmp(name, "_Z", 2) != 0 || !strstr(name, part))
			continue;
		_cleanup_free_ char *demangled = gm_demangle(name);
		if (demangled && is_called(demangled, wanted))
			return true;
	}
	return false;
}

bool gm_symbols_file_defines(const char *path, const char *function)
{
	char wanted[NAME_MAX_LENGTH + 1], part[NAME_MAX_LENGTH + 32];
	struct gm_elf *file = NULL;
	Elf64_Sym symbol;
	if (strlen(function) > NAME_MAX_LENGTH)
		return false;
	plain_name(function, wanted);
	size_t length = strlen(wanted);
	while (length > 0 && isspace((unsigned char)wanted[length - 1]))
		wanted[--length] = '\0';
	const char *last = wanted + length;
	while (last > wanted && (isalnum((unsigned char)last[-1]) || last[-1] == '_'))
		last--;
	if (!*last)
		return false;
	_cleanup_error_ struct gm_error *error = gm_elf_open(path, &file);
	if (error)
		return false;
	snprintf(part, sizeof(part), "%zu%s", strlen(last), last);
	bool found = gm_elf_lookup(file, wanted, true, &symbol) ||
	             table_defines(&file->dynamic, wanted, part) ||
	             table_defines(&file->full, wanted, part);
	gm_elf_close(file);
	return found;
}
