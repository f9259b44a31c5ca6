/* A file's bytes, and JSON of them. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/regular_file.h"
#include "estimate/internal.h"

struct gm_error *gm_estimate_file(
        const char *path, size_t most, bool beginning, char **ret_bytes, size_t *ret_size)
{
	_cleanup_close_ int fd = gm_regular_file_open(path);
	struct stat info;
	if (fd < 0 || fstat(fd, &info) != 0)
		return gm_error_in_file(gm_error_create(GM_CORRUPT,
		                                "%s: %s: name a config.json or a safetensors file",
		                                path, gm_regular_file_why(errno)),
		        path);
	size_t size = (size_t)info.st_size, done = 0;
	if (size > most && !beginning)
		return gm_error_in_file(
		        gm_error_create(GM_CORRUPT,
		                "%s: it has %zu bytes, too many for a config or an index: name a "
		                "config.json or a safetensors file",
		                path, size),
		        path);
	size = size < most ? size : most;
	_cleanup_free_ char *bytes = malloc(size + 1);
	if (!bytes)
		return &gm_error_no_memory;
	while (done < size) {
		ssize_t got = pread(fd, bytes + done, size - done, (off_t)done);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return gm_error_in_file(gm_error_os(GM_CORRUPT, errno, "%s", path), path);
		if (got == 0)
			break;
		done += (size_t)got;
	}
	bytes[done] = 0;
	*ret_size = done;
	*ret_bytes = gm_take(bytes);
	return NULL;
}

struct gm_error *gm_estimate_json(
        const char *bytes, size_t size, const char *path, json_t **ret_root)
{
	json_error_t why;
	json_t *root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &why);
	if (!root)
		return gm_error_at_offset(gm_error_create(GM_CORRUPT,
		                                  "%s: line %d, column %d: %.150s: it is not a "
		                                  "JSON object",
		                                  path, why.line, why.column, why.text),
		        path, why.position < 0 ? 0 : (uint64_t)why.position);
	if (!json_is_object(root)) {
		json_decref(root);
		return gm_error_in_file(
		        gm_error_create(GM_CORRUPT,
		                "%s: it is a JSON array, not an object: name a config.json", path),
		        path);
	}
	*ret_root = root;
	return NULL;
}
