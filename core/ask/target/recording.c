#include "ask/target/recording.h"

#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/regular_file.h"
#include "image/image.h"
#include "log/format.h"
#include "spool/spool.h"

static bool is_recording(const char *path)
{
	char magic[8];
	if (gm_spool_is(path))
		return true;
	_cleanup_close_ int fd = gm_regular_file_open(path);
	return fd >= 0 && read(fd, magic, sizeof(magic)) == sizeof(magic) &&
	       memcmp(magic, GM_LOG_MAGIC, sizeof(magic)) == 0;
}

struct gm_error *gm_recording_of(const struct gm_image *image, char **ret_path)
{
	size_t count;
	const struct gm_mapping *mappings = gm_image_mappings(image, &count);
	const char *before = "";
	*ret_path = NULL;
	for (size_t i = 0; i < count; i++) {
		const struct gm_mapping *mapping = &mappings[i];
		/* a core does not show whether a mapping is shared */
		if (!(mapping->flags & GM_MAPPING_WRITE) || mapping->path[0] != '/' ||
		        strncmp(mapping->path, "/dev/", 5) == 0 || strstr(mapping->path, ".so") ||
		        strcmp(mapping->path, before) == 0)
			continue;
		before = mapping->path;
		_cleanup_free_ char *path = NULL;
		gm_try(gm_image_file_path(image, mapping->path, &path));
		if (is_recording(path) && !gm_spool_is_stopped(path)) {
			*ret_path = gm_take(path);
			return NULL;
		}
	}
	return NULL;
}

bool gm_recording_is_mapped_from(const struct gm_image *image, const char *mapped)
{
	static const char suffix[] = ".gpumem";
	_cleanup_free_ char *path = NULL;
	_cleanup_error_ struct gm_error *error = gm_image_file_path(image, mapped, &path);
	size_t length = strlen(mapped), end = sizeof(suffix) - 1;
	return (!error && is_recording(path)) ||
	       (length > end && strcmp(mapped + length - end, suffix) == 0);
}

struct gm_error *gm_recording_find(int pid, char **ret_path)
{
	struct gm_image *image;
	gm_try(gm_image_open_pid(pid, &image));
	struct gm_error *error = gm_recording_of(image, ret_path);
	gm_image_close(image);
	return error;
}
