#include "symbols/lines.h"

#include <stdlib.h>

#include "base/cleanup.h"

static struct gm_lines *lines_of(struct gm_symbols *symbols, const struct gm_module *module)
{
	struct gm_module_state *state = &symbols->states[module->id];
	if (state->lines_opened)
		return state->lines;
	state->lines_opened = true;
	struct gm_elf *file = gm_symbols_file(symbols, module);
	if (file && !file->has_dwarf)
		file = gm_symbols_debug_file(symbols, module);
	if (file && file->has_dwarf && file->path)
		state->lines = gm_lines_open(file->path);
	return state->lines;
}

bool gm_symbols_lines_available(void)
{
	return gm_lines_available();
}

static const char *keep(void *context, const char *text)
{
	return gm_names_string(context, text);
}

struct gm_error *gm_lines_name(struct gm_symbols *symbols, const struct gm_module *module,
        const struct gm_naming *requests, size_t count, struct gm_symbol *ret_symbols)
{
	struct gm_lines *lines = lines_of(symbols, module);
	if (!lines)
		return NULL;
	_cleanup_free_ struct gm_line_request *wanted = calloc(count + 1, sizeof(*wanted));
	if (!wanted)
		return &gm_error_no_memory;
	for (size_t i = 0; i < count; i++)
		wanted[i].address = requests[i].address;
	gm_lines_find(lines, wanted, count, keep, &symbols->names);
	for (size_t i = 0; i < count; i++) {
		ret_symbols[requests[i].index].file = wanted[i].file;
		ret_symbols[requests[i].index].line = wanted[i].line;
	}
	return NULL;
}
