/*
 * A process that only a debugger can read: here the debugger is a reader of a child, which counts
 * what it is asked for and refuses one page.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "base/cleanup.h"
#include "child.h"
#include "image/remote.h"
#include "symbols/symbols.h"

enum { PAGE = 4096, SIZE = 4 << 20 };

static struct child child;
static char *maps;
static uint64_t fetched, refused_page;

static void prepare(uint64_t *words)
{
	uint64_t *memory =
	        mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (uint64_t i = 0; i < SIZE / 16; i++)
		memory[i] = i + 1;
	words[0] = (uintptr_t)memory;
}

static int begin(void **state)
{
	child = child_start(prepare);
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/maps", child.pid);
	FILE *stream = fopen(path, "r");
	maps = calloc(1, 1 << 20);
	if (!stream || !maps || fread(maps, 1, (1 << 20) - 1, stream) == 0)
		return 1;
	fclose(stream);
	return 0;
}

static int end(void **state)
{
	child_end(&child);
	free(maps);
	return 0;
}

static size_t read_child(void *context, uint64_t address, void *buffer, size_t size)
{
	if (refused_page && address < refused_page + PAGE && address + size > refused_page)
		return 0; /* as gdb does: all or nothing */
	struct iovec local = {buffer, size}, remote = {(void *)(uintptr_t)address, size};
	ssize_t got = process_vm_readv(child.pid, &local, 1, &remote, 1, 0);
	fetched += got > 0 ? (uint64_t)got : 0;
	return got == (ssize_t)size ? size : 0;
}

static bool read_registers(void *context, pid_t thread, uint64_t *words)
{
	words[GM_RIP] = 42;
	return thread == child.pid;
}

static const char *copy_of_files; /* the debugger's, whatever is asked for; NULL: none */

static bool copy_file(void *context, const char *path, char *ret_path, size_t size)
{
	if (copy_of_files)
		snprintf(ret_path, size, "%s", copy_of_files);
	return copy_of_files;
}

static struct gm_image *open_it(const struct gm_progress *progress)
{
	const struct gm_remote remote = {.read = read_child,
	        .registers = read_registers,
	        .file = copy_file,
	        .maps = maps,
	        .threads = &child.pid,
	        .thread_count = 1,
	        .main_thread = child.pid};
	struct gm_image *image = NULL;
	struct gm_error *error = gm_image_open_remote(&remote, progress, &image);
	if (error)
		fail_msg("%s", error->message);
	fetched = refused_page = 0;
	copy_of_files = NULL;
	return image;
}

static void each_byte_is_fetched_once(void **state)
{
	struct gm_image *image = open_it(NULL);
	_cleanup_free_ uint64_t *words = malloc(SIZE);
	for (int round = 0; round < 3; round++) {
		assert_null(gm_image_read(image, child.words[0], words, SIZE));
		for (uint64_t i = 0; i < SIZE / 8; i++)
			assert_int_equal(words[i], i < SIZE / 16 ? i + 1 : 0);
	}
	assert_int_equal(fetched, SIZE);
	uint64_t word;
	assert_true(gm_image_try_u64(image, child.words[0] + 800, &word));
	assert_int_equal(word, 101);
	assert_int_equal(fetched, SIZE);
	gm_image_close(image);
}

static void a_page_that_cannot_be_read_costs_only_itself(void **state)
{
	struct gm_image *image = open_it(NULL);
	_cleanup_free_ uint8_t *bytes = malloc(SIZE);
	refused_page = child.words[0] + 100 * PAGE;
	assert_int_equal(gm_image_read_some(image, child.words[0], bytes, SIZE), 100 * PAGE);
	assert_null(gm_image_read(image, refused_page + PAGE, bytes, SIZE - 101 * PAGE));
	struct gm_error *error = gm_image_read(image, refused_page, bytes, 8);
	assert_non_null(error);
	assert_int_equal(error->status, GM_TARGET);
	assert_non_null(strstr(error->message, "the debugger cannot read it"));
	gm_error_destroy(error);
	gm_image_close(image);
}

static void what_is_not_mapped_is_not_asked_for(void **state)
{
	struct gm_image *image = open_it(NULL);
	char byte;
	struct gm_error *error = gm_image_read(image, 0x10, &byte, 1);
	assert_non_null(error);
	assert_non_null(strstr(error->message, "address 0x10: not mapped"));
	gm_error_destroy(error);
	assert_int_equal(fetched, 0);
	gm_image_close(image);
}

