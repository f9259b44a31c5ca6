/* Any bytes as a snapshot: it is read or refused, and what it becomes is a log that can be made a model of. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "import/import.h"
#include "log/log.h"
#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create("snapshot", 0);
	if (fd < 0 || (size && write(fd, data, size) != (ssize_t)size))
		abort();
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	struct gm_log *log;
	struct gm_error *error = gm_import_snapshot(path, &log);
	if (error) {
		gm_error_destroy(error);
		return 0;
	}
	struct gm_model *model;
	error = gm_model_create(log, &model);
	if (error)
		gm_error_destroy(error);
	else
		gm_model_destroy(model);
	gm_log_close(log);
	return 0;
}
