/*
 * Finds the source lines of addresses with libdw.
 *
 * .debug_aranges shows which compilation unit covers an address. If the file has none (clang), or
 * the range is that of a removed function, the ranges of all units are read. The line comes from
 * the table of that unit only: rows of another unit may appear to cover the address, because libdw
 * sorts the rows of a unit by address, and a last row of no length then comes after the end of its
 * sequence and extends to the next row.
 *
 * The linker sets the addresses of code that it removed to 0. In a unit with such code, libdw's
 * sorting mixes its rows with those of other functions at low addresses, as far as the removed
 * functions are long. Addresses there get no line, because it could be a wrong one.
 */
#include "symbols/lines.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/allocation.h"
#include "base/cleanup.h"
#include "base/search.h"

struct search {
	struct gm_line_request *requests;
	size_t count;
	struct gm_names *names;
};

/* --- code that the linker removed ------------------------------------------------------------- */

struct ends {
	GM_ARRAY(Dwarf_Addr) list;
};

static void deinit_ends(struct ends *ends)
{
	gm_array_deinit(&ends->list);
}

static int by_address(const void *a, const void *b)
{
	const Dwarf_Addr *left = a, *right = b;
	return *left < *right ? -1 : *left > *right;
}

/* Where the unit's ranges end, in ascending order, without those of removed functions. */
static bool range_ends(Dwarf_Die *unit, struct ends *ends)
{
	Dwarf_Addr base, start, end;
	for (ptrdiff_t next = 0; (next = dwarf_ranges(unit, next, &base, &start, &end)) > 0;)
		if (start > 0 && !gm_array_push(&ends->list, end))
			return false;
	if (ends->list.count > 0)
		qsort(ends->list.items, ends->list.count, sizeof(Dwarf_Addr), by_address);
	return true;
}

/* The end of the longest removed function of the unit; 0 if there is none. It is the end of a
 * sequence of rows, but not of one of the unit's ranges. */
static Dwarf_Addr removed_end(Dwarf_Die *unit)
{
	Dwarf_Lines *lines;
	size_t count;
	Dwarf_Addr address;
	_cleanup_(deinit_ends) struct ends ends = {0};
	if (dwarf_getsrclines(unit, &lines, &count) != 0 ||
	        dwarf_lineaddr(dwarf_onesrcline(lines, 0), &address) != 0 || address != 0)
		return 0;
	if (!range_ends(unit, &ends))
		return UINT64_MAX;
	for (size_t i = count; i-- > 0;) {
		Dwarf_Line *line = dwarf_onesrcline(lines, i);
		bool end;
		if (dwarf_lineendsequence(line, &end) != 0 || !end ||
		        dwarf_lineaddr(line, &address) != 0)
			continue;
		size_t at =
		        gm_partition_point(ends.list.count, item, ends.list.items[item] < address);
		if (at == ends.list.count || ends.list.items[at] != address)
			return address;
	}
	return 0;
}

/* --- one unit --------------------------------------------------------------------------------- */

/* The file of a row, with the folder in which the compiler ran if the table has a relative path. */
static const char *file_of(Dwarf_Die *unit, Dwarf_Line *line, struct gm_names *names)
{
	const char *file = dwarf_linesrc(line, NULL, NULL);
	if (!file || *file == '/')
		return file ? gm_names_string(names, file) : NULL;
	Dwarf_Attribute attribute;
	const char *folder = dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attribute));
	if (!folder)
		return gm_names_string(names, file);
	_cleanup_free_ char *path = NULL;
	if (asprintf(&path, "%s/%s", folder, file) < 0) {
		path = NULL;
		return NULL;
	}
	return gm_names_string(names, path);
}

/* Answers the requests from `first` on whose addresses are before `end` and in the unit. Returns
 * the number of the next request. */
static size_t search_unit(struct search *search, Dwarf_Die *unit, size_t first, Dwarf_Addr end)
{
	Dwarf_Addr removed = removed_end(unit);
	size_t i = first;
	for (; i < search->count && search->requests[i].address < end; i++) {
		struct gm_line_request *request = &search->requests[i];
		if (request->file || request->address < removed)
			continue;
		Dwarf_Line *line = dwarf_getsrc_die(unit, request->address);
		int number;
		if (!line || dwarf_lineno(line, &number) != 0 || number <= 0)
			continue;
		request->file = file_of(unit, line, search->names);
		request->line = request->file ? (uint32_t)number : 0;
	}
	return i;
}

/* --- which unit ------------------------------------------------------------------------------- */

/* False: a removed function hides the unit of an address. */
static bool search_by_aranges(struct search *search, Dwarf *dwarf, Dwarf_Aranges *aranges)
{
	bool hidden = false;
	for (size_t i = 0; i < search->count;) {
		Dwarf_Addr start = 0;
		Dwarf_Word size;
		Dwarf_Off offset;
		Dwarf_Die unit;
		Dwarf_Arange *range = dwarf_getarange_addr(aranges, search->requests[i].address);
		if (!range || dwarf_getarangeinfo(range, &start, &size, &offset) != 0 ||
		        start == 0 || !dwarf_offdie(dwarf, offset, &unit)) {
			hidden |= range && start == 0;
			i++;
		} else {
			i = search_unit(search, &unit, i, start + size);
		}
	}
	return !hidden;
}

static void search_all_units(struct search *search, Dwarf *dwarf)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;
	while (dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &unit, NULL) == 0) {
		Dwarf_Addr base, start, end;
		ptrdiff_t next = 0;
		while ((next = dwarf_ranges(&unit, next, &base, &start, &end)) > 0) {
			size_t first = gm_partition_point(
			        search->count, item, search->requests[item].address < start);
			if (start > 0 && first < search->count &&
			        search->requests[first].address < end)
				search_unit(search, &unit, first, end);
		}
	}
}

void gm_lines_find(
        struct gm_elf *file, struct gm_line_request *requests, size_t count, struct gm_names *names)
{
	Dwarf *dwarf = gm_elf_dwarf(file);
	if (!dwarf)
		return;
	struct search search = {requests, count, names};
	Dwarf_Aranges *aranges;
	size_t arange_count;
	gm_allocation_watch();
	if (dwarf_getaranges(dwarf, &aranges, &arange_count) != 0 || arange_count == 0 ||
	        !search_by_aranges(&search, dwarf, aranges))
		search_all_units(&search, dwarf);
	gm_allocation_watched();
}

/* --- for a module ----------------------------------------------------------------------------- */

static struct gm_elf *file_with_dwarf(struct gm_symbols *symbols, const struct gm_module *module)
{
	struct gm_elf *file = gm_symbols_file(symbols, module);
	if (file && !file->has_dwarf)
		file = gm_symbols_debug_file(symbols, module);
	return file && file->has_dwarf ? file : NULL;
}

struct gm_error *gm_lines_name(struct gm_symbols *symbols, const struct gm_module *module,
        const struct gm_naming *requests, size_t count, struct gm_symbol *ret_symbols)
{
	struct gm_elf *file = file_with_dwarf(symbols, module);
	if (!file)
		return NULL;
	_cleanup_free_ struct gm_line_request *wanted = calloc(count + 1, sizeof(*wanted));
	if (!wanted)
		return &gm_error_no_memory;
	for (size_t i = 0; i < count; i++)
		wanted[i].address = requests[i].address;
	gm_lines_find(file, wanted, count, &symbols->names);
	for (size_t i = 0; i < count; i++) {
		ret_symbols[requests[i].index].file = wanted[i].file;
		ret_symbols[requests[i].index].line = wanted[i].line;
	}
	return NULL;
}
