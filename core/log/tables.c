#include "log/tables.h"

#include <string.h>

#include "base/packages.h"
#include "base/search.h"

enum { SETTINGS_MAX = 1024 }; /* more are left out: each is compared with those before */

void gm_tables_deinit(struct gm_tables *tables)
{
	gm_array_deinit(&tables->text);
	gm_array_deinit(&tables->strings);
	gm_array_deinit(&tables->loops);
	gm_array_deinit(&tables->codes);
	gm_array_deinit(&tables->frames);
	gm_array_deinit(&tables->stack_frames);
	gm_array_deinit(&tables->python_stacks);
	gm_array_deinit(&tables->modules);
	gm_array_deinit(&tables->modules_by_start);
	gm_array_deinit(&tables->addresses);
	gm_array_deinit(&tables->native_stacks);
	gm_array_deinit(&tables->evidence);
	gm_array_deinit(&tables->symbols);
	gm_array_deinit(&tables->gaps);
	gm_array_deinit(&tables->iterations);
	gm_array_deinit(&tables->marks);
	gm_array_deinit(&tables->amps);
	gm_array_deinit(&tables->collectives);
	gm_array_deinit(&tables->settings);
	gm_array_deinit(&tables->names);
	gm_array_deinit(&tables->counters);
	gm_array_deinit(&tables->extents);
	gm_array_deinit(&tables->tensors);
}

/* A reader of one record: appends it. False: out of memory. Malformed data sets cursor->bad. */
typedef bool (*read_record)(struct gm_tables *tables, struct gm_cursor *cursor);

/* The id of a record that has been read already, or 0. */
static uint32_t get_id(struct gm_cursor *cursor, size_t count)
{
	uint32_t id = gm_get_u32(cursor);
	if (id > count)
		cursor->bad = true;
	return id;
}

static bool read_string(struct gm_tables *tables, struct gm_cursor *cursor)
{
	uint64_t length = gm_get_varint(cursor);
	if (cursor->bad || length > GM_LOG_STRING_MAX ||
	        length > (uint64_t)(cursor->end - cursor->at) || memchr(cursor->at, 0, length)) {
		cursor->bad = true;
		return true;
	}
	if (!gm_array_reserve(&tables->text, length + 1) || !gm_array_reserve(&tables->strings, 1))
		return false;
	tables->strings.items[tables->strings.count++] = tables->text.count;
	memcpy(tables->text.items + tables->text.count, cursor->at, length);
	tables->text.count += length;
	tables->text.items[tables->text.count++] = '\0';
	gm_packages_see((const char *)cursor->at, length);
	cursor->at += length;
	return true;
}

static bool read_code(struct gm_tables *tables, struct gm_cursor *cursor)
{
	struct gm_log_code_entry code = {
	        .file = get_id(cursor, tables->strings.count),
	        .name = get_id(cursor, tables->strings.count),
	        .first_line = gm_get_u32(cursor),
	        .loop_count = gm_get_u32(cursor),
	        .loops = tables->loops.count,
	};
	if (code.loop_count > GM_LOG_LOOPS_MAX)
		cursor->bad = true;
	for (uint32_t i = 0; i < code.loop_count && !cursor->bad; i++) {
		struct gm_log_loop loop = {
		        .start = gm_get_u32(cursor),
		        .end = gm_get_u32(cursor),
		        .line = gm_get_u32(cursor),
		        .line_end = gm_get_u32(cursor),
		        .has_lines = tables->loops_have_lines,
		};
		if (loop.end < loop.start)
			cursor->bad = true;
		if (!gm_array_push(&tables->loops, loop))
			return false;
	}
	return gm_array_push(&tables->codes, code);
}

static bool read_frame(struct gm_tables *tables, struct gm_cursor *cursor)
{
	struct gm_log_frame frame = {
	        .code = get_id(cursor, tables->codes.count),
	        .lasti = gm_get_u32(cursor),
	        .line = gm_get_u32(cursor),
	        .op = gm_get_u32(cursor),
	        .op_name = get_id(cursor, tables->strings.count),
	};
	return gm_array_push(&tables->frames, frame);
}

static uint32_t get_stack_count(struct gm_cursor *cursor)
{
	uint32_t count = gm_get_u32(cursor);
	if (count > GM_LOG_STACK_MAX)
		cursor->bad = true;
	return cursor->bad ? 0 : count;
}

static bool read_python_stack(struct gm_tables *tables, struct gm_cursor *cursor)
{
	struct gm_span span = {tables->stack_frames.count, get_stack_count(cursor)};
	for (uint32_t i = 0; i < span.count && !cursor->bad; i++)
		if (!gm_array_push(&tables->stack_frames, get_id(cursor, tables->frames.count)))
			return false;
	return gm_array_push(&tables->python_stacks, span);
}

