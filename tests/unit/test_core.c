#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/procfs.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/user.h>

#include "base/cleanup.h"
#include "child.h"
#include "image/image.h"
#include "symbols/symbols.h"

enum { PAGE = 4096, DEPTH = 64 };

/* The sanitizer maps terabytes of shadow, which gcore walks through for minutes: then another
 * program is dumped, which does for the tests of damage. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

static char folder[64];
static char real_core[128]; /* "" where none could be made */
static uint64_t known;      /* a page of that process whose words are 7, 8, 9 ... */
static pid_t known_pid;

static void __attribute__((noinline)) stand_still(void)
{
	for (;;)
		syscall(SYS_pause);
}

static void known_memory(uint64_t *words)
{
	uint64_t *page =
	        mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (uint64_t i = 0; i < PAGE / 8; i++)
		page[i] = 7 + i;
	words[0] = (uint64_t)(uintptr_t)page;
}

static void __attribute__((noinline)) crash_in_here(void)
{
	stand_still();
	__asm__ volatile("");
}

/* A child that stands in crash_in_here(), dumped by gcore. */
static int make_core(void **state)
{
	snprintf(folder, sizeof(folder), "/tmp/gpumem-core-XXXXXX");
	if (!mkdtemp(folder))
		return 1;
	if (system("command -v gcore >/dev/null") != 0)
		return 0;
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		return 1;
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		uint64_t words[8] = {0};
		known_memory(words);
		if (write(ends[1], words, sizeof(words)) != sizeof(words))
			_exit(1);
		if (SANITIZED)
			execlp("sleep", "sleep", "600", (char *)NULL);
		crash_in_here();
	}
	uint64_t words[8];
	close(ends[1]);
	if (read(ends[0], words, sizeof(words)) != sizeof(words))
		return 1;
	char byte;
	if (SANITIZED && read(ends[0], &byte, 1) != 0) /* its end: it is the other program now */
		return 1;
	char command[256];
	snprintf(command, sizeof(command), "timeout 600 gcore -o %s/core %d >/dev/null 2>&1",
	        folder, pid);
	if (system(command) == 0) {
		snprintf(real_core, sizeof(real_core), "%s/core.%d", folder, pid);
		known = words[0];
		known_pid = pid;
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return 0;
}

static int remove_core(void **state)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return system(command);
}

static void assert_message(struct gm_error *error, enum gm_status status, const char *part)
{
	assert_non_null(error);
	assert_int_equal(error->status, status);
	if (!strstr(error->message, part))
		fail_msg("'%s' does not say '%s'", error->message, part);
	gm_error_destroy(error);
}

static void need_own_core(void)
{
	if (SANITIZED) {
		print_message("skipped: a sanitized program is too large for gcore\n");
		skip();
	}
}

static void need_real_core(void)
{
	if (!*real_core) {
		print_message("skipped: gcore made no core here\n");
		skip();
	}
}

static void memory_and_threads_of_a_real_core_are_the_process_own(void **state)
{
	need_own_core();
	need_real_core();
	struct gm_image *image = NULL;
	assert_null(gm_image_open_core(real_core, &image));
	assert_int_equal(gm_image_pid(image), 0);
	uint64_t words[PAGE / 8];
	assert_null(gm_image_read(image, known, words, sizeof(words)));
	assert_int_equal(words[0], 7);
	assert_int_equal(words[PAGE / 8 - 1], 7 + PAGE / 8 - 1);
	_cleanup_free_ pid_t *threads = NULL;
	size_t count;
	assert_null(gm_image_threads(image, &threads, &count));
	assert_int_equal(count, 1);
	assert_int_equal(threads[0], known_pid);
	struct gm_registers registers;
	assert_null(gm_image_registers(image, known_pid, &registers));
	assert_message(
	        gm_image_registers(image, 1, &registers), GM_TARGET, "no thread of this number");
	char byte;
	assert_message(gm_image_read(image, 0x10, &byte, 1), GM_TARGET, "address 0x10: not mapped");
	gm_image_close(image);
}

