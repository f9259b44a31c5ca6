/*
 * Line tables of code objects, decoded into rows of (offset, line).
 *
 * 3.9: co_lnotab, pairs of (bytes, signed line delta) (Objects/lnotab_notes.txt). 3.10:
 * co_linetable, the same pairs but ranges, -128: no line (Objects/lnotab_notes.txt of 3.10, PEP
 * 626). 3.11+: location entries with variable-length numbers (Objects/locations.md). A truncated or
 * invalid table ends the decoding early.
 */
#include "base/search.h"
#include "cpython/python.h"

static bool add_row(struct gm_code_entry *entry, uint32_t start, int64_t line)
{
	uint32_t value = line > 0 && line <= UINT32_MAX ? (uint32_t)line : 0;
	size_t count = entry->lines.count;

	if (count && entry->lines.items[count - 1].start == start) {
		entry->lines.items[count - 1].line = value;
		return true;
	}
	if (count && entry->lines.items[count - 1].line == value)
		return true;
	return gm_array_push(&entry->lines, ((struct gm_line_row){start, value}));
}

/* 3.9: a line delta applies from the offset that is the sum of the byte deltas before it. */
static bool decode_lnotab(struct gm_code_entry *entry, const uint8_t *table, size_t size,
        int64_t line, uint32_t limit)
{
	uint64_t offset = 0;

	if (!add_row(entry, 0, line))
		return false;
	for (size_t i = 0; i + 1 < size && offset < limit; i += 2) {
		offset += table[i];
		line += (int8_t)table[i + 1];
		if (offset < limit && !add_row(entry, (uint32_t)offset, line))
			return false;
	}
	return true;
}

static bool decode_ranges(struct gm_code_entry *entry, const uint8_t *table, size_t size,
        int64_t line, uint32_t limit)
{
	uint64_t offset = 0;

	for (size_t i = 0; i + 1 < size && offset < limit; i += 2) {
		int8_t delta = (int8_t)table[i + 1];
		if (delta != -128)
			line += delta;
		if (table[i] && !add_row(entry, (uint32_t)offset, delta == -128 ? 0 : line))
			return false;
		offset += table[i];
	}
	return true;
}

/* Objects/locations.md: six bits for each byte, low first, bit 6 means that more follow. */
static bool read_varint(const uint8_t *table, size_t size, size_t *at, uint32_t *ret)
{
	uint32_t value = 0;

	for (int shift = 0; *at < size && shift < 32; shift += 6) {
		uint8_t byte = table[(*at)++];
		value |= (uint32_t)(byte & 63) << shift;
		if (!(byte & 64)) {
			*ret = value;
			return true;
		}
	}
	return false;
}

static int64_t signed_of(uint32_t value)
{
	return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

static bool decode_locations(struct gm_code_entry *entry, const uint8_t *table, size_t size,
        int64_t line, uint32_t limit)
{
	uint64_t offset = 0;

	for (size_t i = 0; i < size && offset < limit;) {
		uint8_t first = table[i++];
		unsigned kind = first >> 3 & 15;
		uint32_t delta;
		if (!(first & 128))
			return true; /* not the first byte of an entry: corrupt */
		if (kind == 14 || kind == 13) {
			if (!read_varint(table, size, &i, &delta))
				return true;
			line += signed_of(delta);
		} else if (kind >= 10 && kind <= 12) {
			line += kind - 10;
		}
		if (!add_row(entry, (uint32_t)offset, kind == 15 ? 0 : line))
			return false;
		offset += 2 * ((uint64_t)(first & 7) + 1);
		while (i < size && !(table[i] & 128)) /* columns */
			i++;
	}
	return true;
}

bool gm_py_lines_decode(struct gm_code_entry *entry, int version, const uint8_t *table, size_t size,
        uint32_t first_line, uint32_t bytecode_size)
{
	if (version >= 0x030b)
		return decode_locations(entry, table, size, first_line, bytecode_size);
	if (version >= 0x030a)
		return decode_ranges(entry, table, size, first_line, bytecode_size);
	return decode_lnotab(entry, table, size, first_line, bytecode_size);
}

uint32_t gm_python_line(const struct gm_code *code, uint32_t offset)
{
	return gm_py_line_at(gm_py_entry_of(code), offset);
}

uint32_t gm_py_line_at(const struct gm_code_entry *entry, uint32_t offset)
{
	size_t low = gm_partition_point(
	        entry->lines.count, middle, entry->lines.items[middle].start <= offset);
	return low ? entry->lines.items[low - 1].line : 0;
}
