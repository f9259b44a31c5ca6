#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "image/image.h"
#include "image/kept.h"
#include "base/mapped_file.h"

enum { PAGE = 4096, CHUNKS = 4, BYTES = CHUNKS * GM_KEPT_CHUNK };
static const uint64_t base = UINT64_C(0x10000000);

/* A core of one writable mapping whose words are 7, 8, 9 ... */
static void write_core(char *path)
{
	static unsigned char file[PAGE + BYTES];
	Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
	                             ELFDATA2LSB, EV_CURRENT},
	        .e_type = ET_CORE,
	        .e_machine = EM_X86_64,
	        .e_version = EV_CURRENT,
	        .e_phoff = sizeof(Elf64_Ehdr),
	        .e_ehsize = sizeof(Elf64_Ehdr),
	        .e_phentsize = sizeof(Elf64_Phdr),
	        .e_phnum = 1};
	Elf64_Phdr segment = {.p_type = PT_LOAD,
	        .p_flags = PF_R | PF_W,
	        .p_offset = PAGE,
	        .p_vaddr = base,
	        .p_filesz = BYTES,
	        .p_memsz = BYTES};
	memcpy(file, &header, sizeof(header));
	memcpy(file + sizeof(header), &segment, sizeof(segment));
	for (uint64_t i = 0; i < BYTES / 8; i++) {
		uint64_t word = 7 + i;
		memcpy(file + PAGE + i * 8, &word, 8);
	}
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, file, sizeof(file)), sizeof(file));
	close(fd);
}

static uint64_t kept_word(struct gm_kept *kept, uint64_t address)
{
	uint64_t word;
	if (!gm_kept_have(kept, address, 8))
		assert_true(gm_kept_fill(kept, address));
	const uint8_t *bytes = gm_kept_have(kept, address, 8);
	assert_non_null(bytes);
	memcpy(&word, bytes, 8);
	return word;
}

static void a_cores_memory_is_used_where_it_is(void **state)
{
	char path[] = "/tmp/gpumem-kept-XXXXXX";
	struct gm_image *image;
	write_core(path);
	assert_null(gm_image_open_core(path, &image));
	gm_image_read_cache_begin(image);
	struct gm_kept *kept = gm_image_read_cache(image);
	assert_non_null(kept);
	assert_true(kept->views);
	for (uint64_t at = 0; at < BYTES; at += PAGE - 8)
		assert_int_equal(kept_word(kept, base + at), 7 + at / 8);
	assert_int_equal(kept->used, 0);                              /* nothing was copied */
	assert_null(gm_kept_have(kept, base + GM_KEPT_CHUNK - 4, 8)); /* of two chunks */
	assert_false(gm_kept_fill(kept, base + BYTES));
	assert_false(gm_kept_fill(kept, base - 8));
	gm_image_read_cache_end(image);
	assert_null(gm_image_read_cache(image));
	gm_image_close(image);
	unlink(path);
}

static void a_core_that_is_truncated_while_it_is_read_is_reported_and_kills_nothing(void **state)
{
	char path[] = "/tmp/gpumem-kept-XXXXXX";
	struct gm_image *image;
	write_core(path);
	assert_null(gm_image_open_core(path, &image));
	gm_image_read_cache_begin(image);
	struct gm_kept *kept = gm_image_read_cache(image);
	assert_null(gm_image_check_there(image));
	assert_int_equal(kept_word(kept, base + BYTES - 8), 7 + BYTES / 8 - 1);
	assert_int_equal(truncate(path, PAGE + GM_KEPT_CHUNK), 0);
	assert_int_equal(kept_word(kept, base), 7);
	assert_int_equal(kept_word(kept, base + BYTES - 8), 0);
	struct gm_error *error = gm_image_check_there(image);
	assert_non_null(error);
	assert_int_equal(error->status, GM_CORRUPT);
	assert_non_null(strstr(error->message, "truncated"));
	gm_error_destroy(error);
	gm_image_close(image); /* ends what is kept, too */
	unlink(path);
}

