/*
 * Compressed cores: the same bytes through each format are read the same, and what is damaged or
 * too large is refused with its reason.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <elf.h>
#include <lzma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <zlib.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "image/image.h"

enum { SIZE = 8 << 20, START = 4096, ADDRESS = 0x10000000 };

/* What the disk has left, in bytes, from the second look at it on; 0: as it is. This stands in
 * place of the C library's. */
static uint64_t left;
static unsigned looks;

int fstatvfs(int fd, struct statvfs *ret_disk)
{
	if (!left) {
		char path[64];
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		return statvfs(path, ret_disk);
	}
	uint64_t bytes = looks++ ? left : UINT64_C(1) << 40;
	*ret_disk = (struct statvfs){.f_frsize = 1, .f_bavail = bytes};
	return 0;
}

static char folder[64];
static uint8_t *core; /* SIZE bytes: one segment, its second half zero but for the last page */

static int make_core(void **state)
{
	snprintf(folder, sizeof(folder), "/tmp/gpumem-unpack-XXXXXX");
	core = calloc(1, SIZE);
	if (!mkdtemp(folder) || !core)
		return 1;
	Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
	        .e_type = ET_CORE,
	        .e_machine = EM_X86_64,
	        .e_phoff = sizeof(header),
	        .e_phentsize = sizeof(Elf64_Phdr),
	        .e_phnum = 1};
	Elf64_Phdr segment = {.p_type = PT_LOAD,
	        .p_flags = PF_R | PF_W,
	        .p_offset = START,
	        .p_vaddr = ADDRESS,
	        .p_memsz = SIZE - START,
	        .p_filesz = SIZE - START};
	memcpy(core, &header, sizeof(header));
	memcpy(core + sizeof(header), &segment, sizeof(segment));
	uint64_t random = 1;
	for (size_t i = START; i < SIZE / 2; i++) {
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
		core[i] = (uint8_t)(random >> 60);
	}
	core[SIZE - 1] = 9;
	return 0;
}

static int remove_core(void **state)
{
	free(core);
	char command[128];
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return system(command);
}

static const char *write_file(const void *bytes, size_t size)
{
	static char path[128];
	snprintf(path, sizeof(path), "%s/core", folder);
	FILE *stream = fopen(path, "wb");
	assert_non_null(stream);
	assert_int_equal(fwrite(bytes, 1, size, stream), size);
	fclose(stream);
	return path;
}

static size_t zstd_of(const void *bytes, size_t size, void *room)
{
	size_t made = ZSTD_compress(room, SIZE, bytes, size, 1);
	assert_false(ZSTD_isError(made));
	return made;
}

static size_t gzip_of(const void *bytes, size_t size, void *room)
{
	z_stream stream = {0};
	assert_int_equal(
	        deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	stream.next_in = (void *)(uintptr_t)bytes;
	stream.avail_in = (uInt)size;
	stream.next_out = room;
	stream.avail_out = SIZE;
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	size_t made = stream.total_out;
	deflateEnd(&stream);
	return made;
}

static size_t xz_of(const void *bytes, size_t size, void *room)
{
	size_t made = 0;
	assert_int_equal(
	        lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, NULL, bytes, size, room, &made, SIZE),
	        LZMA_OK);
	return made;
}

/* The formats that are read. */
static size_t (*const packers[])(const void *bytes, size_t size, void *room) = {
        zstd_of, gzip_of, xz_of};
enum { PACKERS = sizeof(packers) / sizeof(*packers) };

static void assert_reads_the_same(const char *path)
{
	struct gm_image *image = NULL;
	struct gm_error *error = gm_image_open_core(path, &image);
	if (error)
		fail_msg("%s", error->message);
	assert_null(gm_image_check_whole(image));
	_cleanup_free_ uint8_t *bytes = malloc(SIZE);
	assert_null(gm_image_read(image, ADDRESS, bytes, SIZE - START));
	assert_memory_equal(bytes, core + START, SIZE - START);
	gm_image_close(image);
}

static void assert_refused(const char *path, enum gm_status status, const char *part)
{
	struct gm_image *image = NULL;
	struct gm_error *error = gm_image_open_core(path, &image);
	assert_non_null(error);
	assert_int_equal(error->status, status);
	if (!strstr(error->message, part) || !strstr(error->message, path))
		fail_msg("'%s' does not say '%s'", error->message, part);
	gm_error_destroy(error);
	assert_null(image);
}

static void a_zst_core_reads_as_the_plain_one(void **state)
{
	_cleanup_free_ uint8_t *room = malloc(SIZE);
	assert_reads_the_same(write_file(core, SIZE));
	assert_reads_the_same(write_file(room, zstd_of(core, SIZE, room)));
	/* pzstd writes a skippable frame first */
	static const uint8_t skippable[] = {0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4};
	memcpy(room, skippable, sizeof(skippable));
	size_t size = zstd_of(core, SIZE, room + sizeof(skippable));
	assert_reads_the_same(write_file(room, sizeof(skippable) + size));
}

