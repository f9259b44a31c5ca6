/*
 * libdwarf is loaded by dlopen(), deeply bound, and not linked: it and libdw both define
 * dwarf_attr() and thirty other names, and gdb itself has libdw loaded. Linked plainly, libdwarf's
 * calls to its own functions would end in libdw's. (The sanitizer does not allow deep binding: its
 * builds link libdwarf before libdw, which has the same effect in a program of our own.)
 *
 * Why not libdw, which is there anyhow: measured on every 64th address of CPython 3.13's and 3.12's
 * libpython, built by gcc with -g, it needs a third of the instructions. But dwarf_getsrclines()
 * sorts the rows of a unit by address, and a row without length then stands after the end of its
 * sequence and seems to reach to the next one: 12,658 of 43,390 and 22,021 of 39,762 lines came out
 * wrong. libdwarf hands the rows out in the order of the table.
 *
 * Which compilation unit covers an address is asked of .debug_aranges; where there is none (clang),
 * each unit's line table is looked through until all addresses are settled.
 */
#include "symbols/dwarf_lines.h"
#include "base/cleanup.h"
#include "base/regular_file.h"
#include "base/search.h"

#include <dlfcn.h>
#include <libdwarf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#define BINDING 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BINDING 0
#endif
#endif
#ifndef BINDING
#define BINDING RTLD_DEEPBIND
#endif

#define FUNCTIONS(_)                       \
	_(dwarf_init_path)                 \
	_(dwarf_finish)                    \
	_(dwarf_next_cu_header_d)          \
	_(dwarf_siblingof_b)               \
	_(dwarf_offdie_b)                  \
	_(dwarf_srclines_b)                \
	_(dwarf_srclines_from_linecontext) \
	_(dwarf_srclines_dealloc_b)        \
	_(dwarf_lineaddr)                  \
	_(dwarf_lineno)                    \
	_(dwarf_linesrc)                   \
	_(dwarf_lineendsequence)           \
	_(dwarf_get_aranges)               \
	_(dwarf_get_arange)                \
	_(dwarf_get_cu_die_offset)         \
	_(dwarf_dealloc)                   \
	_(dwarf_dealloc_error)

static struct {
	bool loaded;
#define MEMBER(name) __typeof__(name) *name;
	FUNCTIONS(MEMBER)
#undef MEMBER
} lib;

static void load_library(void)
{
	void *handle = dlopen(GM_DWARF_SONAME, RTLD_NOW | RTLD_LOCAL | BINDING);
	if (!handle)
		return;
	bool all = true;
#define LOAD(name) all &= (lib.name = (__typeof__(name) *)dlsym(handle, #name)) != NULL;
	FUNCTIONS(LOAD)
#undef LOAD
	lib.loaded = all;
}

bool gm_lines_available(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, load_library);
	return lib.loaded;
}

struct gm_lines {
	Dwarf_Debug debug;
	Dwarf_Arange *aranges; /* NULL: the file has none */
	Dwarf_Signed arange_count;
};

struct gm_lines *gm_lines_open(const char *path)
{
	if (!gm_lines_available())
		return NULL;
	/* libdwarf opens what it is told by name: it is told the file that was examined */
	_cleanup_close_ int fd = gm_regular_file_open(path);
	char opened[64];
	snprintf(opened, sizeof(opened), "/proc/self/fd/%d", fd);
	struct gm_lines *lines = fd < 0 ? NULL : calloc(1, sizeof(*lines));
	if (!lines)
		return NULL;
	Dwarf_Error error = NULL;
	int status = lib.dwarf_init_path(opened, NULL, 0, DW_DLC_READ, DW_GROUPNUMBER_ANY, NULL,
	        NULL, &lines->debug, NULL, 0, NULL, &error);
	if (status != DW_DLV_OK) {
		if (status == DW_DLV_ERROR)
			lib.dwarf_dealloc_error(NULL, error);
		free(lines);
		return NULL;
	}
	status = lib.dwarf_get_aranges(lines->debug, &lines->aranges, &lines->arange_count, &error);
	if (status != DW_DLV_OK) {
		lines->aranges = NULL;
		if (status == DW_DLV_ERROR)
			lib.dwarf_dealloc_error(lines->debug, error);
	}
	return lines;
}

void gm_lines_close(struct gm_lines *lines)
{
	if (!lines)
		return;
	for (Dwarf_Signed i = 0; lines->aranges && i < lines->arange_count; i++)
		lib.dwarf_dealloc(lines->debug, lines->aranges[i], DW_DLA_ARANGE);
	if (lines->aranges)
		lib.dwarf_dealloc(lines->debug, lines->aranges, DW_DLA_LIST);
	lib.dwarf_finish(lines->debug, NULL);
	free(lines);
}

/* --- one unit's table ------------------------------------------------------------------------- */

struct search {
	struct gm_lines *lines;
	struct gm_line_request *requests;
	size_t count;
	size_t left; /* not settled yet */
	gm_keep_string keep;
	void *context;
};

static size_t lower_bound(const struct search *search, uint64_t address)
{
	return gm_partition_point(
	        search->count, middle, search->requests[middle].address < address);
}

