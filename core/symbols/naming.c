/*
 * From addresses to names, many at once: the addresses are sorted, and each module's symbol table
 * is read once, comparing every symbol with the few addresses. Nothing is indexed: for the tables
 * of torch's libraries an index would cost more than all questions of a session.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "symbols/debug_file.h"
#include "symbols/internal.h"
#include "symbols/lines.h"
#include "symbols/naming.h"

/* Symbols without a size (assembly) extend to the next one, but no further than this. */
enum { UNSIZED_MAX = 64 << 10 };

/* --- one table -------------------------------------------------------------------------------- */

static int compare_addresses(const void *left, const void *right)
{
	const struct gm_naming *a = left, *b = right;
	return a->address < b->address ? -1 : a->address > b->address;
}

/* The first request at or after `address`. */
static size_t lower_bound(const struct gm_naming *requests, size_t count, uint64_t address)
{
	return gm_partition_point(count, middle, requests[middle].address < address);
}

/* Of several symbols at one address, a function is preferred to a label, and a public name to a
 * local one. */
static int rank(const Elf64_Sym *symbol)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info), binding = ELF64_ST_BIND(symbol->st_info);
	return (type == STT_FUNC || type == STT_GNU_IFUNC ? 4 : 0) + (binding == STB_GLOBAL ? 2
	                                                                     : binding == STB_WEAK
	                                                                             ? 1
	                                                                             : 0);
}

static bool better(const struct gm_naming *request, const Elf64_Sym *symbol)
{
	if (!request->found)
		return true;
	bool sized = symbol->st_size > 0, had_size = request->symbol.st_size > 0;
	if (sized != had_size)
		return sized;
	if (symbol->st_value != request->symbol.st_value)
		return symbol->st_value > request->symbol.st_value;
	return rank(symbol) > rank(&request->symbol);
}

/* `requests` are sorted by address. */
static void name_in_table(
        const struct gm_symbol_table *table, struct gm_naming *requests, size_t count)
{
	uint64_t lowest = requests[0].address, highest = requests[count - 1].address;
	for (size_t i = 0; i < table->count; i++) {
		Elf64_Sym symbol = gm_symbol_entry(table, i);
		uint64_t reach = symbol.st_size ? symbol.st_size : UNSIZED_MAX;
		if (symbol.st_value > highest ||
		        (symbol.st_value < lowest && lowest - symbol.st_value >= reach) ||
		        !gm_symbol_defined(&symbol))
			continue;
		for (size_t j = lower_bound(requests, count, symbol.st_value);
		        j < count && requests[j].address - symbol.st_value < reach; j++) {
			if (!better(&requests[j], &symbol))
				continue;
			requests[j].found = true;
			requests[j].symbol = symbol;
			requests[j].name = gm_symbol_name(table, symbol.st_name);
		}
	}
}

void gm_naming_in_file(const struct gm_elf *file, const struct gm_elf *debug,
        struct gm_naming *requests, size_t count)
{
	if (count == 0)
		return;
	qsort(requests, count, sizeof(*requests), compare_addresses);
	if (file && file->full.count > 0) {
		name_in_table(&file->full, requests, count); /* contains .dynsym, and more */
		return;
	}
	if (debug && debug->full.count > 0)
		name_in_table(&debug->full, requests, count);
	if (file)
		name_in_table(&file->dynamic, requests, count);
}

/* --- an image's addresses --------------------------------------------------------------------- */

/* An address of gm_symbols_name(), and the index of its result. */
struct place {
	const struct gm_module *module;
	size_t index;
};