static void a_real_core_unwinds_to_start_with_names(void **state)
{
	need_own_core();
	need_real_core();
	struct gm_image *image = NULL;
	struct gm_symbols *symbols = NULL;
	struct gm_registers registers;
	uint64_t addresses[DEPTH];
	struct gm_symbol names[DEPTH];
	assert_null(gm_image_open_core(real_core, &image));
	assert_null(gm_symbols_create(image, &symbols));
	assert_null(gm_image_registers(image, known_pid, &registers));
	size_t count = gm_symbols_unwind(symbols, &registers, addresses, DEPTH);
	assert_null(gm_symbols_name(symbols, addresses, count, true, names));
	assert_true(count > 4);
	assert_non_null(names[count - 1].function);
	assert_string_equal(names[count - 1].function, "_start");
	bool main_found = false;
	for (size_t i = 0; i < count; i++)
		main_found |= names[i].function && strcmp(names[i].function, "main") == 0;
	assert_true(main_found);
	gm_symbols_destroy(symbols);
	gm_image_close(image);
}

/* --- a core made by hand ---------------------------------------------------------------------- */

/*
 * One page saved at 0x10000; one of which only half is saved, at 0x20000; one not saved at all, at
 * 0x30000; and last one at 0x40000, which a shorter file loses.
 */
struct small_core {
	Elf64_Ehdr header;
	Elf64_Phdr segments[4];
	uint8_t pages[2 * PAGE + PAGE / 2];
};

static void make_small(struct small_core *core)
{
	memset(core, 0, sizeof(*core));
	memcpy(core->header.e_ident, ELFMAG, SELFMAG);
	core->header.e_ident[EI_CLASS] = ELFCLASS64;
	core->header.e_ident[EI_DATA] = ELFDATA2LSB;
	core->header.e_type = ET_CORE;
	core->header.e_machine = EM_X86_64;
	core->header.e_phoff = offsetof(struct small_core, segments);
	core->header.e_phentsize = sizeof(Elf64_Phdr);
	core->header.e_phnum = 4;
	static const struct {
		uint64_t address, saved;
	} parts[4] = {{0x10000, PAGE}, {0x20000, PAGE / 2}, {0x30000, 0}, {0x40000, PAGE}};
	uint64_t offset = offsetof(struct small_core, pages);
	for (size_t i = 0; i < 4; i++) {
		core->segments[i] = (Elf64_Phdr){.p_type = PT_LOAD,
		        .p_flags = PF_R | PF_W,
		        .p_vaddr = parts[i].address,
		        .p_memsz = PAGE,
		        .p_filesz = parts[i].saved,
		        .p_offset = offset};
		offset += parts[i].saved;
	}
	memset(core->pages, 'p', sizeof(core->pages));
}

static const char *write_core(const void *bytes, size_t size)
{
	static char path[128];
	snprintf(path, sizeof(path), "%s/small", folder);
	FILE *stream = fopen(path, "wb");
	assert_non_null(stream);
	assert_int_equal(fwrite(bytes, 1, size, stream), size);
	fclose(stream);
	return path;
}

static void unmapped_not_saved_and_cut_short_are_three_answers(void **state)
{
	struct small_core core;
	make_small(&core);
	struct gm_image *image = NULL;
	char bytes[2 * PAGE];
	assert_null(gm_image_open_core(write_core(&core, sizeof(core) - 100), &image));
	assert_null(gm_image_read(image, 0x10000, bytes, PAGE));
	assert_int_equal(bytes[PAGE - 1], 'p');
	assert_message(
	        gm_image_read(image, 0x10ff0, bytes, 32), GM_TARGET, "address 0x11000: not mapped");
	assert_null(gm_image_read(image, 0x20000, bytes, PAGE / 2));
	assert_message(gm_image_read(image, 0x20000, bytes, PAGE), GM_TARGET,
	        "address 0x20800: mapped but not saved");
	assert_message(gm_image_read(image, 0x30010, bytes, 1), GM_TARGET,
	        "address 0x30010: mapped but not saved");
	assert_message(gm_image_read(image, 0x40000, bytes, PAGE), GM_CORRUPT,
	        "address 0x40f9c: the core is truncated");
	assert_int_equal(gm_image_read_some(image, 0x20000, bytes, sizeof(bytes)), PAGE / 2);
	struct gm_read reads[3] = {
	        {0x10000, bytes, 8, true}, {0x30000, bytes, 8, false}, {0x40000, bytes, 8, true}};
	gm_image_read_many(image, reads, 3);
	assert_false(reads[0].failed);
	assert_true(reads[1].failed);
	assert_false(reads[2].failed);
	gm_image_close(image);
}