static bool read_module(struct gm_tables *tables, struct gm_cursor *cursor)
{
	struct gm_log_module module = {
	        .path = get_id(cursor, tables->strings.count),
	        .start = gm_get_varint(cursor),
	        .end = gm_get_varint(cursor),
	        .bias = gm_get_varint(cursor),
	        .build_id_size = gm_get_u32(cursor),
	};
	if (module.end < module.start || module.build_id_size > sizeof(module.build_id) ||
	        module.build_id_size > (size_t)(cursor->end - cursor->at)) {
		cursor->bad = true;
		return true;
	}
	memcpy(module.build_id, cursor->at, module.build_id_size);
	cursor->at += module.build_id_size;
	return gm_array_push(&tables->modules, module);
}

static bool read_native_stack(struct gm_tables *tables, struct gm_cursor *cursor)
{
	struct gm_span span = {tables->addresses.count, get_stack_count(cursor)};
	uint64_t address = 0;
	for (uint32_t i = 0; i < span.count && !cursor->bad; i++) {
		address += (uint64_t)gm_unzigzag(gm_get_varint(cursor));
		if (!gm_array_push(&tables->addresses, address))
			return false;
	}
	return gm_array_push(&tables->native_stacks, span);
}

static bool read_evidence(struct gm_tables *tables, struct gm_cursor *cursor)
{
	struct gm_log_evidence evidence = {
	        .kind = gm_get_u32(cursor),
	        .code = get_id(cursor, tables->codes.count),
	        .line = gm_get_u32(cursor),
	        .name = get_id(cursor, tables->strings.count),
	};
	return gm_array_push(&tables->evidence, evidence);
}

static bool read_symbol(struct gm_tables *tables, struct gm_cursor *cursor)
{
	struct gm_symbol_entry symbol = {
	        .address = gm_get_varint(cursor),
	        .function = get_id(cursor, tables->strings.count),
	        .file = get_id(cursor, tables->strings.count),
	        .line = gm_get_u32(cursor),
	        .order = (uint32_t)tables->symbols.count,
	};
	return gm_array_push(&tables->symbols, symbol);
}

static bool read_iteration(struct gm_tables *tables, struct gm_cursor *cursor)
{
	struct gm_log_iteration iteration = {.event = gm_get_varint(cursor)};
	iteration.code = get_id(cursor, tables->codes.count);
	iteration.loop = gm_get_u32(cursor);
	iteration.position = gm_get_varint(cursor);
	return gm_array_push(&tables->iterations, iteration);
}

static bool read_mark(struct gm_tables *tables, struct gm_cursor *cursor)
{
	struct gm_log_mark mark = {.event = gm_get_varint(cursor)};
	gm_get_varint(cursor); /* its number: makes equal records distinct */
	mark.thread = gm_get_varint(cursor);
	mark.kind = gm_get_u32(cursor);
	mark.name = get_id(cursor, tables->strings.count);
	return gm_array_push(&tables->marks, mark);
}

static bool read_amp(struct gm_tables *tables, struct gm_cursor *cursor)
{
	struct gm_log_amp amp = {.event = gm_get_varint(cursor)};
	gm_get_varint(cursor); /* its number: makes equal records distinct */
	amp.mark = gm_get_varint(cursor);
	amp.thread = gm_get_varint(cursor);
	amp.kind = gm_get_u32(cursor);
	amp.python_stack = get_id(cursor, tables->python_stacks.count);
	amp.number = gm_get_u32(cursor);
	amp.count = gm_get_u32(cursor);
	if (amp.count > GM_LOG_AMP_VALUES)
		cursor->bad = true;
	for (uint32_t i = 0; i < amp.count && !cursor->bad; i++) {
		uint64_t bits = gm_get_varint(cursor);
		memcpy(&amp.values[i], &bits, sizeof(bits));
	}
	return gm_array_push(&tables->amps, amp);
}

static bool read_collective(struct gm_tables *tables, struct gm_cursor *cursor)
{
	gm_get_varint(cursor); /* its number: makes equal records distinct */
	struct gm_log_collective collective = {.time_ns = gm_get_varint(cursor)};
	collective.thread = gm_get_varint(cursor);
	collective.kind = gm_get_u32(cursor);
	collective.python_stack = get_id(cursor, tables->python_stacks.count);
	collective.borrowed = gm_get_u32(cursor) & 1;
	collective.group = gm_get_u32(cursor);
	collective.ranks = gm_get_u32(cursor);
	collective.rank = gm_get_u32(cursor) - 1;
	collective.peer = gm_get_u32(cursor) - 1;
	collective.dtype = gm_get_u32(cursor) - 1;
	int64_t device = gm_unzigzag(gm_get_varint(cursor));
	if (device < -1 || device > INT16_MAX)
		cursor->bad = true;
	collective.device = (int16_t)device;
	collective.count = gm_get_varint(cursor);
	collective.send = gm_get_varint(cursor);
	collective.receive = gm_get_varint(cursor);
	collective.send_bytes = gm_get_varint(cursor);
	collective.receive_bytes = gm_get_varint(cursor);
	if (cursor->bad || !gm_collective_kind_name(collective.kind))
		return true; /* a later minor version: an unknown kind is omitted */
	return gm_array_push(&tables->collectives, collective);
}