static int compare_places(const void *left, const void *right)
{
	const struct place *a = left, *b = right;
	uint32_t i = a->module ? a->module->id : UINT32_MAX,
	         j = b->module ? b->module->id : UINT32_MAX;
	if (i != j)
		return i < j ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

static struct gm_error *name_in_module(struct gm_symbols *symbols, const struct gm_module *module,
        const uint64_t *addresses, struct gm_naming *requests, size_t count, bool lines,
        struct gm_symbol *symbols_out)
{
	struct gm_elf *file = gm_symbols_file(symbols, module);
	struct gm_elf *debug = gm_symbols_debug_file(symbols, module);
	gm_naming_in_file(file, debug, requests, count);
	for (size_t i = 0; i < count; i++) {
		struct gm_symbol *out = &symbols_out[requests[i].index];
		out->module = module;
		if (!requests[i].found || !*requests[i].name)
			continue;
		if (!gm_names_symbol(
		            &symbols->names, requests[i].name, &out->linkage_name, &out->function))
			return &gm_error_no_memory;
		out->offset =
		        addresses[requests[i].index] - module->bias - requests[i].symbol.st_value;
	}
	return lines ? gm_lines_name(symbols, module, requests, count, symbols_out) : NULL;
}

static struct gm_error *name(struct gm_symbols *symbols, const uint64_t *addresses, size_t count,
        bool return_addresses, bool lines, struct gm_symbol *ret_symbols)
{
	memset(ret_symbols, 0, count * sizeof(*ret_symbols));
	_cleanup_free_ struct place *places = malloc((count + 1) * sizeof(*places));
	_cleanup_free_ struct gm_naming *requests = calloc(count + 1, sizeof(*requests));
	if (!places || !requests)
		return &gm_error_no_memory;
	/* The instruction before a return address is the call; after a call that never returns, the
	 * return address itself may belong to the next function. */
	uint64_t back = return_addresses ? 1 : 0;
	for (size_t i = 0; i < count; i++)
		places[i] = (struct place){gm_symbols_module_at(symbols, addresses[i] - back), i};
	qsort(places, count, sizeof(*places), compare_places);
	for (size_t i = 0; i < count && places[i].module;) {
		const struct gm_module *module = places[i].module;
		size_t used = 0;
		for (; i < count && places[i].module == module; i++)
			requests[used++] = (struct gm_naming){
			        .address = addresses[places[i].index] - back - module->bias,
			        .index = places[i].index,
			};
		gm_try(name_in_module(
		        symbols, module, addresses, requests, used, lines, ret_symbols));
	}
	return NULL;
}

struct gm_error *gm_symbols_name(struct gm_symbols *symbols, const uint64_t *addresses,
        size_t count, bool return_addresses, struct gm_symbol *ret_symbols)
{
	return name(symbols, addresses, count, return_addresses, true, ret_symbols);
}

struct gm_error *gm_symbols_name_functions(struct gm_symbols *symbols, const uint64_t *addresses,
        size_t count, bool return_addresses, struct gm_symbol *ret_symbols)
{
	return name(symbols, addresses, count, return_addresses, false, ret_symbols);
}

/* --- a file's addresses ----------------------------------------------------------------------- */

struct gm_error *gm_symbols_name_in_file(const char *path, const uint8_t *build_id,
        size_t build_id_size, const uint64_t *offsets, size_t count, char **ret_names)
{
	struct gm_elf *file = NULL, *debug = NULL;
	gm_try(gm_elf_open(path, &file));
	if (build_id_size > 0 && (file->build_id_size != build_id_size ||
	                                 memcmp(file->build_id, build_id, build_id_size) != 0)) {
		gm_elf_close(file);
		return gm_error_create(GM_TARGET,
		        "%s: it is another build than the one that was recorded: names from it "
		        "would be wrong; restore the old one to get them",
		        path);
	}
	struct gm_naming *requests = calloc(count + 1, sizeof(*requests));
	char **names = calloc(count + 1, sizeof(char *));
	struct gm_error *error = requests && names ? NULL : &gm_error_no_memory;
	if (!error) {
		for (size_t i = 0; i < count; i++)
			requests[i] = (struct gm_naming){.address = offsets[i], .index = i};
		if (file->full.count == 0)
			debug = gm_debug_file_open(file, path, "");
		gm_naming_in_file(file, debug, requests, count);
	}
	for (size_t i = 0; i < count && !error; i++) {
		if (requests[i].found && *requests[i].name) {
			/* a debug file's table has versions in its names ("…@@GLIBC_2.34") */
			_cleanup_free_ char *plain =
			        strndup(requests[i].name, strcspn(requests[i].name, "@"));
			names[requests[i].index] = plain ? gm_demangle(plain) : NULL;
			if (!names[requests[i].index])
				error = &gm_error_no_memory;
		}
	}
	if (error) {
		for (size_t i = 0; names && i < count; i++)
			free(names[i]);
	} else {
		memcpy(ret_names, names, count * sizeof(char *));
	}
	free(names);
	free(requests);
	gm_elf_close(debug);
	gm_elf_close(file);
	return error;
}
