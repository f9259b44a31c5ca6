/* Which programs can load what gpumem preloads, told from their first bytes; and an environment
 * without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the four that cmocka needs */
#include <cmocka.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload/environment.h"
#include "preload/program.h"

#define OWN "/lib64/ld-linux-x86-64.so.2"

struct image {
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	char linker[64];
};

static char path[] = "/tmp/gpumem-test-preload-XXXXXX";

static int make_file(void **state)
{
	int fd = mkstemp(path);
	close(fd);
	return fd < 0;
}

static int remove_file(void **state)
{
	return unlink(path);
}

static void write_file(const void *data, size_t size)
{
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, size, file), size);
	fclose(file);
}

/* A program as this test's own processor has them, whose dynamic linker is `linker`. */
static struct image program(const char *linker)
{
	struct image image = {0};
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(self, &image.header, sizeof(image.header), 0), sizeof(image.header));
	close(self);
	image.header.e_phoff = offsetof(struct image, segment);
	image.header.e_phnum = 1;
	image.segment.p_type = linker ? PT_INTERP : PT_LOAD;
	image.segment.p_offset = offsetof(struct image, linker);
	image.segment.p_filesz = linker ? strlen(linker) + 1 : 0;
	strcpy(image.linker, linker ? linker : "");
	return image;
}

static bool fits(const struct image *image)
{
	struct gm_preload_program found;
	write_file(image, sizeof(*image));
	assert_true(gm_preload_read(AT_FDCWD, path, &found));
	return gm_preload_fits(&found, OWN);
}

static void a_program_is_recognized_by_its_linker(void **state)
{
	struct image own = program(OWN),
	             elsewhere = program("/nix/store/glibc/lib/ld-linux-x86-64.so.2"),
	             still = program(NULL), musl = program("/lib/ld-musl-x86_64.so.1"),
	             bionic = program("/system/bin/linker64"),
	             below = program("/lib64/ld-linux.so.2");
	assert_true(fits(&own));
	assert_true(fits(&elsewhere));
	assert_true(fits(&still)); /* static: it preloads nothing, and what it starts may */
	assert_false(fits(&musl));
	assert_false(fits(&bionic));
	assert_false(fits(&below));
}

static void a_program_of_another_processor_does_not_fit(void **state)
{
	struct image small = program(OWN), other = program(OWN), swapped = program(OWN);
	small.header.e_ident[EI_CLASS] = ELFCLASS32;
	other.header.e_machine = EM_RISCV;
	swapped.header.e_ident[EI_DATA] =
	        swapped.header.e_ident[EI_DATA] == ELFDATA2LSB ? ELFDATA2MSB : ELFDATA2LSB;
	assert_false(fits(&small));
	assert_false(fits(&other));
	assert_false(fits(&swapped));
}

static void what_is_damaged_is_read_within_its_bounds(void **state)
{
	struct gm_preload_program found;
	for (size_t size = 0; size < sizeof(struct image); size++) {
		struct image image = program("/lib/ld-musl-x86_64.so.1");
		write_file(&image, size);
		gm_preload_read(AT_FDCWD, path, &found);
	}
	struct image far = program(OWN), endless = program(OWN), huge = program(OWN),
	             many = program(OWN);
	far.header.e_phoff = UINT64_MAX - 8;
	memset(endless.linker, 'a', sizeof(endless.linker));
	endless.segment.p_filesz = sizeof(endless.linker);
	huge.segment.p_filesz = UINT64_MAX;
	huge.segment.p_offset = UINT64_MAX;
	many.header.e_phnum = UINT16_MAX;
	many.segment.p_type = PT_NOTE;
	/* no linker is known: nothing says that it cannot load it */
	assert_true(fits(&far));
	assert_true(fits(&endless));
	assert_true(fits(&huge));
	assert_true(fits(&many));
}

