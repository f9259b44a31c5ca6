/*
 * The changes between two moments of a process, by the sums of `blocks --by`: the current ones
 * beside those of an earlier answer in a file. The file is hostile input: it may contain anything,
 * and may be truncated anywhere.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "render/json.h"
#include "render/group_text.h"
#include "render/groups.h"
#include "render/memory.h"
#include "render/text.h"

enum { MAX_FILE = 64 << 20 };

struct change {
	const char *key;              /* of the answers */
	uint64_t bytes[2], blocks[2]; /* before, now */
};

struct changes {
	GM_ARRAY(struct change) items;
};

static struct gm_error *no_answer(const char *path, const char *why)
{
	return gm_error_create(GM_CORRUPT,
	        "--since %s: not an answer of `gpumem blocks --by WHAT --json`: %s: write one to a "
	        "file first",
	        path, why);
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct change *)a)->key, ((const struct change *)b)->key);
}

static int64_t growth(const struct change *change)
{
	return (int64_t)(change->bytes[1] - change->bytes[0]);
}

static int by_growth(const void *a, const void *b)
{
	int64_t left = growth(a), right = growth(b);
	uint64_t left_size = left < 0 ? -(uint64_t)left : (uint64_t)left;
	uint64_t right_size = right < 0 ? -(uint64_t)right : (uint64_t)right;
	if (left_size != right_size)
		return left_size > right_size ? -1 : 1;
	return by_key(a, b);
}

static struct gm_error *read_groups(struct changes *changes, json_t *answer, const char *path)
{
	json_t *groups = json_object_get(answer, "groups");
	size_t count = json_array_size(groups);
	if (!json_is_array(groups))
		return no_answer(path, "it has no groups");
	for (size_t i = 0; i < count; i++) {
		json_t *group = json_array_get(groups, i);
		const char *key = json_string_value(json_object_get(group, "key"));
		json_int_t bytes = json_integer_value(json_object_get(group, "bytes"));
		json_int_t blocks = json_integer_value(json_object_get(group, "blocks"));
		if (!key || bytes < 0 || blocks < 0)
			return no_answer(path, "a group has no key, bytes or blocks");
		const struct change change = {key, {(uint64_t)bytes, 0}, {(uint64_t)blocks, 0}};
		if (!gm_array_push(&changes->items, change))
			return &gm_error_no_memory;
	}
	return NULL;
}

/* Are the groups of one kind, and of one device? An older gpumem did not write their kind. */
static struct gm_error *check_same(
        const struct gm_target_blocks *blocks, const json_t *answer, const char *path)
{
	const char *by = json_string_value(json_object_get(answer, "grouped_by"));
	const json_t *device = json_object_get(answer, "device");
	if (json_is_integer(json_object_get(answer, "event")))
		return no_answer(path, "it is of a recording");
	if (by && strcmp(by, gm_target_blocks_by(blocks)) != 0)
		return gm_error_create(GM_USAGE,
		        "--since %s: it was written with --by %s: give the same --by", path, by);
	if (json_is_integer(device) && json_integer_value(device) != blocks->memory.device)
		return gm_error_create(GM_USAGE,
		        "--since %s: it is of device %" JSON_INTEGER_FORMAT
		        ", and this answer of device %d: give the same --device",
		        path, json_integer_value(device), blocks->memory.device);
	return NULL;
}

/* The groups of both sides, merged by key, with the greatest change first. */
static struct gm_error *compare(struct changes *changes, const struct gm_target_blocks *blocks,
        json_t *answer, const char *path)
{
	gm_try(check_same(blocks, answer, path));
	gm_try(read_groups(changes, answer, path));
	for (size_t i = 0; i < blocks->group_count; i++) {
		const struct gm_group *group = &blocks->groups[i];
		const struct change change = {gm_text_group(group->kind, group->key),
		        {0, group->bytes}, {0, group->blocks}};
		if (!gm_array_push(&changes->items, change))
			return &gm_error_no_memory;
	}
	struct change *items = changes->items.items;
	size_t kept = 0, count = changes->items.count;
	if (!count)
		return NULL;
	qsort(items, count, sizeof(*items), by_key);
	for (size_t i = 1; i < count; i++) {
		if (strcmp(items[kept].key, items[i].key) != 0) {
			items[++kept] = items[i];
			continue;
		}
		for (int side = 0; side < 2; side++) {
			items[kept].bytes[side] += items[i].bytes[side];
			items[kept].blocks[side] += items[i].blocks[side];
		}
	}
	changes->items.count = kept + 1;
	qsort(items, kept + 1, sizeof(*items), by_growth);
	return NULL;
}

static bool is_changed(const struct change *change)
{
	return change->bytes[0] != change->bytes[1] || change->blocks[0] != change->blocks[1];
}

static struct gm_error *put_text(
        const struct changes *changes, const struct gm_style *style, FILE *out)
{
	static const char *const heads[] = {"change", "bytes", "blocks before", "blocks now", "of"};
	struct gm_table *table = gm_table_create(heads, "rrrrl");
	size_t shown = 0;
	for (size_t i = 0; i < changes->items.count; i++) {
		const struct change *change = &changes->items.items[i];
		char size[GM_SIZE_TEXT], exact[GM_SIZE_GROUPED];
		int64_t bytes = growth(change);
		uint64_t magnitude = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;
		const char *sign = bytes < 0 ? "-" : bytes > 0 ? "+" : "";
		if (!is_changed(change))
			continue;
		shown++;
		gm_table_cell(table, "%s%s", sign, gm_text_size(magnitude, size));
		gm_table_cell(table, "%s%s", sign, gm_text_grouped(magnitude, exact));
		gm_table_cell(table, "%" PRIu64, change->blocks[0]);
		gm_table_cell(table, "%" PRIu64, change->blocks[1]);
		gm_table_cell(table, "%s", change->key);
	}
	if (!shown)
		fputs("Nothing has changed since.\n", out);
	return gm_table_finish(table, style, out) ? NULL : &gm_error_no_memory;
}

static struct gm_error *put_json(const struct changes *changes, FILE *out)
{
	json_t *all = json_array();
	for (size_t i = 0; i < changes->items.count; i++) {
		const struct change *change = &changes->items.items[i];
		if (is_changed(change))
			json_array_append_new(
			        all, json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "key",
			                     gm_json_string(change->key), "change",
			                     (json_int_t)growth(change), "bytes_before",
			                     (json_int_t)change->bytes[0], "bytes",
			                     (json_int_t)change->bytes[1], "blocks_before",
			                     (json_int_t)change->blocks[0], "blocks",
			                     (json_int_t)change->blocks[1]));
	}
	return gm_json_write(json_pack("{s:o}", "changes", all), true, out);
}

struct gm_error *gm_render_blocks_since(const struct gm_target_blocks *blocks, const char *path,
        bool json, const struct gm_style *style, FILE *out)
{
	struct changes changes = {0};
	struct stat status;
	json_error_t why;
	if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
		return no_answer(path, "no such file");
	if (status.st_size > MAX_FILE)
		return no_answer(path, "it is too large");
	json_t *answer = json_load_file(path, 0, &why);
	struct gm_error *error =
	        answer ? compare(&changes, blocks, answer, path) : no_answer(path, why.text);
	if (!error)
		error = json ? put_json(&changes, out) : put_text(&changes, style, out);
	gm_array_deinit(&changes.items);
	json_decref(answer);
	return error;
}