static void a_gz_core_reads_as_the_plain_one(void **state)
{
	_cleanup_free_ uint8_t *room = malloc(SIZE);
	assert_reads_the_same(write_file(room, gzip_of(core, SIZE, room)));
}

static void an_xz_core_reads_as_the_plain_one(void **state)
{
	_cleanup_free_ uint8_t *room = malloc(SIZE);
	assert_reads_the_same(write_file(room, xz_of(core, SIZE, room)));
}

static void frames_one_after_another_are_one_core(void **state)
{
	_cleanup_free_ uint8_t *room = malloc(2 * SIZE);
	size_t first = zstd_of(core, 1000003, room);
	size_t all = first + zstd_of(core + 1000003, SIZE - 1000003, room + first);
	assert_reads_the_same(write_file(room, all));
	first = gzip_of(core, 1000003, room);
	all = first + gzip_of(core + 1000003, SIZE - 1000003, room + first);
	memset(room + all, 0, 512); /* padding, as tapes have it */
	assert_reads_the_same(write_file(room, all + 512));
	first = xz_of(core, 1000003, room);
	all = first + xz_of(core + 1000003, SIZE - 1000003, room + first);
	memset(room + all, 0, 512);
	assert_reads_the_same(write_file(room, all + 512));
}

/* Its header asks for more memory than a decompressor of ours may take. */
static void an_xz_core_that_needs_too_much_memory_is_refused(void **state)
{
	_cleanup_free_ uint8_t *room = malloc(SIZE);
	lzma_options_lzma options;
	assert_false(lzma_lzma_preset(&options, 0));
	options.dict_size = 512 << 20;
	/* the encoder takes memory for the dictionary as well: its header alone is made */
	lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, NULL}};
	lzma_block block = {.check = LZMA_CHECK_CRC64,
	        .compressed_size = LZMA_VLI_UNKNOWN,
	        .uncompressed_size = LZMA_VLI_UNKNOWN,
	        .filters = filters};
	const lzma_stream_flags flags = {.check = LZMA_CHECK_CRC64};
	assert_int_equal(lzma_stream_header_encode(&flags, room), LZMA_OK);
	assert_int_equal(lzma_block_header_size(&block), LZMA_OK);
	assert_int_equal(lzma_block_header_encode(&block, room + LZMA_STREAM_HEADER_SIZE), LZMA_OK);
	size_t size = LZMA_STREAM_HEADER_SIZE + block.header_size;
	memset(room + size, 0, 64);
	assert_refused(write_file(room, size + 64), GM_TARGET, "takes 512.");
}

/* Whatever follows the first bytes, it is refused. */
static void random_bytes_behind_the_magic_are_refused(void **state)
{
	enum { HEAD = 6, DAMAGED = 4096 };
	_cleanup_free_ uint8_t *whole = malloc(SIZE), *room = malloc(SIZE);
	size_t size = xz_of(core, 1 << 16, whole);
	uint64_t random = 7;
	for (int i = 0; i < 300; i++) {
		bool all = i % 2 == 0; /* or a few bytes of a true one */
		memcpy(room, whole, size);
		for (size_t at = HEAD; at < DAMAGED; at++) {
			random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
			if (all || random >> 54 == 0 || at == HEAD + (size_t)i)
				room[at] ^= (uint8_t)(random >> 40 | 1);
		}
		assert_refused(write_file(room, size), GM_CORRUPT, "offset 0x");
	}
}

static void a_compressed_core_cut_anywhere_is_refused_as_cut(void **state)
{
	_cleanup_free_ uint8_t *room = malloc(SIZE);
	for (size_t i = 0; i < PACKERS; i++) {
		size_t size = packers[i](core, 1 << 20, room);
		for (size_t cut = 6; cut < size; cut += 1 + size / 40)
			assert_refused(write_file(room, cut), GM_CORRUPT, "is truncated");
	}
}

static void damage_is_refused_with_its_place_or_gives_a_core(void **state)
{
	_cleanup_free_ uint8_t *room = malloc(SIZE), *damaged = malloc(SIZE);
	for (size_t i = 0; i < PACKERS; i++) {
		size_t size = packers[i](core, 1 << 20, room);
		int refused = 0;
		for (size_t at = 6; at < size; at += 1 + size / 30) {
			memcpy(damaged, room, size);
			damaged[at] ^= 0x55;
			struct gm_image *image = NULL;
			struct gm_error *error =
			        gm_image_open_core(write_file(damaged, size), &image);
			if (error) {
				assert_int_equal(error->status, GM_CORRUPT);
				assert_non_null(strstr(error->message, "offset 0x"));
				refused++;
			}
			gm_error_destroy(error);
			gm_image_close(image);
		}
		assert_true(refused > 0);
	}
}