static void for_a_script_its_interpreter_decides(void **state)
{
	struct gm_preload_program found;
	static const char script[] = "#! /proc/self/exe -x\n";
	write_file(script, strlen(script));
	assert_true(gm_preload_read(AT_FDCWD, path, &found));
	assert_true(found.linker[0] == '/');
	char circle[128];
	write_file(circle, (size_t)snprintf(circle, sizeof(circle), "#!%s\n", path));
	assert_false(gm_preload_read(AT_FDCWD, path, &found));
	write_file("#!\n", 3);
	assert_false(gm_preload_read(AT_FDCWD, path, &found));
	assert_false(gm_preload_read(AT_FDCWD, "/nonexistent", &found));
	assert_false(gm_preload_read(AT_FDCWD, "/tmp", &found));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_false(gm_preload_read(AT_FDCWD, path, &found)); /* and does not wait */
	assert_int_equal(unlink(path), 0);
	write_file("", 0);
}

static const char *preload_of(char *const *environment)
{
	const char *found = NULL;
	for (; *environment; environment++)
		if (strncmp(*environment, "LD_PRELOAD=", 11) == 0)
			found = *environment + 11;
	return found;
}

static void an_environment_without_ours_has_all_else(void **state)
{
	static const struct {
		const char *before, *after;
	} cases[] = {
	        {"LD_PRELOAD=/a/libgpumem-agent.so", NULL},
	        {"LD_PRELOAD=/a/libgpumem-agent.so:/b/libgpumem-sim.so", NULL},
	        {"LD_PRELOAD=/a/libgpumem-agent.so:/b/other.so", "/b/other.so"},
	        {"LD_PRELOAD=/c/first.so /a/libgpumem-agent.so::/b/other.so",
	                "/c/first.so:/b/other.so"},
	        {"LD_PRELOAD=libgpumem-agent.so b.so", "b.so"},
	        {"LD_PRELOAD=/libgpumem-x/other.so", "/libgpumem-x/other.so"},
	        {"LD_PRELOAD=", ""},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char before[128], first[] = "A=1", last[] = "B=2";
		char *list[] = {first, before, last, NULL};
		strcpy(before, cases[i].before);
		struct gm_preload_environment made;
		char *const *without = gm_preload_without_ours(&made, list);
		const char *after = preload_of(without);
		if (cases[i].after)
			assert_string_equal(after ? after : "(none)", cases[i].after);
		else
			assert_null(after);
		assert_string_equal(without[0], "A=1");
		assert_string_equal(without[after ? 2 : 1], "B=2");
		assert_string_equal(before, cases[i].before);
		assert_false(gm_preload_has_ours(without));
		gm_preload_environment_deinit(&made);
	}
	assert_false(gm_preload_has_ours(NULL));
}

static void an_environment_of_any_size_is_copied(void **state)
{
	enum { COUNT = 5000 };
	char **list = calloc(COUNT + 2, sizeof(*list));
	char preload[] = "LD_PRELOAD=/a/libgpumem-agent.so:/b.so", one[] = "A=1";
	for (int i = 0; i < COUNT; i++)
		list[i] = one;
	list[COUNT] = preload;
	struct gm_preload_environment made;
	char *const *without = gm_preload_without_ours(&made, list);
	assert_ptr_not_equal(without, list);
	for (int i = 0; i < COUNT; i++)
		assert_string_equal(without[i], "A=1");
	assert_string_equal(preload_of(without), "/b.so");
	gm_preload_environment_deinit(&made);
	free(list);
}

static void a_preloaded_library_that_cannot_be_opened_is_not_reached(void **state)
{
	char reached[] = "LD_PRELOAD=/proc/self/libgpumem-agent.so",
	     named[] = "LD_PRELOAD=libgpumem-agent.so",
	     others[] = "LD_PRELOAD=/nonexistent/other.so";
	char *one[] = {reached, NULL}, *two[] = {named, NULL}, *three[] = {others, NULL};
	assert_false(gm_preload_reaches_ours(one));
	assert_true(gm_preload_reaches_ours(two)); /* looked for by the dynamic linker: not told */
	assert_true(gm_preload_reaches_ours(three));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_program_is_recognized_by_its_linker),
	        cmocka_unit_test(a_program_of_another_processor_does_not_fit),
	        cmocka_unit_test(what_is_damaged_is_read_within_its_bounds),
	        cmocka_unit_test(for_a_script_its_interpreter_decides),
	        cmocka_unit_test(an_environment_without_ours_has_all_else),
	        cmocka_unit_test(an_environment_of_any_size_is_copied),
	        cmocka_unit_test(a_preloaded_library_that_cannot_be_opened_is_not_reached),
	};
	return cmocka_run_group_tests(tests, make_file, remove_file);
}
