#include "image/core_unpack.h"

#include <elf.h>
#include <errno.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "image/nameless.h"
#include "image/page_cache.h"

enum {
	IN_SIZE = 256 << 10,
	OUT_SIZE = 1 << 20,
	SPACE_STEP = 64 << 20, /* written bytes between checks of the disk */
	SPACE_LEFT = 64 << 20, /* bytes that are left to others */
};
/* xz -9 asks for 65 MiB; a header may ask for 4 GiB. */
static const uint64_t XZ_MEMORY_MAX = UINT64_C(256) << 20;
static const uint64_t LENGTH_MAX = UINT64_C(1) << 40;

/* --- destination ------------------------------------------------------------------------------ */

struct unpacked {
	const char *path; /* of the core */
	const struct gm_progress *progress;
	int fd;
	char *folder;     /* its path, for messages; owned */
	uint64_t length;  /* so far */
	uint64_t written; /* bytes of it that are not holes */
	uint64_t looked;  /* `written` when the disk was last checked */
};

static uint64_t space_of(int fd)
{
	struct statvfs disk;
	return fstatvfs(fd, &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize : 0;
}

/* The first folder with space for `expected` bytes (0: not known); otherwise the one with most. */
static struct gm_error *open_unpacked(struct unpacked *unpacked, uint64_t expected)
{
	const char *slash = strrchr(unpacked->path, '/');
	_cleanup_free_ char *own =
	        slash ? strndup(unpacked->path, (size_t)(slash - unpacked->path) + 1) : strdup(".");
	const char *folders[] = {getenv("TMPDIR"), "/var/tmp", own, "/tmp"};
	uint64_t most = 0;
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		int fd = folders[i] && *folders[i] ? gm_nameless_file_in(folders[i]) : -1;
		uint64_t space = fd >= 0 ? space_of(fd) : 0;
		char *name = space > most ? strdup(folders[i]) : NULL;
		if (!name) {
			if (fd >= 0)
				close(fd);
			continue;
		}
		if (unpacked->fd >= 0)
			close(unpacked->fd);
		free(unpacked->folder);
		unpacked->fd = fd;
		unpacked->folder = name;
		most = space;
		if ((expected > 0 && space > expected + SPACE_LEFT) || i == 0)
			break; /* the user's own choice, or enough space */
	}
	if (unpacked->fd < 0)
		return gm_error_create(GM_TARGET,
		        "%s: the core is compressed, and there is no writable folder to decompress "
		        "it in: name one in TMPDIR",
		        unpacked->path);
	return NULL;
}

static struct gm_error *error_space(const struct unpacked *unpacked)
{
	char done[GM_SIZE_TEXT];
	return gm_error_create(GM_TARGET,
	        "%s: the core is compressed, and %s is full after %s of it: name a folder on a "
	        "larger disk "
	        "in TMPDIR, or decompress it there",
	        unpacked->path, unpacked->folder, gm_text_size(unpacked->written, done));
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0;
}

static struct gm_error *put_run(struct unpacked *unpacked, const uint8_t *bytes, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t wrote = pwrite(
		        unpacked->fd, bytes + done, size - done, (off_t)(unpacked->length + done));
		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote < 0 && errno != ENOSPC && errno != EDQUOT && errno != EFBIG)
			return gm_error_os(GM_TARGET, errno,
			        "%s: the core is compressed and cannot be decompressed into %s",
			        unpacked->path, unpacked->folder);
		if (wrote <= 0)
			return error_space(unpacked);
		done += (size_t)wrote;
	}
	unpacked->written += size;
	if (unpacked->written - unpacked->looked < SPACE_STEP)
		return NULL;
	unpacked->looked = unpacked->written;
	return space_of(unpacked->fd) < SPACE_LEFT ? error_space(unpacked) : NULL;
}

/* Is it a core, as far as this part has its first bytes? Other files are not decompressed to their
 * end. */
static bool may_be_core(const struct unpacked *unpacked, const uint8_t *bytes, size_t size)
{
	size_t have = unpacked->length < SELFMAG ? (size_t)unpacked->length : SELFMAG;
	size_t more = size < SELFMAG - have ? size : SELFMAG - have;
	return memcmp(bytes, &ELFMAG[have], more) == 0;
}