static void borrowed_memory_of_a_core_equals_read_memory_and_ends_with_the_core(void **state)
{
	char path[] = "/tmp/gpumem-kept-XXXXXX";
	struct gm_image *image;
	struct gm_borrowed borrowed;
	uint64_t word;
	write_core(path);
	assert_null(gm_image_open_core(path, &image));
	assert_false(gm_image_borrow(image, base, &borrowed));
	gm_image_borrow_begin(image);
	gm_image_borrow_begin(image); /* within the other */
	assert_true(gm_image_borrow(image, base + 100, &borrowed));
	assert_int_equal(borrowed.start, base);
	assert_int_equal(borrowed.end, base + BYTES);
	assert_false(gm_image_borrow(image, base + BYTES, &borrowed));
	assert_false(gm_image_borrow(image, base - 1, &borrowed));
	assert_null(gm_image_borrowed_bytes(image, base + BYTES - 4, 8));
	for (uint64_t at = 0; at < BYTES; at += 3 * PAGE + 8) {
		const uint8_t *lent = gm_image_borrowed_bytes(image, base + at, 8);
		assert_non_null(lent);
		assert_int_equal(memcmp(lent, &(uint64_t){7 + at / 8}, 8), 0);
		assert_true(gm_image_try_u64(image, base + at, &word));
		assert_int_equal(word, 7 + at / 8);
	}
	assert_false(gm_image_try_u64(image, base + BYTES - 4, &word));
	gm_image_borrow_end(image);
	assert_true(gm_image_borrow(image, base, &borrowed));
	gm_image_borrow_end(image);
	assert_false(gm_image_borrow(image, base, &borrowed));
	assert_true(gm_image_try_u64(image, base, &word));
	assert_int_equal(word, 7);
	gm_image_close(image);
	unlink(path);
}

static volatile sig_atomic_t passed_on;
static sigjmp_buf back;

static void note(int number)
{
	passed_on = number;
	siglongjmp(back, 1);
}

static void a_bus_error_of_other_code_gets_its_former_handler(void **state)
{
	char path[] = "/tmp/gpumem-kept-XXXXXX", other[] = "/tmp/gpumem-kept-XXXXXX";
	write_core(path);
	write_core(other);
	struct sigaction theirs = {.sa_handler = note}, before, after;
	sigaction(SIGBUS, &theirs, &before);
	int fd = open(path, O_RDONLY | O_CLOEXEC), fd_other = open(other, O_RDONLY | O_CLOEXEC);
	const uint8_t *ours = gm_mapped_file_open(fd, PAGE + BYTES);
	const uint8_t *not_ours = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd_other, 0);
	assert_non_null(ours);
	assert_ptr_not_equal(not_ours, MAP_FAILED);
	assert_int_equal(truncate(other, 0), 0);
	if (sigsetjmp(back, 1) == 0) {
		(void)*(const volatile uint8_t *)not_ours;
		fail();
	}
	assert_int_equal(passed_on, SIGBUS);
	gm_mapped_file_close(ours, PAGE + BYTES);
	sigaction(SIGBUS, NULL, &after);
	assert_ptr_equal(after.sa_handler, note);
	sigaction(SIGBUS, &before, NULL);
	munmap((void *)(uintptr_t)not_ours, BYTES);
	close(fd);
	close(fd_other);
	unlink(path);
	unlink(other);
}

static void touched_memory_of_a_process_is_copied_once(void **state)
{
	enum { TOUCHED = 3 * GM_KEPT_CHUNK, ALL = 5 * GM_KEPT_CHUNK };
	unsigned char *memory = mmap(NULL, ALL + GM_KEPT_CHUNK, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	(void)madvise(memory, ALL + GM_KEPT_CHUNK, MADV_NOHUGEPAGE);
	uint64_t start =
	        ((uint64_t)(uintptr_t)memory + GM_KEPT_CHUNK - 1) & ~(uint64_t)(GM_KEPT_CHUNK - 1);
	volatile uint64_t *words = (volatile uint64_t *)(uintptr_t)start;
	for (uint64_t i = 0; i < TOUCHED / 8; i++)
		words[i] = 7 + i;
	struct gm_image *image;
	assert_null(gm_image_open_pid(getpid(), &image));
	gm_image_read_cache_begin(image);
	struct gm_kept *kept = gm_image_read_cache(image);
	assert_non_null(kept);
	assert_int_equal(kept_word(kept, start + 4000), 7 + 500);
	size_t used = kept->used;
	words[500] = 1; /* kept memory shows the moment at which it was read */
	assert_int_equal(kept_word(kept, start + 4000), 7 + 500);
	assert_int_equal(kept_word(kept, start + TOUCHED - 8), 7 + TOUCHED / 8 - 1);
	assert_int_equal(kept->used, used + 1);
	uint64_t word;
	assert_true(gm_image_try_read(image, start + 4000, &word, 8));
	assert_int_equal(word, 7 + 500);
	if (access("/proc/self/pagemap", R_OK) == 0) {
		assert_true(gm_kept_fill(kept, start + ALL - PAGE));
		assert_null(gm_kept_have(kept, start + ALL - PAGE, 8));
	}
	gm_image_close(image);
	munmap(memory, ALL + GM_KEPT_CHUNK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_cores_memory_is_used_where_it_is),
	        cmocka_unit_test(
	                borrowed_memory_of_a_core_equals_read_memory_and_ends_with_the_core),
	        cmocka_unit_test(
	                a_core_that_is_truncated_while_it_is_read_is_reported_and_kills_nothing),
	        cmocka_unit_test(a_bus_error_of_other_code_gets_its_former_handler),
	        cmocka_unit_test(touched_memory_of_a_process_is_copied_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
