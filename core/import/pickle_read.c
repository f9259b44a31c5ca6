#include "import/pickle_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "import/json.h"
#include "import/machine.h"
#include "import/opcodes.h"
#include "log/format.h"

struct gm_error *gm_pickle_read(
        struct gm_pickle *pickle, const char *path, bool plainly, gm_value *ret_root)
{
	*pickle = (struct gm_pickle){.path = path, .plainly = plainly};
	/* O_NONBLOCK: opening a FIFO by mistake must not block. */
	pickle->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat status;
	if (pickle->fd < 0 || fstat(pickle->fd, &status) != 0)
		return gm_error_os(GM_CORRUPT, errno, "%s: cannot open the snapshot", path);
	if (!S_ISREG(status.st_mode))
		return gm_error_create(GM_CORRUPT, "%s: not a regular file: name a snapshot", path);
	pickle->file_size = (uint64_t)status.st_size;
	pickle->buffer = calloc(1, GM_PICKLE_BUFFER + GM_PICKLE_SLACK + GM_LOG_STRING_MAX + 1);
	/* The stack exists from the start: positions in it are computed before anything is pushed.
	 * */
	if (!pickle->buffer || !gm_array_reserve(&pickle->stack, 64))
		return &gm_error_no_memory;
	gm_try(gm_pickle_need(pickle, 1));
	bool is_pickle = pickle->buffer[0] == 0x80;
	if (is_pickle)
		gm_try(gm_pickle_read_opcodes(pickle));
	else
		gm_try(gm_json_read(pickle));
	if (pickle->stack.count != 1 || pickle->marks.count)
		return gm_pickle_wrong(pickle, "it does not end with exactly one value");
	uint64_t end = pickle->before + pickle->at;
	pickle->behind = is_pickle && pickle->file_size > end ? pickle->file_size - end : 0;
	*ret_root = pickle->stack.items[0];
	gm_array_deinit(&pickle->memo);
	gm_array_deinit(&pickle->memo_large);
	free(gm_take(pickle->schemas));
	return NULL;
}
