/* An SQLite database. Its schema is documented in docs/export.md: tables get additional columns,
 * and are never renamed. */
#include <errno.h>
#include <sqlite3.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/packages.h"
#include "base/whole_file.h"
#include "export/export.h"
#include "export/text.h"
#include "model/categories.h"
#include "model/model.h"

static const char schema[] =
        "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN;"
        "CREATE TABLE info(key TEXT PRIMARY KEY, value);"
        "CREATE TABLE device(id INTEGER PRIMARY KEY, name TEXT, peak_allocated INTEGER, peak_event "
        "INTEGER);"
        "CREATE TABLE frame(id INTEGER PRIMARY KEY, file TEXT, line INTEGER, function TEXT, "
        "library "
        "INTEGER);"
        "CREATE TABLE stack_frame(stack INTEGER, depth INTEGER, frame INTEGER,"
        " PRIMARY KEY(stack, depth)) WITHOUT ROWID;"
        "CREATE TABLE event(id INTEGER PRIMARY KEY, action TEXT, block INTEGER, device INTEGER,"
        " address INTEGER, size INTEGER, requested INTEGER, stream INTEGER, time_ns INTEGER,"
        " thread INTEGER, step INTEGER, phase TEXT, stack INTEGER, allocated INTEGER, reserved "
        "INTEGER);"
        "CREATE TABLE block(id INTEGER PRIMARY KEY, device INTEGER, address INTEGER, size INTEGER,"
        " requested INTEGER, alloc INTEGER, free_requested INTEGER, free_completed INTEGER,"
        " step INTEGER, phase TEXT, category TEXT, reason TEXT, stack INTEGER);"
        "CREATE TABLE name(block INTEGER, name TEXT, kind TEXT, offset INTEGER, bytes INTEGER);"
        "CREATE VIEW site AS SELECT stack, file, line, function FROM stack_frame JOIN frame ON"
        " frame.id = stack_frame.frame WHERE depth = (SELECT min(s.depth) FROM stack_frame s JOIN "
        "frame f"
        " ON f.id = s.frame WHERE s.stack = stack_frame.stack AND NOT f.library);";

struct database {
	sqlite3 *handle;
	const char *path;
	gm_reason_words *words;
	sqlite3_stmt *frame, *stack, *event, *block, *device, *info, *name;
	uint8_t *seen_frames, *seen_stacks; /* bits */
	size_t frame_capacity, stack_capacity;
};

static struct gm_error *failed(const struct database *database)
{
	int os_error = 0;
	if (sqlite3_errcode(database->handle) == SQLITE_FULL)
		return gm_error_os(GM_TARGET, ENOSPC, "%s: cannot be written", database->path);
	sqlite3_file_control(database->handle, NULL, SQLITE_FCNTL_LAST_ERRNO, &os_error);
	if (os_error == ENOSPC || os_error == EDQUOT || os_error == EFBIG)
		return gm_error_os(GM_TARGET, os_error, "%s: cannot be written", database->path);
	return gm_error_create(GM_TARGET, "%s: cannot be written: %s: choose another place",
	        database->path, sqlite3_errmsg(database->handle));
}

static struct gm_error *prepare(
        struct database *database, const char *text, sqlite3_stmt **ret_statement)
{
	return sqlite3_prepare_v2(database->handle, text, -1, ret_statement, NULL) == SQLITE_OK
	               ? NULL
	               : failed(database);
}

static struct gm_error *step(struct database *database, sqlite3_stmt *statement)
{
	int status = sqlite3_step(statement);
	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
	return status == SQLITE_DONE ? NULL : failed(database);
}

static void bind_number(sqlite3_stmt *statement, int index, uint64_t number)
{
	sqlite3_bind_int64(statement, index, (sqlite3_int64)number);
}

/* NULL if there is no such event. */
static void bind_event(sqlite3_stmt *statement, int index, uint32_t event)
{
	if (event != GM_NO_EVENT)
		sqlite3_bind_int64(statement, index, event);
}

static void bind_text(sqlite3_stmt *statement, int index, const char *text)
{
	sqlite3_bind_text(statement, index, text, -1, SQLITE_TRANSIENT);
}

/* Marks a number as seen. False with *ret_memory false: out of memory; otherwise it was seen
 * before. */