/* The row `line` covers [start, end). */
static void settle(struct search *search, Dwarf_Line line, uint64_t start, uint64_t end)
{
	size_t i = lower_bound(search, start);
	if (i == search->count || search->requests[i].address >= end)
		return;
	Dwarf_Unsigned number;
	char *source;
	Dwarf_Error error = NULL;
	if (lib.dwarf_lineno(line, &number, &error) != DW_DLV_OK || number == 0 ||
	        number > UINT32_MAX || lib.dwarf_linesrc(line, &source, &error) != DW_DLV_OK)
		return;
	const char *file = search->keep(search->context, source);
	lib.dwarf_dealloc(search->lines->debug, source, DW_DLA_STRING);
	for (; file && i < search->count && search->requests[i].address < end; i++) {
		if (search->requests[i].file)
			continue;
		search->requests[i].file = file;
		search->requests[i].line = (uint32_t)number;
		search->left--;
	}
}

static void search_table(struct search *search, Dwarf_Line *rows, Dwarf_Signed count)
{
	Dwarf_Line last = NULL;
	Dwarf_Addr last_address = 0;
	bool discarded = false; /* the linker threw the code away: its rows begin at address 0 */
	for (Dwarf_Signed i = 0; i < count && search->left > 0; i++) {
		Dwarf_Addr address;
		Dwarf_Bool end;
		Dwarf_Error error = NULL;
		if (lib.dwarf_lineaddr(rows[i], &address, &error) != DW_DLV_OK ||
		        lib.dwarf_lineendsequence(rows[i], &end, &error) != DW_DLV_OK)
			return;
		if (!last)
			discarded = address == 0;
		else if (!discarded && address > last_address)
			settle(search, last, last_address, address);
		last = end ? NULL : rows[i];
		last_address = address;
	}
}

static void search_unit(struct search *search, Dwarf_Die unit)
{
	Dwarf_Unsigned version;
	Dwarf_Small tables;
	Dwarf_Line_Context table;
	Dwarf_Line *rows;
	Dwarf_Signed count;
	Dwarf_Error error = NULL;
	int status = lib.dwarf_srclines_b(unit, &version, &tables, &table, &error);
	if (status == DW_DLV_OK) {
		status = lib.dwarf_srclines_from_linecontext(table, &rows, &count, &error);
		if (status == DW_DLV_OK)
			search_table(search, rows, count);
		lib.dwarf_srclines_dealloc_b(table);
	}
	if (status == DW_DLV_ERROR)
		lib.dwarf_dealloc_error(search->lines->debug, error);
}

/* --- which unit ------------------------------------------------------------------------------- */

static void search_by_aranges(struct search *search)
{
	Dwarf_Debug debug = search->lines->debug;
	Dwarf_Off last = 0;
	for (size_t i = 0; i < search->count && search->left > 0; i++) {
		if (search->requests[i].file)
			continue;
		Dwarf_Arange range;
		Dwarf_Off offset;
		Dwarf_Die unit;
		Dwarf_Error error = NULL;
		if (lib.dwarf_get_arange(search->lines->aranges,
		            (Dwarf_Unsigned)search->lines->arange_count,
		            search->requests[i].address, &range, &error) != DW_DLV_OK ||
		        lib.dwarf_get_cu_die_offset(range, &offset, &error) != DW_DLV_OK ||
		        offset == last || /* looked through already */
		        lib.dwarf_offdie_b(debug, offset, 1, &unit, &error) != DW_DLV_OK)
			continue;
		last = offset;
		search_unit(search, unit);
		lib.dwarf_dealloc(debug, unit, DW_DLA_DIE);
	}
}

static void search_all_units(struct search *search)
{
	Dwarf_Debug debug = search->lines->debug;
	/* To its end, even when all is settled: libdwarf keeps where it is and starts again after
	 * it. */
	for (;;) {
		Dwarf_Unsigned length, type_offset, next;
		Dwarf_Half version, address_size, length_size, extension_size, type;
		Dwarf_Off abbreviations;
		Dwarf_Sig8 signature;
		Dwarf_Die unit;
		Dwarf_Error error = NULL;
		int status = lib.dwarf_next_cu_header_d(debug, 1, &length, &version, &abbreviations,
		        &address_size, &length_size, &extension_size, &signature, &type_offset,
		        &next, &type, &error);
		if (status == DW_DLV_ERROR)
			lib.dwarf_dealloc_error(debug, error);
		if (status != DW_DLV_OK)
			return;
		if (search->left == 0 ||
		        lib.dwarf_siblingof_b(debug, NULL, 1, &unit, &error) != DW_DLV_OK)
			continue;
		search_unit(search, unit);
		lib.dwarf_dealloc(debug, unit, DW_DLA_DIE);
	}
}

void gm_lines_find(struct gm_lines *lines, struct gm_line_request *requests, size_t count,
        gm_keep_string keep, void *context)
{
	struct search search = {lines, requests, count, count, keep, context};
	if (lines->aranges)
		search_by_aranges(&search);
	else
		search_all_units(&search);
}
