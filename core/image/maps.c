#include "image/maps.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"

/* The kernel's name for the simulated device's memory: memfd_create("gpumem-sim-device..."). */
#define DEVICE_PATH "/memfd:gpumem-sim-device"

static bool parse_hex(const char **cursor, const char *end, uint64_t *ret_value)
{
	uint64_t value = 0;
	size_t digits = 0;
	for (; *cursor < end && digits < 17; (*cursor)++, digits++) {
		char c = **cursor;
		if (c >= '0' && c <= '9')
			value = value << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uint64_t)(c - 'a' + 10);
		else
			break;
	}
	*ret_value = value;
	return digits > 0 && digits < 17;
}

static bool parse_decimal(const char **cursor, const char *end, uint64_t *ret_value)
{
	uint64_t value = 0;
	size_t digits = 0;
	for (; *cursor < end && digits < 20 && **cursor >= '0' && **cursor <= '9';
	        (*cursor)++, digits++)
		value = value * 10 + (uint64_t)(**cursor - '0');
	*ret_value = value;
	return digits > 0;
}

static bool expect(const char **cursor, const char *end, char c)
{
	if (*cursor >= end || **cursor != c)
		return false;
	(*cursor)++;
	return true;
}

/* "start-end perms offset major:minor inode   path", proc(5); `line` is NUL-terminated at `end`. */
static bool parse_line(const char *line, const char *end, struct gm_mapping *ret_mapping)
{
	struct gm_mapping mapping = {0};
	uint64_t major, minor;
	const char *cursor = line;
	if (!parse_hex(&cursor, end, &mapping.start) || !expect(&cursor, end, '-') ||
	        !parse_hex(&cursor, end, &mapping.end) || !expect(&cursor, end, ' ') ||
	        end - cursor < 4)
		return false;
	mapping.flags = (cursor[0] == 'r' ? GM_MAPPING_READ : 0) |
	                (cursor[1] == 'w' ? GM_MAPPING_WRITE : 0) |
	                (cursor[2] == 'x' ? GM_MAPPING_EXEC : 0) |
	                (cursor[3] == 's' ? GM_MAPPING_SHARED : 0);
	cursor += 4;
	if (!expect(&cursor, end, ' ') || !parse_hex(&cursor, end, &mapping.file_offset) ||
	        !expect(&cursor, end, ' ') || !parse_hex(&cursor, end, &major) ||
	        !expect(&cursor, end, ':') || !parse_hex(&cursor, end, &minor) ||
	        !expect(&cursor, end, ' ') || !parse_decimal(&cursor, end, &mapping.inode))
		return false;
	while (cursor < end && *cursor == ' ')
		cursor++;
	mapping.path = cursor;
	if (strncmp(mapping.path, DEVICE_PATH, strlen(DEVICE_PATH)) == 0)
		mapping.flags |= GM_MAPPING_DEVICE;
	if (mapping.end <= mapping.start)
		return false;
	*ret_mapping = mapping;
	return true;
}

struct gm_error *gm_maps_parse(char *text, size_t length, struct gm_maps *ret_maps)
{
	GM_ARRAY(struct gm_mapping) mappings = {0};
	uint64_t last_end = 0;
	for (char *line = text, *stop = text + length; line < stop;) {
		char *end = memchr(line, '\n', (size_t)(stop - line));
		if (!end)
			end = stop; /* the NUL after the text */
		*end = '\0';
		struct gm_mapping mapping;
		if (parse_line(line, end, &mapping) && mapping.start >= last_end) {
			if (!gm_array_push(&mappings, mapping)) {
				gm_array_deinit(&mappings);
				free(text);
				return &gm_error_no_memory;
			}
			last_end = mapping.end;
		}
		line = end + 1;
	}
	*ret_maps =
	        (struct gm_maps){.items = mappings.items, .count = mappings.count, .text = text};
	return NULL;
}

void gm_maps_deinit(struct gm_maps *maps)
{
	free(maps->items);
	free(maps->text);
	*maps = (struct gm_maps){0};
}

const struct gm_mapping *gm_maps_find(const struct gm_maps *maps, uint64_t address)
{
	const struct gm_mapping *mapping =
	        gm_search_address(maps->items, maps->count, sizeof(*maps->items), address);
	return mapping && address < mapping->end ? mapping : NULL;
}
