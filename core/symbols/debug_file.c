#include "symbols/debug_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/regular_file.h"

static bool same_build(const struct gm_elf *left, const struct gm_elf *right)
{
	return left->build_id_size > 0 && left->build_id_size == right->build_id_size &&
	       memcmp(left->build_id, right->build_id, left->build_id_size) == 0;
}

/* CRC-32 as .gnu_debuglink has it (gdb's manual, "Debugging Information in Separate Files"). */
static bool checksum_file(const char *path, uint32_t *ret_checksum)
{
	_cleanup_close_ int fd = gm_regular_file_open(path);
	if (fd < 0)
		return false;
	uint32_t table[256];
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t value = i;
		for (int bit = 0; bit < 8; bit++)
			value = value & 1 ? value >> 1 ^ UINT32_C(0xedb88320) : value >> 1;
		table[i] = value;
	}
	uint32_t checksum = UINT32_MAX;
	uint8_t bytes[16 << 10];
	ssize_t got;
	while ((got = read(fd, bytes, sizeof(bytes))) > 0) {
		for (ssize_t i = 0; i < got; i++)
			checksum = checksum >> 8 ^ table[(checksum ^ bytes[i]) & 255];
	}
	*ret_checksum = ~checksum;
	return got == 0;
}

static struct gm_elf *open_candidate(
        const struct gm_elf *file, const char *path, const uint32_t *checksum)
{
	struct gm_elf *debug = NULL;
	uint32_t actual;
	gm_error_destroy(gm_elf_open(path, &debug));
	if (!debug)
		return NULL;
	if (same_build(file, debug) || (file->build_id_size == 0 && checksum &&
	                                       checksum_file(path, &actual) && actual == *checksum))
		return debug;
	gm_elf_close(debug);
	return NULL;
}

static struct gm_elf *open_by_build_id(const struct gm_elf *file, const char *root)
{
	if (file->build_id_size < 2)
		return NULL;
	char digits[2 * sizeof(file->build_id) + 1];
	for (uint32_t i = 0; i < file->build_id_size; i++)
		snprintf(digits + 2 * i, 3, "%02x", file->build_id[i]);
	_cleanup_free_ char *path = NULL;
	if (asprintf(&path, "%s/usr/lib/debug/.build-id/%.2s/%s.debug", root, digits, digits + 2) <
	        0) {
		path = NULL;
		return NULL;
	}
	return open_candidate(file, path, NULL);
}

static struct gm_elf *open_by_link(struct gm_elf *file, const char *path, const char *root)
{
	GElf_Word checksum;
	const char *name = dwelf_elf_gnu_debuglink(file->elf, &checksum);
	const char *slash = strrchr(path, '/');
	if (!name || !*name || strchr(name, '/') || !slash)
		return NULL;
	int length = (int)(slash - path);
	static const char *const forms[][2] = {{"", ""}, {"", "/.debug"}, {"/usr/lib/debug", ""}};
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		_cleanup_free_ char *candidate = NULL;
		if (asprintf(&candidate, "%s%s%.*s%s/%s", root, forms[i][0], length, path,
		            forms[i][1], name) < 0) {
			candidate = NULL;
			return NULL;
		}
		struct gm_elf *debug = open_candidate(file, candidate, &checksum);
		if (debug)
			return debug;
	}
	return NULL;
}

struct gm_elf *gm_debug_file_open(struct gm_elf *file, const char *path, const char *root)
{
	struct gm_elf *debug = open_by_build_id(file, root);
	return debug ? debug : open_by_link(file, path, root);
}
