/*
 * Names for native addresses, from the files that the modules were loaded from. If a file is
 * missing or is another build, its addresses have no names. The modules are added to the log as
 * well.
 */
#include <string.h>

#include "spool/internal.h"
#include "symbols/symbols.h"

enum { MODULES_MAX = 16384 };

struct module {
	struct gm_log_module record;
	char *path;
};

struct modules {
	GM_ARRAY(struct module) all;
};

static void modules_deinit(struct modules *modules)
{
	for (size_t i = 0; i < modules->all.count; i++)
		free(modules->all.items[i].path);
	gm_array_deinit(&modules->all);
}

static bool read_module(struct gm_bytes payload, struct module *ret)
{
	struct gm_cursor in = {.at = payload.at, .end = payload.at + payload.size};
	struct gm_log_module *record = &ret->record;
	record->start = gm_get_varint(&in);
	record->end = gm_get_varint(&in);
	record->bias = gm_get_varint(&in);
	uint64_t length = gm_get_varint(&in);
	if (in.bad || length > (uint64_t)(in.end - in.at) || length > 8192)
		return false;
	ret->path = strndup((const char *)in.at, (size_t)length);
	in.at += length;
	uint64_t size = gm_get_varint(&in);
	if (!in.bad && size <= sizeof(record->build_id) && size <= (uint64_t)(in.end - in.at)) {
		memcpy(record->build_id, in.at, (size_t)size);
		record->build_id_size = (uint32_t)size;
	}
	return ret->path != NULL;
}

static int by_address(const void *a, const void *b)
{
	const struct gm_spool_native *const *x = a, *const *y = b;
	return ((*x)->address > (*y)->address) - ((*x)->address < (*y)->address);
}

/* Names the addresses of one module: `natives` are within it. */
static struct gm_error *name_module(struct gm_spool_tables *tables, const struct module *module,
        struct gm_spool_native **natives, size_t count)
{
	_cleanup_free_ uint64_t *offsets = calloc(count + 1, sizeof(*offsets));
	_cleanup_free_ char **names = calloc(count + 1, sizeof(*names));
	if (!offsets || !names)
		return &gm_error_no_memory;
	for (size_t i = 0; i < count; i++)
		offsets[i] =
		        natives[i]->address - module->record.bias - (natives[i]->is_return ? 1 : 0);
	struct gm_error *error = gm_symbols_name_in_file(module->path, module->record.build_id,
	        module->record.build_id_size, offsets, count, names);
	if (error) {
		/* another build, or no file: addresses stay without names */
		gm_error_destroy(error);
		return NULL;
	}
	for (size_t i = 0; i < count; i++) {
		if (names[i])
			gm_log_writer_symbol(tables->log, natives[i]->address,
			        gm_log_writer_string(tables->log, names[i]), 0, 0);
		free(names[i]);
	}
	return NULL;
}

static struct gm_error *read_all(struct gm_spool_tables *tables, struct modules *modules)
{
	unsigned kind = GM_AGENT_MODULE - GM_AGENT_CODE;
	for (uint32_t id = 1; id < tables->counts[kind] && modules->all.count < MODULES_MAX; id++) {
		struct module module = {0};
		struct gm_bytes payload = tables->payloads[kind][id];
		if (!payload.at || !read_module(payload, &module))
			continue;
		if (!gm_array_push(&modules->all, module)) {
			free(module.path);
			return &gm_error_no_memory;
		}
		struct module *kept = &modules->all.items[modules->all.count - 1];
		kept->record.path = gm_log_writer_string(tables->log, kept->path);
		gm_log_writer_module(tables->log, &kept->record);
	}
	return NULL;
}

static struct gm_error *name_all(struct gm_spool_tables *tables, const struct modules *modules)
{
	size_t count = HASH_COUNT(tables->natives), at = 0;
	_cleanup_free_ struct gm_spool_native **natives = calloc(count + 1, sizeof(*natives));
	if (!natives)
		return &gm_error_no_memory;
	for (struct gm_spool_native *native = tables->natives; native; native = native->hh.next) {
		if (!native->named)
			natives[at++] = native;
		native->named = true;
	}
	count = at;
	qsort(natives, count, sizeof(*natives), by_address);
	for (size_t i = 0; i < modules->all.count; i++) {
		const struct gm_log_module *module = &modules->all.items[i].record;
		size_t first = 0, last;
		while (first < count && natives[first]->address < module->start)
			first++;
		for (last = first; last < count && natives[last]->address < module->end; last++)
			;
		if (last > first)
			gm_try(name_module(
			        tables, &modules->all.items[i], natives + first, last - first));
	}
	return NULL;
}

struct gm_error *gm_spool_names(struct gm_spool_tables *tables)
{
	struct modules modules = {0};
	struct gm_error *error = read_all(tables, &modules);
	if (!error)
		error = name_all(tables, &modules);
	modules_deinit(&modules);
	return error;
}
