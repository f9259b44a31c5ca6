#include "image/core_out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "base/size.h"

enum {
	COMPRESSION = 1,
	WORKERS = 2
}; /* the program is stopped meanwhile: speed is most important */

static struct gm_error *error_write(const struct gm_core_out *out, int os_error)
{
	return gm_error_os(GM_TARGET, os_error,
	        "%s: offset 0x%jx: the core cannot be written and was removed: name a file on "
	        "another disk with -o",
	        out->path, (uintmax_t)out->length);
}

/* The folder of `path`, "." for none; the caller frees it. */
static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash)
		return strdup(".");
	return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

static struct gm_error *check_space(const char *path, const char *folder, uint64_t bytes)
{
	struct statvfs disk;
	if (statvfs(folder, &disk) != 0)
		return gm_error_os(GM_TARGET, errno, "%s: the core cannot be written", path);
	uint64_t available = (uint64_t)disk.f_bavail * disk.f_frsize;
	if (available >= bytes)
		return NULL;
	char needed[GM_SIZE_TEXT], there[GM_SIZE_TEXT];
	return gm_error_create(GM_TARGET,
	        "%s: the core needs %s and the disk has %s left: name a file on another disk with "
	        "-o",
	        path, gm_text_size(bytes, needed), gm_text_size(available, there));
}

static struct gm_error *open_file(struct gm_core_out *out)
{
	struct stat status;
	if (stat(out->path, &status) == 0 && !S_ISREG(status.st_mode))
		return gm_error_create(GM_TARGET,
		        "%s: it is not a regular file: name another one with -o", out->path);
	struct gm_error *error = gm_whole_file_open(out->path, 0600, GM_WHOLE_FILE_ANY, &out->file);
	if (!error || !error->os_error)
		return error;
	int os_error = error->os_error;
	gm_error_destroy(error);
	return gm_error_os(GM_TARGET, os_error,
	        "%s: the core cannot be written: name another file with -o", out->path);
}

static struct gm_error *start_compressor(struct gm_core_out *out)
{
	ZSTD_CCtx *compressor = ZSTD_createCCtx();
	out->compressor = compressor;
	out->buffer_size = ZSTD_CStreamOutSize();
	out->buffer = malloc(out->buffer_size);
	if (!compressor || !out->buffer)
		return &gm_error_no_memory;
	ZSTD_CCtx_setParameter(compressor, ZSTD_c_compressionLevel, COMPRESSION);
	ZSTD_CCtx_setParameter(compressor, ZSTD_c_checksumFlag, 1);
	ZSTD_CCtx_setParameter(
	        compressor, ZSTD_c_nbWorkers, WORKERS); /* refused: then in this thread */
	return NULL;
}

struct gm_error *gm_core_out_open(
        const char *path, bool compress, uint64_t bytes, struct gm_core_out *ret_out)
{
	_cleanup_free_ char *folder = folder_of(path);
	if (!folder)
		return &gm_error_no_memory;
	if (!compress)
		gm_try(check_space(path, folder, bytes));
	struct gm_core_out out = {.path = path, .file = {.fd = -1, .folder = -1}};
	struct gm_error *error = open_file(&out);
	if (!error && compress)
		error = start_compressor(&out);
	if (error) {
		gm_core_out_close(&out);
		return error;
	}
	*ret_out = out;
	return NULL;
}

static struct gm_error *put(struct gm_core_out *out, const uint8_t *bytes, size_t size)
{
	while (size > 0) {
		ssize_t wrote = write(out->file.fd, bytes, size);
		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return error_write(out, wrote < 0 ? errno : ENOSPC);
		bytes += wrote;
		size -= (size_t)wrote;
	}
	return NULL;
}

static struct gm_error *compress(struct gm_core_out *out, const void *bytes, size_t size, bool last)
{
	ZSTD_inBuffer in = {bytes, size, 0};
	for (;;) {
		ZSTD_outBuffer buffer = {out->buffer, out->buffer_size, 0};
		size_t left = ZSTD_compressStream2(
		        out->compressor, &buffer, &in, last ? ZSTD_e_end : ZSTD_e_continue);
		if (ZSTD_isError(left))
			return gm_error_create(GM_INTERNAL, "%s: the core cannot be compressed: %s",
			        out->path, ZSTD_getErrorName(left));
		gm_try(put(out, out->buffer, buffer.pos));
		if (last ? left == 0 : in.pos == in.size)
			return NULL;
	}
}

struct gm_error *gm_core_out_write(struct gm_core_out *out, const void *bytes, size_t size)
{
	if (out->compressor)
		gm_try(compress(out, bytes, size, false));
	else
		gm_try(put(out, bytes, size));
	out->length += size;
	return NULL;
}

struct gm_error *gm_core_out_zeros(struct gm_core_out *out, uint64_t size)
{
	static const uint8_t zeros[64 << 10];
	if (!out->compressor) {
		if (size > 0 && lseek(out->file.fd, (off_t)size, SEEK_CUR) < 0)
			return error_write(out, errno);
		out->length += size;
		return NULL;
	}
	for (uint64_t done = 0; done < size;) {
		size_t part = size - done < sizeof(zeros) ? (size_t)(size - done) : sizeof(zeros);
		gm_try(gm_core_out_write(out, zeros, part));
		done += part;
	}
	return NULL;
}

struct gm_error *gm_core_out_finish(struct gm_core_out *out, uint64_t *ret_disk)
{
	struct gm_error *error = NULL;
	struct stat status = {0};
	if (out->compressor)
		error = compress(out, "", 0, true);
	else if (ftruncate(out->file.fd, (off_t)out->length) != 0)
		error = error_write(out, errno);
	if (!error && fstat(out->file.fd, &status) == 0)
		*ret_disk = out->compressor ? (uint64_t)status.st_size
		                            : (uint64_t)status.st_blocks * 512;
	if (!error) {
		_cleanup_error_ struct gm_error *unnamed = gm_whole_file_finish(&out->file);
		error = unnamed ? error_write(out, unnamed->os_error) : NULL;
	}
	gm_core_out_close(out);
	return error;
}

void gm_core_out_close(struct gm_core_out *out)
{
	gm_whole_file_close(&out->file);
	ZSTD_freeCCtx(out->compressor);
	free(out->buffer);
	*out = (struct gm_core_out){.file = {.fd = -1, .folder = -1}};
}