/* Two threads, which gcore saw from outside of a container: 5000 and 77 there, 77 and 78 inside. */
static void threads_of_a_container_are_found_by_their_id_inside(void **state)
{
	enum { THREADS = 2 };
	static const pid_t outside[THREADS] = {5000, 77};
	struct __attribute__((packed)) {
		Elf64_Ehdr header;
		Elf64_Phdr segments[2];
		struct __attribute__((packed)) {
			Elf64_Nhdr header;
			char name[8];
			struct elf_prstatus status;
		} notes[THREADS];
		uint8_t page[PAGE];
	} core;
	struct small_core small;
	make_small(&small);
	memset(&core, 0, sizeof(core));
	core.header = small.header;
	core.header.e_phnum = 2;
	core.segments[0] = (Elf64_Phdr){.p_type = PT_NOTE,
	        .p_offset = (uint64_t)((char *)core.notes - (char *)&core),
	        .p_filesz = sizeof(core.notes)};
	core.segments[1] = (Elf64_Phdr){.p_type = PT_LOAD,
	        .p_flags = PF_R,
	        .p_vaddr = 0x10000,
	        .p_memsz = PAGE,
	        .p_filesz = PAGE,
	        .p_offset = (uint64_t)((char *)core.page - (char *)&core)};
	for (int i = 0; i < THREADS; i++) {
		struct user_regs_struct registers = {.fs_base = 0x10000 + (uint64_t)i * 0x400};
		const uint32_t inside = 77 + (uint32_t)i;
		core.notes[i].header = (Elf64_Nhdr){5, sizeof(struct elf_prstatus), NT_PRSTATUS};
		memcpy(core.notes[i].name, "CORE", 5);
		core.notes[i].status.pr_pid = outside[i];
		memcpy(&core.notes[i].status.pr_reg, &registers, sizeof(registers));
		memcpy(core.page + i * 0x400 + GM_PTHREAD_TID, &inside, sizeof(inside));
	}
	struct gm_image *image = NULL;
	assert_null(gm_image_open_core(write_core(&core, sizeof(core)), &image));
	assert_int_equal(gm_image_thread_of(image, 77), 5000);
	assert_int_equal(gm_image_thread_of(image, 78), 77);
	assert_int_equal(gm_image_thread_of(image, 1234), 1234);
	gm_image_close(image);
}

/* What is listed as memory can be read. */
static void of_overlapping_segments_the_lower_one_counts(void **state)
{
	struct small_core core;
	make_small(&core);
	core.segments[0].p_memsz = core.segments[0].p_filesz = 2 * PAGE;
	core.segments[1].p_vaddr = 0x10000 + PAGE / 2;
	core.segments[1].p_memsz = PAGE / 4;
	struct gm_image *image = NULL;
	char bytes[2 * PAGE];
	assert_null(gm_image_open_core(write_core(&core, sizeof(core)), &image));
	assert_null(gm_image_read(image, 0x10000, bytes, sizeof(bytes)));
	const struct gm_mapping *mapping = gm_image_find_mapping(image, 0x10000);
	assert_int_equal(mapping->end, 0x10000 + sizeof(bytes));
	assert_ptr_equal(gm_image_find_mapping(image, 0x10000 + PAGE / 2), mapping);
	gm_image_close(image);
}

static void notes_that_are_too_large_are_refused(void **state)
{
	struct small_core core;
	make_small(&core);
	core.segments[1].p_type = PT_NOTE;
	core.segments[1].p_filesz = UINT64_C(1) << 40;
	struct gm_image *image = NULL;
	assert_message(gm_image_open_core(write_core(&core, sizeof(core)), &image), GM_CORRUPT,
	        "its notes have more than 256 MiB");
}