static void threads_and_registers_are_the_debuggers(void **state)
{
	struct gm_image *image = open_it(NULL);
	struct gm_registers registers;
	assert_null(gm_image_registers(image, child.pid, &registers));
	assert_int_equal(registers.value[GM_RIP], 42);
	struct gm_error *error = gm_image_registers(image, 1, &registers);
	assert_non_null(error);
	gm_error_destroy(error);
	assert_int_equal(gm_image_main_thread(image), child.pid);
	assert_int_equal(gm_image_pid(image), 0);
	assert_false(gm_image_reads_anywhere(image));
	gm_image_close(image);
}

static void a_library_is_taken_from_here_only_if_it_is_the_same_build(void **state)
{
	struct gm_image *image = open_it(NULL);
	char own[4096];
	ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
	assert_true(length > 0);
	own[length] = '\0';
	_cleanup_free_ char *here = NULL, *other = NULL;
	assert_null(gm_image_file_path(image, own, &here));
	assert_string_equal(here, own);
	gm_image_close(image);

	/* The same mappings, said to be of a file that is another one here. */
	char *kept = maps, *at;
	maps = strdup(kept);
	size_t size = strlen("/proc/version");
	while ((at = strstr(maps, own)) && (size_t)length >= size) {
		memset(at, '/', (size_t)length - size);
		memcpy(at + length - size, "/proc/version", size);
	}
	char name[4096] = "";
	memset(name, '/', (size_t)length - size);
	strcat(name, "/proc/version");
	image = open_it(NULL);
	assert_null(gm_image_file_path(image, name, &other));
	assert_string_equal(other, "/nonexistent");
	gm_image_close(image);
	image = open_it(NULL);
	copy_of_files = own; /* the debugger has fetched the right one */
	free(gm_take(other));
	assert_null(gm_image_file_path(image, name, &other));
	assert_string_equal(other, own);
	gm_image_close(image);
	free(maps);
	maps = kept;
}

static void names_are_found_through_it(void **state)
{
	struct gm_image *image = open_it(NULL);
	struct gm_symbols *symbols = NULL;
	assert_null(gm_symbols_create(image, &symbols));
	assert_non_null(gm_symbols_find_module(symbols, "libc.so"));
	gm_symbols_destroy(symbols);
	gm_image_close(image);
}

static uint64_t told_done, told_all;

static void tell(void *context, enum gm_progress_kind kind, uint64_t done, uint64_t all)
{
	told_done = done;
	told_all = all;
}

static void progress_is_reported(void **state)
{
	const struct gm_progress progress = {tell, NULL};
	struct gm_image *image = open_it(&progress);
	_cleanup_free_ uint8_t *bytes = malloc(SIZE);
	size_t count;
	const struct gm_mapping *mappings = gm_image_mappings(image, &count);
	for (size_t i = 0; i < count;
	        i++) { /* everything, so that it is more than the steps between */
		/* but not a sanitizer's terabytes */
		for (uint64_t at = mappings[i].start;
		        at < mappings[i].end && mappings[i].end - mappings[i].start < 64 << 20;
		        at += SIZE)
			gm_image_read_some(image, at, bytes, SIZE);
	}
	assert_true(told_done > 0 && (told_all == 0 || told_done <= told_all));
	gm_image_close(image);
}

static void without_mappings_it_is_refused(void **state)
{
	const struct gm_remote remote = {.read = read_child,
	        .registers = read_registers,
	        .file = copy_file,
	        .maps = "nonsense\n"};
	struct gm_image *image = NULL;
	struct gm_error *error = gm_image_open_remote(&remote, NULL, &image);
	assert_non_null(error);
	assert_int_equal(error->status, GM_TARGET);
	assert_non_null(strstr(error->message, "does not know its mappings"));
	gm_error_destroy(error);
	assert_null(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(each_byte_is_fetched_once),
	        cmocka_unit_test(a_page_that_cannot_be_read_costs_only_itself),
	        cmocka_unit_test(what_is_not_mapped_is_not_asked_for),
	        cmocka_unit_test(threads_and_registers_are_the_debuggers),
	        cmocka_unit_test(a_library_is_taken_from_here_only_if_it_is_the_same_build),
	        cmocka_unit_test(names_are_found_through_it),
	        cmocka_unit_test(progress_is_reported),
	        cmocka_unit_test(without_mappings_it_is_refused),
	};
	return cmocka_run_group_tests(tests, begin, end);
}