static bool first_time(uint8_t **bits, size_t *capacity, uint32_t number, bool *ret_memory)
{
	if (number / 8 >= *capacity) {
		size_t grown = (size_t)number / 4 + 1024;
		uint8_t *more = realloc(*bits, grown);
		if (!more) {
			*ret_memory = false;
			return false;
		}
		memset(more + *capacity, 0, grown - *capacity);
		*bits = more;
		*capacity = grown;
	}
	bool seen = (*bits)[number / 8] >> (number % 8) & 1;
	(*bits)[number / 8] |= (uint8_t)(1u << (number % 8));
	return !seen;
}

static struct gm_error *put_stack(
        struct database *database, const struct gm_log *log, uint32_t stack)
{
	bool memory = true;
	if (!stack ||
	        !first_time(&database->seen_stacks, &database->stack_capacity, stack, &memory))
		return memory ? NULL : &gm_error_no_memory;
	size_t count;
	const uint32_t *frames = gm_log_python_stack(log, stack, &count);
	for (size_t i = 0; i < count; i++) {
		struct gm_export_frame frame;
		bind_number(database->stack, 1, stack);
		bind_number(database->stack, 2, i);
		bind_number(database->stack, 3, frames[i]);
		gm_try(step(database, database->stack));
		if (!first_time(&database->seen_frames, &database->frame_capacity, frames[i],
		            &memory) ||
		        !gm_export_frame(log, stack, i, &frame)) {
			if (!memory)
				return &gm_error_no_memory;
			continue;
		}
		bind_number(database->frame, 1, frames[i]);
		bind_text(database->frame, 2, frame.file);
		bind_number(database->frame, 3, frame.line);
		bind_text(database->frame, 4, frame.name);
		bind_number(database->frame, 5, gm_file_is_library(frame.file));
		gm_try(step(database, database->frame));
	}
	return NULL;
}

static struct gm_error *put_event(struct database *database, const struct gm_state_walk *walk)
{
	const struct gm_event *event = &walk->event;
	sqlite3_stmt *row = database->event;
	const char *action = gm_action_name((enum gm_action)event->action);
	bind_number(row, 1, walk->number);
	bind_text(row, 2, action ? action : "");
	if (walk->block != GM_NO_BLOCK)
		bind_number(row, 3, walk->block);
	bind_number(row, 4, walk->device);
	bind_number(row, 5, event->address);
	bind_number(row, 6, event->size);
	if (event->requested)
		bind_number(row, 7, event->requested);
	bind_number(row, 8, event->stream);
	bind_number(row, 9, event->time_ns);
	bind_number(row, 10, event->thread);
	bind_number(row, 11, gm_model_step(walk->model, walk->number));
	bind_text(row, 12, gm_phase_name(gm_model_phase(walk->model, walk->number)));
	if (event->python_stack)
		bind_number(row, 13, event->python_stack);
	bind_number(row, 14, walk->usage.allocated);
	bind_number(row, 15, walk->usage.reserved);
	gm_try(step(database, row));
	return put_stack(database, gm_model_log(walk->model), event->python_stack);
}

static struct gm_error *put_block(struct database *database, const struct gm_model *model,
        const struct gm_categories *categories, size_t index)
{
	const struct gm_block *block = gm_model_block(model, index);
	sqlite3_stmt *row = database->block;
	struct gm_event event = {0};
	if (block->alloc != GM_NO_EVENT)
		gm_log_event(gm_model_log(model), block->alloc, &event);
	bind_number(row, 1, index);
	bind_number(row, 2, block->device);
	bind_number(row, 3, block->address);
	bind_number(row, 4, block->size);
	if (block->requested)
		bind_number(row, 5, block->requested);
	bind_event(row, 6, block->alloc);
	bind_event(row, 7, block->free_requested);
	bind_event(row, 8, block->free_completed);
	if (block->alloc != GM_NO_EVENT) {
		bind_number(row, 9, gm_model_step(model, block->alloc));
		bind_text(row, 10, gm_phase_name(gm_model_phase(model, block->alloc)));
	}
	bind_text(row, 11, gm_category_name(gm_categories_of(categories, index)));
	_cleanup_free_ char *reason = database->words(gm_categories_reason(categories, index));
	if (!reason)
		return &gm_error_no_memory;
	bind_text(row, 12, reason);
	if (event.python_stack)
		bind_number(row, 13, event.python_stack);
	return step(database, row);
}