static void a_file_that_is_not_a_core_is_refused_with_the_reason(void **state)
{
	struct small_core core;
	struct gm_image *image = NULL;
	assert_message(gm_image_open_core("/no/such/core", &image), GM_TARGET, "cannot be opened");
	assert_message(gm_image_open_core("/tmp", &image), GM_CORRUPT, "not a regular file");
	assert_message(
	        gm_image_open_core(write_core("", 0), &image), GM_CORRUPT, "not an ELF file");
	assert_message(gm_image_open_core("/proc/self/exe", &image), GM_CORRUPT, "not a core dump");
	assert_message(gm_image_open_core(write_core("BZh91AY&", 8), &image), GM_CORRUPT,
	        "gpumem does not read this compression format: decompress the core (bunzip2)");
	assert_message(gm_image_open_core(write_core("\x04\x22\x4d\x18...", 8), &image), GM_CORRUPT,
	        "lz4 -d");
	make_small(&core);
	core.header.e_machine = EM_AARCH64;
	assert_message(gm_image_open_core(write_core(&core, sizeof(core)), &image), GM_CORRUPT,
	        "offset 0x12: it is of another kind of machine (AArch64)");
	make_small(&core);
	core.header.e_ident[EI_DATA] = ELFDATA2MSB;
	assert_message(gm_image_open_core(write_core(&core, sizeof(core)), &image), GM_CORRUPT,
	        "offset 0x5: it is of another kind of machine (big-endian)");
	make_small(&core);
	core.header.e_ident[EI_CLASS] = ELFCLASS32;
	assert_message(gm_image_open_core(write_core(&core, sizeof(core)), &image), GM_CORRUPT,
	        "offset 0x4: it is of a 32-bit program");
	make_small(&core);
	assert_message(gm_image_open_core(write_core(&core, 100), &image), GM_CORRUPT,
	        "offset 0x40: the core is truncated within its headers");
	make_small(&core);
	core.header.e_phnum = 0;
	assert_message(gm_image_open_core(write_core(&core, sizeof(core)), &image), GM_CORRUPT,
	        "there is no memory in it");
	assert_null(image);
}

/* Up to the last header it is refused, with the file and the place; from there on memory is
 * missing, which is told. */
static void a_core_cut_at_any_byte_of_its_headers_is_refused_as_cut(void **state)
{
	struct small_core core;
	make_small(&core);
	for (size_t cut = 0; cut < sizeof(core); cut += cut < 400 ? 1 : 37) {
		struct gm_image *image = NULL;
		const char *path = write_core(&core, cut);
		struct gm_error *error = gm_image_open_core(path, &image);
		if (cut < offsetof(struct small_core, pages)) {
			assert_non_null(error);
			assert_null(image);
			assert_non_null(strstr(error->message, path));
		} else {
			assert_null(error);
			error = gm_image_check_whole(image);
		}
		assert_message(error, GM_CORRUPT, cut < 4 ? "not an ELF file" : "is truncated");
		gm_image_close(image);
	}
}

/* --- its files on disk ------------------------------------------------------------------------ */

/* A core that has the first page of `path` at 0x10000 and left out the second, which is mapped
 * behind it. */
static const char *core_with_file(const char *path, const void *first_page)
{
	struct __attribute__((packed)) {
		Elf64_Ehdr header;
		Elf64_Phdr segments[2];
		Elf64_Nhdr note;
		char name[8];
		uint64_t words[2 + 3];
		char path[128];
		uint8_t page[PAGE];
	} core = {.note = {5, sizeof(core.words) + sizeof(core.path), NT_FILE},
	        .name = "CORE",
	        .words = {1, PAGE, 0x10000, 0x10000 + 2 * PAGE, 0}};
	struct small_core small;
	make_small(&small);
	core.header = small.header;
	core.header.e_phoff = sizeof(core.header);
	core.header.e_phnum = 2;
	core.segments[0] = (Elf64_Phdr){.p_type = PT_NOTE,
	        .p_offset = (uint64_t)((char *)&core.note - (char *)&core),
	        .p_filesz = sizeof(core.note) + sizeof(core.name) + core.note.n_descsz};
	core.segments[1] = (Elf64_Phdr){.p_type = PT_LOAD,
	        .p_flags = PF_R,
	        .p_vaddr = 0x10000,
	        .p_memsz = 2 * PAGE,
	        .p_filesz = PAGE,
	        .p_offset = (uint64_t)((char *)core.page - (char *)&core)};
	snprintf(core.path, sizeof(core.path), "%s", path);
	memcpy(core.page, first_page, PAGE);
	return write_core(&core, sizeof(core));
}

