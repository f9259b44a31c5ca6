/*
 * co_exceptiontable of 3.11 and later: which handler is for which instructions
 * (Objects/exception_handling_notes.txt).
 */
#include "cpython/python.h"

/* Big-endian groups of six bits; bit 6 means that more follow, bit 7 begins an entry. */
static bool read_varint(const uint8_t *table, size_t size, size_t *at, uint32_t *ret)
{
	uint32_t value = 0;

	for (int i = 0; *at < size && i < 6; i++) {
		uint8_t byte = table[(*at)++];
		value = value << 6 | (byte & 63);
		if (!(byte & 64)) {
			*ret = value;
			return true;
		}
	}
	return false;
}

bool gm_py_exception_next(const uint8_t *table, size_t size, size_t *at, uint32_t *ret_start,
        uint32_t *ret_length, uint32_t *ret_target, uint32_t *ret_depth)
{
	return read_varint(table, size, at, ret_start) &&
	       read_varint(table, size, at, ret_length) &&
	       read_varint(table, size, at, ret_target) && read_varint(table, size, at, ret_depth);
}
