#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "spool/internal.h"

/* The value of the setting "out" where the record is one. */
static bool get_out(struct gm_bytes payload, char *ret, size_t size)
{
	static const char name[] = GM_AGENT_SETTING_OUT;
	struct gm_cursor in = {.at = payload.at, .end = payload.at + payload.size};
	uint64_t length = gm_get_varint(&in);
	if (in.bad || length != sizeof(name) - 1 || length > (uint64_t)(in.end - in.at) ||
	        memcmp(in.at, name, sizeof(name) - 1) != 0)
		return false;
	in.at += length;
	length = gm_get_varint(&in);
	if (in.bad || length > (uint64_t)(in.end - in.at) || length >= size)
		return false;
	memcpy(ret, in.at, length);
	ret[length] = 0;
	return true;
}

/* It is among the first records of the file; where old extents are used again, in any that is
 * kept. */
static struct gm_error *find_out(const struct gm_spool_file *file, char *ret, size_t size)
{
	ret[0] = 0;
	for (uint32_t i = 0; i < file->extents && !*ret; i++) {
		_cleanup_extent_ struct gm_spool_extent extent = {0};
		gm_try(gm_spool_extent_open(file, i, &extent));
		struct gm_spool_cursor cursor;
		struct gm_spool_record record;
		gm_spool_cursor_init(&cursor, extent.records, extent.thread);
		while (!*ret && gm_spool_next(&cursor, &record))
			if (record.kind == GM_AGENT_SETTING)
				get_out(record.payload, ret, size);
	}
	return NULL;
}

struct gm_error *gm_spool_look(const char *path, struct gm_spool_look *ret_look)
{
	struct gm_spool_file file;
	struct gm_spool_look look = {0};
	gm_try(gm_spool_open(path, &file));
	look.pid = (pid_t)file.header.pid;
	look.runs = gm_spool_runs(&file.header);
	look.ooms = file.header.ooms;
	look.saved_device = file.header.saved_device;
	look.saved_inode = file.header.saved_inode;
	struct gm_error *error = find_out(&file, look.out, sizeof(look.out));
	gm_spool_close(&file);
	if (!error)
		*ret_look = look;
	return error;
}

/* A number of the header; 0 where there is none. */
static uint32_t number_at(const char *path, size_t offset)
{
	uint32_t number = 0;
	_cleanup_close_ int fd = gm_regular_file_open(path);
	if (fd < 0 || pread(fd, &number, sizeof(number), (off_t)offset) != (ssize_t)sizeof(number))
		return 0;
	return number;
}

uint32_t gm_spool_ooms(const char *path)
{
	return number_at(path, offsetof(struct gm_agent_file_header, ooms));
}

bool gm_spool_is_stopped(const char *path)
{
	return gm_spool_is(path) &&
	       number_at(path, offsetof(struct gm_agent_file_header, state)) == GM_AGENT_STOPPED;
}

void gm_spool_note_saved(int fd, uint64_t device, uint64_t inode)
{
	const uint64_t saved[] = {device, inode};
	_Static_assert(offsetof(struct gm_agent_file_header, saved_inode) ==
	                       offsetof(struct gm_agent_file_header, saved_device) + 8,
	        "one write");
	/* without it the copy stays next to the whole recording */
	ssize_t written = pwrite(
	        fd, saved, sizeof(saved), offsetof(struct gm_agent_file_header, saved_device));
	(void)written;
}

bool gm_spool_is_for_another(const char *name)
{
	return strncmp(name, GM_AGENT_SPOOLED, strlen(GM_AGENT_SPOOLED)) == 0;
}
