#include "ranks/keep.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ask/recording/place.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/whole_file.h"
#include "ranks/analysis.h"
#include "ranks/files.h"

enum { SIZE_MOST = 64 << 20, HASH_BYTES = 8 };

static char *name_of(const char *path)
{
	char *name;
	return asprintf(&name, "%s" GM_KEPT_SUFFIX, path) < 0 ? NULL : name;
}

static void code_kept(
        struct gm_codec *codec, struct gm_string_numbers *numbers, struct gm_rank_summary *summary)
{
	char *format = codec->writing ? (char *)gm_ranks_analysis() : NULL;
	gm_code_text(codec, &format);
	if (!codec->writing) {
		if (!format || strcmp(format, gm_ranks_analysis()) != 0)
			codec->bad = true;
		free(format);
	}
	if (codec->bad)
		return;
	gm_code_strings(codec, numbers);
	gm_code_summary(codec, summary);
}

/* --- reading ---------------------------------------------------------------------------------- */

bool gm_kept_decode(const uint8_t *bytes, size_t length, struct gm_strings *strings,
        struct gm_string_numbers *numbers, struct gm_rank_summary *ret_summary)
{
	struct gm_rank_summary summary = {0};
	struct gm_codec codec;
	uint64_t hash;
	if (length < HASH_BYTES)
		return false;
	length -= HASH_BYTES;
	memcpy(&hash, bytes + length, HASH_BYTES);
	if (hash != gm_hash_bytes(bytes, length, 0))
		return false;
	gm_codec_read(&codec, bytes, length, strings);
	code_kept(&codec, numbers, &summary);
	bool whole = !codec.bad && codec.in.at == codec.in.end;
	gm_codec_deinit(&codec);
	if (whole)
		*ret_summary = summary;
	return whole;
}

/* Who could have changed the recording could have changed its summary; nobody else's counts. */
static bool is_trusted(const struct stat *kept, const struct stat *recording)
{
	return kept->st_uid == geteuid() || kept->st_uid == 0 || kept->st_uid == recording->st_uid;
}

static uint8_t *read_file(const char *name, const struct stat *recording, size_t *ret_size)
{
	struct stat status;
	_cleanup_close_ int fd = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
	        status.st_size > SIZE_MOST || !is_trusted(&status, recording))
		return NULL;
	size_t size = (size_t)status.st_size, count = 0;
	_cleanup_free_ uint8_t *bytes = malloc(size + 1);
	while (bytes && count < size) {
		ssize_t got = read(fd, bytes + count, size - count);
		if (got <= 0)
			return NULL;
		count += (size_t)got;
	}
	*ret_size = size;
	return gm_take(bytes);
}

static uint64_t time_of(const struct stat *file)
{
	return (uint64_t)file->st_mtim.tv_sec * UINT64_C(1000000000) +
	       (uint64_t)file->st_mtim.tv_nsec;
}

static unsigned sections_of(const struct gm_rank_summary *summary)
{
	unsigned sections = 0;
	for (unsigned i = 0; i < GM_SECTIONS; i++)
		if (summary->sections[i].there || summary->sections[i].why)
			sections |= 1U << i;
	return sections;
}

/* By its name too: files that are written one after the other may have one time and one size. */
static bool is_of(const struct gm_rank_summary *summary, const struct gm_strings *strings,
        const char *path, const struct stat *recording)
{
	const char *kept = gm_place_base_name(gm_strings_at(strings, summary->path));
	return strcmp(kept, gm_place_base_name(path)) == 0 && summary->state == GM_RANK_READ &&
	       summary->closed && summary->size == (uint64_t)recording->st_size &&
	       summary->modified_ns == time_of(recording) &&
	       summary->sections[GM_SECTION_PEAK].there;
}

bool gm_kept_read(const char *path, const char *host, unsigned sections, struct gm_strings *strings,
        struct gm_rank_summary *ret_summary, unsigned *ret_others)
{
	struct stat recording;
	size_t size;
	struct gm_strings own = {0};
	struct gm_string_numbers numbers = {0};
	struct gm_rank_summary summary;
	_cleanup_free_ char *name = name_of(path);
	*ret_others = 0;
	if (!name || stat(path, &recording) != 0)
		return false;
	_cleanup_free_ uint8_t *bytes = read_file(name, &recording, &size);
	bool counts = bytes && gm_kept_decode(bytes, size, &own, &numbers, &summary) &&
	              is_of(&summary, &own, path, &recording);
	if (counts) {
		*ret_others = sections_of(&summary);
		counts = (sections & ~*ret_others) == 0;
	}
	if (counts) {
		/* It may have come here with its recording, from another folder or machine. */
		summary.path = gm_strings_add(&own, path);
		summary.host = gm_strings_add(&own, host);
		summary.strings = NULL;
		counts = summary.path && summary.host &&
		         gm_summary_move(&summary, &own, strings, ret_summary);
	}
	if (counts)
		ret_summary->kept = true;
	gm_array_deinit(&numbers.of);
	gm_strings_deinit(&own);
	return counts;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Who may not read the recording may not read its summary either. */
enum { MODE = 0666 };

void gm_kept_write(const char *path, struct gm_strings *strings, struct gm_rank_summary *summary)
{
	struct gm_whole_file file;
	struct gm_codec codec;
	struct stat recording, there;
	_cleanup_free_ char *name = name_of(path);
	if (!name || stat(path, &recording) != 0 || !is_of(summary, strings, path, &recording))
		return;
	/* Not through a link, which is not read either. */
	if (lstat(name, &there) == 0 && !S_ISREG(there.st_mode))
		return;
	gm_codec_write(&codec, strings);
	code_kept(&codec, NULL, summary);
	uint64_t hash = gm_hash_bytes(codec.out.items, codec.out.count, 0);
	_cleanup_error_ struct gm_error *error =
	        codec.bad ? &gm_error_no_memory
	                  : gm_whole_file_open(
	                            name, recording.st_mode & MODE, GM_WHOLE_FILE_OF_MANY, &file);
	if (!error) {
		if (gm_write_all(file.fd, codec.out.items, codec.out.count) &&
		        gm_write_all(file.fd, &hash, HASH_BYTES))
			error = gm_whole_file_finish(&file);
		else
			gm_whole_file_close(&file);
	}
	gm_codec_deinit(&codec);
}