/* 1 GiB of zeros in some KB, and others. */
static void data_that_does_not_begin_as_a_core_is_not_decompressed(void **state)
{
	enum { PIECES = 1024 };
	_cleanup_free_ char *room = malloc(SIZE + (1 << 20)), *zeros = calloc(1, 1 << 20);
	assert_non_null(room);
	assert_non_null(zeros);
	size_t size = 0;
	for (int i = 0; i < PIECES; i++)
		size += zstd_of(zeros, 1 << 20, room + size);
	assert_refused(write_file(room, size), GM_CORRUPT, "is not a core");
	/* the first bytes may come one by one */
	size = zstd_of(core, 1, room);
	size += zstd_of(core + 1, SIZE - 1, room + size);
	assert_reads_the_same(write_file(room, size));
	zeros[0] = 0x7f;
	size = zstd_of(zeros, 1, room);
	size += zstd_of(zeros + 1, 4, room + size);
	assert_refused(write_file(room, size), GM_CORRUPT, "is not a core");
	for (size_t i = 0; i < PACKERS; i++) {
		size = packers[i](zeros, 1 << 20, room);
		assert_refused(write_file(room, size), GM_CORRUPT, "is not a core");
	}
}

static void a_disk_that_is_too_small_is_reported(void **state)
{
	_cleanup_free_ uint8_t *room = malloc(SIZE);
	const char *path = write_file(room, zstd_of(core, SIZE, room));
	const struct rlimit small = {1 << 20, RLIM_INFINITY};
	struct rlimit before;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	setenv("TMPDIR", folder, 1);
	assert_refused(path, GM_TARGET, "is full after");
	unsetenv("TMPDIR");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

/* A core that unpacks to `size` bytes, of which few are zero. */
static const char *write_large(size_t size)
{
	_cleanup_free_ uint8_t *bytes = malloc(size);
	_cleanup_free_ uint8_t *packed = malloc(ZSTD_compressBound(size));
	assert_true(bytes && packed);
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)(i % 251);
	memcpy(bytes, core, START);
	size_t made = ZSTD_compress(packed, ZSTD_compressBound(size), bytes, size, 1);
	assert_false(ZSTD_isError(made));
	return write_file(packed, made);
}

static void the_last_64_mib_of_a_disk_are_left_to_others(void **state)
{
	const char *path = write_large((size_t)96 << 20);
	setenv("TMPDIR", folder, 1);
	looks = 0;
	left = (64 << 20) - 1;
	assert_refused(path, GM_TARGET, "is full after 64.0");
	assert_int_equal(looks, 2);
	looks = 0;
	left = 64 << 20;
	struct gm_image *image;
	assert_null(gm_image_open_core(path, &image));
	gm_image_close(image);
	assert_int_equal(looks, 2);
	left = 0;
	unsetenv("TMPDIR");
}

static uint64_t told;

static void tell(void *context, enum gm_progress_kind kind, uint64_t done, uint64_t all)
{
	if (kind != GM_PROGRESS_DONE)
		told = done;
	else
		*(bool *)context = true;
}

static void progress_is_reported_up_to_the_end(void **state)
{
	_cleanup_free_ uint8_t *room = malloc(SIZE);
	bool done = false;
	const struct gm_progress progress = {tell, &done};
	struct gm_image *image = NULL;
	assert_null(gm_image_open_core_showing(
	        write_file(room, zstd_of(core, SIZE, room)), &progress, &image));
	assert_int_equal(told, SIZE);
	assert_true(done);
	gm_image_close(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_zst_core_reads_as_the_plain_one),
	        cmocka_unit_test(a_gz_core_reads_as_the_plain_one),
	        cmocka_unit_test(an_xz_core_reads_as_the_plain_one),
	        cmocka_unit_test(an_xz_core_that_needs_too_much_memory_is_refused),
	        cmocka_unit_test(random_bytes_behind_the_magic_are_refused),
	        cmocka_unit_test(frames_one_after_another_are_one_core),
	        cmocka_unit_test(a_compressed_core_cut_anywhere_is_refused_as_cut),
	        cmocka_unit_test(damage_is_refused_with_its_place_or_gives_a_core),
	        cmocka_unit_test(data_that_does_not_begin_as_a_core_is_not_decompressed),
	        cmocka_unit_test(a_disk_that_is_too_small_is_reported),
	        cmocka_unit_test(the_last_64_mib_of_a_disk_are_left_to_others),
	        cmocka_unit_test(progress_is_reported_up_to_the_end),
	};
	return cmocka_run_group_tests(tests, make_core, remove_core);
}