/* Pages that are zero stay holes. */
static struct gm_error *put(struct unpacked *unpacked, const uint8_t *bytes, size_t size)
{
	if (!may_be_core(unpacked, bytes, size))
		return gm_error_at_offset(gm_error_create(GM_CORRUPT,
		                                  "%s: offset 0x0: the compressed data is not a "
		                                  "core: it does not begin like an ELF file",
		                                  unpacked->path),
		        unpacked->path, 0);
	while (size > 0) {
		size_t run = 0, part = 0;
		while (run < size) {
			part = size - run < GM_PAGE_SIZE ? size - run : GM_PAGE_SIZE;
			if (is_zero(bytes + run, part))
				break;
			run += part;
		}
		if (run > 0)
			gm_try(put_run(unpacked, bytes, run));
		else
			run = part;
		unpacked->length += run;
		bytes += run;
		size -= run;
	}
	if (unpacked->length > LENGTH_MAX)
		return gm_error_create(GM_TARGET,
		        "%s: longer than 1 TiB when decompressed: decompress it by hand if that is "
		        "right",
		        unpacked->path);
	if (unpacked->progress && unpacked->progress->show)
		unpacked->progress->show(unpacked->progress->context, GM_PROGRESS_UNPACKING_CORE,
		        unpacked->length, 0);
	return NULL;
}

/* --- formats ---------------------------------------------------------------------------------- */

struct source {
	int fd;
	uint64_t offset; /* of the bytes read */
	uint8_t *in, *out;
};

static struct gm_error *error_corrupt(
        const struct unpacked *unpacked, uint64_t offset, const char *why)
{
	return gm_error_at_offset(gm_error_create(GM_CORRUPT,
	                                  "%s: offset 0x%jx: the compressed core cannot be "
	                                  "decompressed: %s: copy it again from its source",
	                                  unpacked->path, (uintmax_t)offset, why),
	        unpacked->path, offset);
}

static struct gm_error *error_cut(const struct unpacked *unpacked, uint64_t offset)
{
	return gm_error_at_offset(gm_error_create(GM_CORRUPT,
	                                  "%s: offset 0x%jx: the compressed core is truncated: "
	                                  "write it again, with space on the disk",
	                                  unpacked->path, (uintmax_t)offset),
	        unpacked->path, offset);
}

/* The next bytes of the file; 0: its end. */
static size_t next_bytes(struct source *source)
{
	ssize_t got;
	do
		got = pread(source->fd, source->in, IN_SIZE, (off_t)source->offset);
	while (got < 0 && errno == EINTR);
	if (got > 0)
		source->offset += (uint64_t)got;
	return got > 0 ? (size_t)got : 0;
}

/* Frames one after another (RFC 8878); the window may be up to 128 MiB, the library's own limit. */
static struct gm_error *unpack_zstd(struct unpacked *unpacked, struct source *source, void *state)
{
	size_t left = 0;
	ZSTD_inBuffer in = {source->in, 0, 0};
	for (;;) {
		if (in.pos == in.size) {
			in = (ZSTD_inBuffer){source->in, next_bytes(source), 0};
			if (in.size == 0)
				return left == 0 ? NULL : error_cut(unpacked, source->offset);
		}
		ZSTD_outBuffer out = {source->out, OUT_SIZE, 0};
		left = ZSTD_decompressStream(state, &out, &in);
		if (ZSTD_isError(left))
			return error_corrupt(unpacked, source->offset - in.size + in.pos,
			        ZSTD_getErrorName(left));
		gm_try(put(unpacked, source->out, out.pos));
	}
}

/* Members one after another (RFC 1952). */
static struct gm_error *unpack_gzip(
        struct unpacked *unpacked, struct source *source, z_stream *state)
{
	bool within = true;
	for (;;) {
		if (state->avail_in == 0) {
			state->next_in = source->in;
			state->avail_in = (uInt)next_bytes(source);
			if (state->avail_in == 0)
				return within ? error_cut(unpacked, source->offset) : NULL;
		}
		if (!within && state->next_in[0] != 0x1f)
			return NULL; /* padding after the last member */
		within = true;
		state->next_out = source->out;
		state->avail_out = OUT_SIZE;
		int result = inflate(state, Z_NO_FLUSH);
		if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
			return error_corrupt(unpacked, source->offset - state->avail_in,
			        state->msg ? state->msg : "it is damaged");
		gm_try(put(unpacked, source->out, OUT_SIZE - state->avail_out));
		if (result == Z_STREAM_END) {
			inflateReset(state);
			within = false;
		}
	}
}

static struct gm_error *error_xz(
        const struct unpacked *unpacked, uint64_t offset, lzma_ret result, const lzma_stream *state)
{
	char needed[GM_SIZE_TEXT], most[GM_SIZE_TEXT];
	switch (result) {
	case LZMA_MEM_ERROR:
		return &gm_error_no_memory;
	case LZMA_MEMLIMIT_ERROR:
		return gm_error_create(GM_TARGET,
		        "%s: decompressing the core takes %s of memory, and gpumem uses %s at "
		        "most: "
		        "decompress it (unxz)",
		        unpacked->path, gm_text_size(lzma_memusage(state), needed),
		        gm_text_size(XZ_MEMORY_MAX, most));
	case LZMA_BUF_ERROR:
		return error_cut(unpacked, offset);
	case LZMA_OPTIONS_ERROR:
		return error_corrupt(unpacked, offset, "it needs a newer liblzma, or is damaged");
	default:
		return error_corrupt(unpacked, offset, "it is damaged");
	}
}