static struct gm_error *put_names(
        struct database *database, const struct gm_model *model, size_t block)
{
	_cleanup_(gm_all_names_deinit) struct gm_all_names names;
	if (!gm_model_all_names(model, block, &names))
		return &gm_error_no_memory;
	for (size_t i = 0; i < names.count; i++) {
		const struct gm_block_name *one = &names.items[i];
		bind_number(database->name, 1, block);
		bind_text(database->name, 2, one->name);
		bind_text(database->name, 3, gm_named_kind_name(one->kind));
		bind_number(database->name, 4, one->offset);
		bind_number(database->name, 5, one->size);
		gm_try(step(database, database->name));
	}
	return NULL;
}

static struct gm_error *put_info(struct database *database, const char *key, const char *value)
{
	bind_text(database->info, 1, key);
	bind_text(database->info, 2, value);
	return step(database, database->info);
}

static struct gm_error *fill(struct database *database, struct gm_model *model)
{
	const struct gm_categories *categories;
	gm_try(gm_model_categories(model, &categories));
	if (sqlite3_exec(database->handle, schema, NULL, NULL, NULL) != SQLITE_OK)
		return failed(database);
	gm_try(prepare(database, "INSERT INTO frame VALUES(?,?,?,?,?)", &database->frame));
	gm_try(prepare(database, "INSERT INTO stack_frame VALUES(?,?,?)", &database->stack));
	gm_try(prepare(database, "INSERT INTO event VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
	        &database->event));
	gm_try(prepare(
	        database, "INSERT INTO block VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)", &database->block));
	gm_try(prepare(database, "INSERT INTO device VALUES(?,?,?,?)", &database->device));
	gm_try(prepare(database, "INSERT INTO info VALUES(?,?)", &database->info));
	gm_try(prepare(database, "INSERT INTO name VALUES(?,?,?,?,?)", &database->name));
	gm_try(put_info(database, "source", gm_log_source(gm_model_log(model))));
	gm_try(put_info(database, "schema", "1"));
	for (size_t i = 0; i < gm_model_device_count(model); i++) {
		const struct gm_model_device *device = gm_model_device(model, i);
		char name[32];
		gm_export_device_name(device, name);
		bind_number(database->device, 1, i);
		bind_text(database->device, 2, name);
		bind_number(database->device, 3, device->peak.allocated);
		bind_event(database->device, 4, device->peak_event);
		gm_try(step(database, database->device));
		struct gm_state_walk walk = gm_state_walk_begin(model, i);
		while (gm_state_walk_next(&walk))
			gm_try(put_event(database, &walk));
	}
	for (size_t i = 0; i < gm_model_block_count(model); i++) {
		gm_try(put_block(database, model, categories, i));
		gm_try(put_names(database, model, i));
	}
	static const char end[] = "CREATE INDEX block_alloc ON block(alloc);"
	                          "CREATE INDEX block_address ON block(address); COMMIT;";
	return sqlite3_exec(database->handle, end, NULL, NULL, NULL) == SQLITE_OK
	               ? NULL
	               : failed(database);
}

static struct gm_error *write_database(
        struct database *database, struct gm_model *model, const char *temporary)
{
	if (sqlite3_open(temporary, &database->handle) != SQLITE_OK) {
		struct gm_error *error = failed(database);
		sqlite3_close(database->handle);
		return error;
	}
	struct gm_error *error = fill(database, model);
	sqlite3_stmt *const statements[] = {database->frame, database->stack, database->event,
	        database->block, database->device, database->info, database->name};
	for (size_t i = 0; i < sizeof(statements) / sizeof(*statements); i++)
		sqlite3_finalize(statements[i]);
	if (sqlite3_close(database->handle) != SQLITE_OK && !error)
		error = failed(database);
	free(database->seen_frames);
	free(database->seen_stacks);
	return error;
}

struct gm_error *gm_export_sqlite(struct gm_model *model, gm_reason_words *words, const char *path)
{
	struct database database = {.path = path, .words = words};
	struct gm_whole_file file;
	gm_try(gm_whole_file_open(path, 0644, GM_WHOLE_FILE_NAMED, &file));
	if (!file.name) {
		gm_whole_file_close(&file);
		return gm_error_create(GM_TARGET,
		        "%s: not a regular file: a database cannot be written there", path);
	}
	_cleanup_free_ char *temporary = gm_whole_file_temporary(&file);
	struct gm_error *error =
	        temporary ? write_database(&database, model, temporary) : &gm_error_no_memory;
	if (!error)
		return gm_whole_file_finish(&file);
	gm_whole_file_close(&file);
	return error;
}
