#include "symbols/lines.h"

struct gm_error *gm_lines_name(struct gm_symbols *symbols, const struct gm_module *module,
        const struct gm_naming *requests, size_t count, struct gm_symbol *ret_symbols)
{
	return NULL;
}

void gm_lines_close(struct gm_lines *lines)
{
}