/* An ELF file of two pages with a build-id, its second page all `fill`. */
static void make_library(uint8_t *library, uint8_t build, uint8_t fill)
{
	struct __attribute__((packed)) {
		Elf64_Ehdr header;
		Elf64_Phdr segment;
		Elf64_Nhdr note;
		char name[4];
		uint8_t id[20];
	} start = {.note = {4, 20, NT_GNU_BUILD_ID}, .name = "GNU"};
	struct small_core small;
	make_small(&small);
	start.header = small.header;
	start.header.e_type = ET_DYN;
	start.header.e_phoff = sizeof(start.header);
	start.header.e_phnum = 1;
	start.segment = (Elf64_Phdr){.p_type = PT_NOTE,
	        .p_offset = (uint64_t)((char *)&start.note - (char *)&start),
	        .p_filesz = sizeof(start.note) + sizeof(start.name) + sizeof(start.id)};
	memset(start.id, build, sizeof(start.id));
	memset(library, fill, 2 * PAGE);
	memset(library, 0, PAGE);
	memcpy(library, &start, sizeof(start));
}

static const char *library_path(const char *name)
{
	static char path[128];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void write_library(const char *name, uint8_t build, uint8_t fill)
{
	uint8_t library[2 * PAGE];
	make_library(library, build, fill);
	FILE *stream = fopen(library_path(name), "wb");
	assert_non_null(stream);
	assert_int_equal(fwrite(library, 1, sizeof(library), stream), sizeof(library));
	fclose(stream);
}

static struct gm_image *open_with_library(const char *path)
{
	uint8_t library[2 * PAGE];
	make_library(library, 1, 'l');
	struct gm_image *image = NULL;
	assert_null(gm_image_open_core(core_with_file(path, library), &image));
	return image;
}

static enum gm_file_state state_of_library(struct gm_image *image)
{
	_cleanup_free_ struct gm_image_file *files = NULL;
	size_t count;
	assert_null(gm_image_files(image, &files, &count));
	assert_int_equal(count, 1);
	return files[0].state;
}

static void what_the_core_left_out_is_read_from_the_same_build_on_disk(void **state)
{
	char byte;
	write_library("lib.so", 1, 'l');
	struct gm_image *image = open_with_library(library_path("lib.so"));
	assert_null(gm_image_read(image, 0x10000 + PAGE + 7, &byte, 1));
	assert_int_equal(byte, 'l');
	assert_int_equal(state_of_library(image), GM_FILE_SAME);
	gm_image_close(image);
}

static void another_build_is_not_read_and_both_build_ids_are_reported(void **state)
{
	char byte;
	write_library("lib.so", 2, 'x');
	struct gm_image *image = open_with_library(library_path("lib.so"));
	assert_message(gm_image_read(image, 0x10000 + PAGE, &byte, 1), GM_TARGET,
	        "another build on this disk: build-id 0202020202020202020202020202020202020202, "
	        "not "
	        "0101010101010101010101010101010101010101)");
	assert_int_equal(state_of_library(image), GM_FILE_DIFFERENT);
	gm_image_close(image);
}

static void a_missing_library_is_recognized_by_name_with_what_to_do(void **state)
{
	char byte;
	struct gm_image *image = open_with_library("/no/such/lib.so");
	assert_message(gm_image_read(image, 0x10000 + PAGE, &byte, 1), GM_TARGET,
	        "(/no/such/lib.so, which is not on this disk): restore that file, or name "
	        "the folder "
	        "that has it with --sysroot DIR");
	assert_int_equal(state_of_library(image), GM_FILE_MISSING);
	gm_image_close(image);
}

static void a_sysroot_has_it_under_its_path_or_its_name(void **state)
{
	char byte, command[256];
	write_library(
	        "lib.so", 2, 'x'); /* another one at the very path, and in a folder the right one */
	snprintf(command, sizeof(command), "mkdir -p %s/root%s %s/flat", folder, folder, folder);
	assert_int_equal(system(command), 0);
	_cleanup_free_ char *path = strdup(library_path("lib.so"));
	char below[256], root[128];
	snprintf(below, sizeof(below), "root%s", path);
	write_library(below, 1, 'l');
	write_library("flat/lib.so", 1, 'l');
	const char *const roots[] = {"root", "flat"};
	for (int i = 0; i < 2; i++) {
		struct gm_image *image = open_with_library(path);
		assert_false(gm_image_try_read(image, 0x10000 + PAGE, &byte, 1));
		snprintf(root, sizeof(root), "%s/%s", folder, roots[i]);
		assert_null(gm_image_set_sysroot(image, root));
		assert_true(gm_image_try_read(image, 0x10000 + PAGE, &byte, 1));
		assert_int_equal(byte, 'l');
		_cleanup_free_ char *found = NULL;
		assert_null(gm_image_file_path(image, path, &found));
		assert_int_equal(strncmp(found, root, strlen(root)), 0);
		gm_image_close(image);
	}
}

/* Everything that reads a core, on a damaged one; nothing is expected but to come back. */
static void use_core(const char *path)
{
	struct gm_image *image = NULL;
	struct gm_symbols *symbols = NULL;
	struct gm_error *error = gm_image_open_core(path, &image);
	if (error) {
		assert_true(error->status == GM_CORRUPT || error->status == GM_TARGET);
		gm_error_destroy(error);
		return;
	}
	static char bytes[3 * PAGE];
	size_t count;
	const struct gm_mapping *mappings = gm_image_mappings(image, &count);
	for (size_t i = 0; i < count; i++) {
		assert_true(mappings[i].start < mappings[i].end);
		assert_true(i == 0 || mappings[i].start >= mappings[i - 1].end);
		gm_image_read_some(image, mappings[i].start, bytes, sizeof(bytes));
		gm_error_destroy(gm_image_read(image, mappings[i].end - 8, bytes, 16));
	}
	_cleanup_free_ pid_t *threads = NULL;
	assert_null(gm_image_threads(image, &threads, &count));
	if (!gm_symbols_create(image, &symbols) && count > 0) {
		struct gm_registers registers;
		uint64_t addresses[DEPTH];
		assert_null(gm_image_registers(image, threads[0], &registers));
		gm_symbols_unwind(symbols, &registers, addresses, DEPTH);
	}
	gm_symbols_destroy(symbols);
	gm_image_close(image);
}

static void cores_cut_short_or_damaged_do_no_harm(void **state)
{
	need_real_core();
	_cleanup_fclose_ FILE *stream = fopen(real_core, "rb");
	assert_non_null(stream);
	enum { SIZE = 256 << 10 }; /* headers and notes lie in front */
	_cleanup_free_ char *bytes = malloc(SIZE), *damaged = malloc(SIZE);
	size_t size = fread(bytes, 1, SIZE, stream);
	for (size_t cut = 0; cut < size; cut += cut < 8192 ? 211 : 9973)
		use_core(write_core(bytes, cut));
	uint64_t random = 99;
	for (int round = 0; round < 300; round++) {
		memcpy(damaged, bytes, size);
		for (int i = 0; i < 1 + round % 60; i++) {
			random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
			size_t limit = i % 3 == 0 ? 64 : i % 3 == 1 ? 8192 : size;
			damaged[(random >> 33) % limit] = (char)(random >> 25);
		}
		/* The magic stays, or every second one would only test that. */
		memcpy(damaged, bytes, 20);
		use_core(write_core(damaged, size));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(memory_and_threads_of_a_real_core_are_the_process_own),
	        cmocka_unit_test(a_real_core_unwinds_to_start_with_names),
	        cmocka_unit_test(unmapped_not_saved_and_cut_short_are_three_answers),
	        cmocka_unit_test(threads_of_a_container_are_found_by_their_id_inside),
	        cmocka_unit_test(of_overlapping_segments_the_lower_one_counts),
	        cmocka_unit_test(notes_that_are_too_large_are_refused),
	        cmocka_unit_test(a_file_that_is_not_a_core_is_refused_with_the_reason),
	        cmocka_unit_test(a_core_cut_at_any_byte_of_its_headers_is_refused_as_cut),
	        cmocka_unit_test(what_the_core_left_out_is_read_from_the_same_build_on_disk),
	        cmocka_unit_test(another_build_is_not_read_and_both_build_ids_are_reported),
	        cmocka_unit_test(a_missing_library_is_recognized_by_name_with_what_to_do),
	        cmocka_unit_test(a_sysroot_has_it_under_its_path_or_its_name),
	        cmocka_unit_test(cores_cut_short_or_damaged_do_no_harm),
	};
	return cmocka_run_group_tests(tests, make_core, remove_core);
}