static bool read_name(struct gm_tables *tables, struct gm_cursor *cursor)
{
	uint64_t before =
	        tables->names.count ? tables->names.items[tables->names.count - 1].event : 0;
	struct gm_log_name name = {.event = gm_get_varint(cursor)};
	uint32_t kind = gm_get_u32(cursor), type = gm_get_u32(cursor);
	int64_t device = gm_unzigzag(gm_get_varint(cursor));
	name.address = gm_get_varint(cursor);
	name.offset = gm_get_varint(cursor);
	name.size = gm_get_varint(cursor);
	name.name = get_id(cursor, tables->strings.count);
	if (kind == 0 || type > UINT8_MAX || device < INT16_MIN || device > INT16_MAX ||
	        name.event < before || name.name == 0 || name.offset + name.size < name.size)
		cursor->bad = true;
	name.kind = kind < GM_NAMED_COUNT ? (uint8_t)kind : GM_NAMED_ATTRIBUTE;
	name.device_type = (uint8_t)type;
	name.device = (int16_t)device;
	return gm_array_push(&tables->names, name);
}

static bool read_tensor(struct gm_tables *tables, struct gm_cursor *cursor)
{
	uint32_t type = gm_get_u32(cursor), dimensions = gm_get_u32(cursor),
	         strided = gm_get_u32(cursor);
	if (type > UINT8_MAX || dimensions > GM_LOG_DIMENSIONS_MAX || strided > 1)
		cursor->bad = true;
	struct gm_tensor_entry tensor = {.extents = tables->extents.count,
	        .type = (uint8_t)type,
	        .dimensions = (uint8_t)dimensions,
	        .strided = strided};
	uint32_t count = cursor->bad ? 0 : dimensions << strided;
	if (!gm_array_reserve(
	            &tables->extents, count + 1)) /* those of a scalar have an entry too */
		return false;
	for (uint32_t i = 0; i < count; i++)
		tables->extents.items[tables->extents.count++] = gm_unzigzag(gm_get_varint(cursor));
	return gm_array_push(&tables->tensors, tensor);
}

static bool read_gap(struct gm_tables *tables, struct gm_cursor *cursor)
{
	return gm_array_push(&tables->gaps, get_id(cursor, tables->strings.count));
}

static bool read_counter(struct gm_tables *tables, struct gm_cursor *cursor)
{
	uint32_t name = get_id(cursor, tables->strings.count);
	gm_get_varint(cursor); /* its position in the file */
	uint64_t value = gm_get_varint(cursor);
	const struct gm_counter_entry counter = {
	        .name = name, .order = (uint32_t)tables->counters.count, .value = value};
	return gm_array_push(&tables->counters, counter);
}

static bool read_setting(struct gm_tables *tables, struct gm_cursor *cursor)
{
	gm_get_varint(cursor); /* its number: makes equal records distinct */
	uint32_t name = get_id(cursor, tables->strings.count);
	uint32_t value = get_id(cursor, tables->strings.count);
	for (size_t i = 0; i < tables->settings.count; i++) {
		if (tables->settings.items[i].name == name) {
			tables->settings.items[i].value = value;
			return true;
		}
	}
	if (tables->settings.count >= SETTINGS_MAX)
		return true;
	return gm_array_push(&tables->settings, ((struct gm_setting_entry){name, value}));
}

const char *gm_tables_read(struct gm_tables *tables, const struct gm_chunk_header *header,
        struct gm_cursor *cursor, bool *ret_no_memory)
{
	static const read_record readers[GM_CHUNK_TYPE_COUNT] = {
	        [GM_CHUNK_STRINGS] = read_string,
	        [GM_CHUNK_CODES] = read_code,
	        [GM_CHUNK_FRAMES] = read_frame,
	        [GM_CHUNK_PYTHON_STACKS] = read_python_stack,
	        [GM_CHUNK_MODULES] = read_module,
	        [GM_CHUNK_NATIVE_STACKS] = read_native_stack,
	        [GM_CHUNK_EVIDENCE] = read_evidence,
	        [GM_CHUNK_SYMBOLS] = read_symbol,
	        [GM_CHUNK_GAPS] = read_gap,
	        [GM_CHUNK_ITERATIONS] = read_iteration,
	        [GM_CHUNK_MARKS] = read_mark,
	        [GM_CHUNK_TENSORS] = read_tensor,
	        [GM_CHUNK_AMP] = read_amp,
	        [GM_CHUNK_NAMES] = read_name,
	        [GM_CHUNK_COLLECTIVES] = read_collective,
	        [GM_CHUNK_COUNTERS] = read_counter,
	        [GM_CHUNK_SETTINGS] = read_setting,
	};
	read_record read = header->type < GM_CHUNK_TYPE_COUNT ? readers[header->type] : NULL;
	if (!read)
		return NULL; /* a later minor version: its additions can be omitted */
	for (uint32_t i = 0; i < header->count; i++) {
		if (!read(tables, cursor)) {
			*ret_no_memory = true;
			return NULL;
		}
		if (cursor->bad)
			return "a record is malformed or refers to one that does not exist";
	}
	return cursor->at == cursor->end ? NULL : "bytes are left over after its records";
}