/* Streams one after another, and padding of zeros (the .xz file format, 1.2.1). */
static struct gm_error *unpack_xz(
        struct unpacked *unpacked, struct source *source, lzma_stream *state)
{
	lzma_action action = LZMA_RUN;
	for (;;) {
		if (state->avail_in == 0 && action == LZMA_RUN) {
			state->next_in = source->in;
			state->avail_in = next_bytes(source);
			if (state->avail_in == 0)
				action = LZMA_FINISH;
		}
		state->next_out = source->out;
		state->avail_out = OUT_SIZE;
		lzma_ret result = lzma_code(state, action);
		if (state->avail_out < OUT_SIZE)
			gm_try(put(unpacked, source->out, OUT_SIZE - state->avail_out));
		if (result == LZMA_STREAM_END)
			return NULL;
		if (result != LZMA_OK)
			return error_xz(unpacked, source->offset - state->avail_in, result, state);
	}
}

enum format { PLAIN, ZSTD, GZIP, XZ };

static enum format format_of(const uint8_t *head, size_t size)
{
	static const struct {
		enum format format;
		const char *magic;
		size_t size;
	} formats[] = {
	        {ZSTD, "\x28\xb5\x2f\xfd", 4},
	        {GZIP, "\x1f\x8b", 2},
	        {XZ, "\xfd\x37zXZ\0", 6},
	};
	/* a skippable frame (RFC 8878, 3.1.2), with which pzstd begins */
	if (size >= 4 && (head[0] & 0xf0) == 0x50 && memcmp(head + 1, "\x2a\x4d\x18", 3) == 0)
		return ZSTD;
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		if (size >= formats[i].size && memcmp(head, formats[i].magic, formats[i].size) == 0)
			return formats[i].format;
	return PLAIN;
}

static struct gm_error *unpack(struct unpacked *unpacked, int fd, enum format format)
{
	_cleanup_free_ uint8_t *in = malloc(IN_SIZE), *out = malloc(OUT_SIZE);
	struct source source = {.fd = fd, .in = in, .out = out};
	if (!in || !out)
		return &gm_error_no_memory;
	struct gm_error *error;
	if (format == GZIP) {
		z_stream state = {0};
		if (inflateInit2(&state, 15 + 16) != Z_OK) /* 16: with a gzip header */
			return &gm_error_no_memory;
		error = unpack_gzip(unpacked, &source, &state);
		inflateEnd(&state);
	} else if (format == XZ) {
		lzma_stream state = LZMA_STREAM_INIT;
		if (lzma_stream_decoder(&state, XZ_MEMORY_MAX, LZMA_CONCATENATED) != LZMA_OK)
			return &gm_error_no_memory;
		error = unpack_xz(unpacked, &source, &state);
		lzma_end(&state);
	} else {
		ZSTD_DCtx *state = ZSTD_createDCtx();
		if (!state)
			return &gm_error_no_memory;
		error = unpack_zstd(unpacked, &source, state);
		ZSTD_freeDCtx(state);
	}
	if (!error && ftruncate(unpacked->fd, (off_t)unpacked->length) != 0)
		error = error_space(unpacked);
	return error;
}

static const struct {
	const char *magic;
	size_t size;
	const char *command;
} refused[] = {
        {"\x04\x22\x4d\x18", 4, "lz4 -d"},
        {"BZh", 3, "bunzip2"},
};

struct gm_error *gm_core_unpack(int *fd, const char *path, const struct gm_progress *progress)
{
	uint8_t head[32] = {0};
	ssize_t got = pread(*fd, head, sizeof(head), 0);
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		if (got > 0 && memcmp(head, refused[i].magic, refused[i].size) == 0)
			return gm_error_at_offset(
			        gm_error_create(GM_CORRUPT,
			                "%s: offset 0x0: gpumem does not read this compression "
			                "format: decompress the core (%s)",
			                path, refused[i].command),
			        path, 0);
	}
	enum format format = format_of(head, got > 0 ? (size_t)got : 0);
	if (format == PLAIN)
		return NULL;
	struct unpacked unpacked = {.path = path, .progress = progress, .fd = -1};
	unsigned long long size = format == ZSTD ? ZSTD_getFrameContentSize(head, (size_t)got) : 0;
	bool known = size != ZSTD_CONTENTSIZE_UNKNOWN && size != ZSTD_CONTENTSIZE_ERROR;
	struct gm_error *error = open_unpacked(&unpacked, known ? size : 0);
	if (!error)
		error = unpack(&unpacked, *fd, format);
	if (progress && progress->show)
		progress->show(progress->context, GM_PROGRESS_DONE, 0, 0);
	free(unpacked.folder);
	if (error) {
		if (unpacked.fd >= 0)
			close(unpacked.fd);
		return error;
	}
	close(*fd);
	*fd = unpacked.fd;
	return NULL;
}
