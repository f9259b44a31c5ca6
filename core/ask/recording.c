#include "ask/recording.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "image/image.h"
#include "spool/spool.h"

struct gm_error *gm_recording_find(int pid, char **ret_path)
{
	struct gm_image *image;
	gm_try(gm_image_open_pid(pid, &image));
	size_t count;
	const struct gm_mapping *mappings = gm_image_mappings(image, &count);
	char *found = NULL;
	struct gm_error *error = NULL;
	for (size_t i = 0; i < count && !found && !error; i++) {
		uint32_t wanted = GM_MAPPING_SHARED | GM_MAPPING_WRITE;
		char *path = NULL;
		if ((mappings[i].flags & wanted) != wanted || mappings[i].path[0] != '/' ||
		        strncmp(mappings[i].path, "/dev/", 5) == 0)
			continue;
		error = gm_image_file_path(image, mappings[i].path, &path);
		if (!error && gm_spool_is(path))
			found = gm_take(path);
		free(path);
	}
	gm_image_close(image);
	if (!error)
		*ret_path = found;
	return error;
}