static int compare_modules(const void *a, const void *b, void *context)
{
	const struct gm_log_module *modules = context;
	const struct gm_log_module *left = &modules[*(const uint32_t *)a - 1];
	const struct gm_log_module *right = &modules[*(const uint32_t *)b - 1];
	return left->start < right->start ? -1 : left->start > right->start;
}

static int compare_symbols(const void *a, const void *b)
{
	const struct gm_symbol_entry *left = a, *right = b;
	if (left->address != right->address)
		return left->address < right->address ? -1 : 1;
	return left->order < right->order ? -1 : left->order > right->order;
}

static int compare_counter_ids(const void *a, const void *b)
{
	const struct gm_counter_entry *left = a, *right = b;
	if (left->name != right->name)
		return left->name < right->name ? -1 : 1;
	return left->order < right->order ? -1 : left->order > right->order;
}

static int compare_counter_names(const void *a, const void *b, void *context)
{
	const struct gm_counter_entry *left = a, *right = b;
	int order = strcmp(
	        gm_tables_string(context, left->name), gm_tables_string(context, right->name));
	return order ? order : left->order < right->order ? -1 : left->order > right->order;
}

/* Those with the same id as the next one are overwritten. */
static void drop_repeated_ids(struct gm_tables *tables)
{
	struct gm_counter_entry *items = tables->counters.items;
	size_t kept = 0, count = tables->counters.count;
	for (size_t i = 0; i < count; i++)
		if (i + 1 == count || items[i].name != items[i + 1].name)
			items[kept++] = items[i];
	tables->counters.count = kept;
}

/*
 * A writer gives each name one id, but another writer's file may give it several. All names are
 * compared only once each has one entry, because a file may have one long name and many counters of
 * it.
 */
static void sort_counters(struct gm_tables *tables)
{
	struct gm_counter_entry *items = tables->counters.items;
	if (tables->counters.count == tables->counters_sorted)
		return;
	qsort(items, tables->counters.count, sizeof(*items), compare_counter_ids);
	drop_repeated_ids(tables);
	size_t kept = 0, count = tables->counters.count;
	qsort_r(items, count, sizeof(*items), compare_counter_names, tables);
	for (size_t i = 0; i < count; i++)
		if (i + 1 == count || strcmp(gm_tables_string(tables, items[i].name),
		                              gm_tables_string(tables, items[i + 1].name)) != 0)
			items[kept++] = items[i];
	for (size_t i = 0; i < kept; i++)
		items[i].order = 0; /* before all that are read later */
	tables->counters.count = tables->counters_sorted = kept;
}

bool gm_tables_sort(struct gm_tables *tables)
{
	sort_counters(tables);
	tables->modules_by_start.count = 0;
	for (uint32_t id = 1; id <= tables->modules.count; id++)
		if (!gm_array_push(&tables->modules_by_start, id))
			return false;
	if (tables->modules_by_start.count)
		qsort_r(tables->modules_by_start.items, tables->modules_by_start.count,
		        sizeof(uint32_t), compare_modules, tables->modules.items);
	if (tables->symbols.count)
		qsort(tables->symbols.items, tables->symbols.count, sizeof(struct gm_symbol_entry),
		        compare_symbols);
	return true;
}

bool gm_tables_counter(const struct gm_tables *tables, const char *name, uint64_t *ret_value)
{
	const struct gm_counter_entry *items = tables->counters.items;
	size_t at = gm_partition_point(tables->counters_sorted, middle,
	        strcmp(gm_tables_string(tables, items[middle].name), name) < 0);
	if (at == tables->counters_sorted ||
	        strcmp(gm_tables_string(tables, items[at].name), name) != 0)
		return false;
	*ret_value = items[at].value;
	return true;
}

const char *gm_tables_string(const struct gm_tables *tables, uint32_t id)
{
	if (id == 0 || id > tables->strings.count)
		return "";
	return tables->text.items + tables->strings.items[id - 1];
}
