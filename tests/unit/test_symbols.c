#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "symbols/debug_file.h"
#include "symbols/names.h"
#include "symbols/lines.h"
#include "symbols/naming.h"
#include "symbols/rows.h"
#include "symbols/symbols.h"

/* Like a user's extension: C++, a template and an inline function (sections that several units
 * share). */
static const char library_source[] =
        "#define NEVER_INLINE __attribute__((noinline))\n"
        "NEVER_INLINE void here(void **address) { *address = __builtin_return_address(0); }\n"
        "namespace extension {\n"
        "template <class T> NEVER_INLINE int line_in(T **address) { here(address); return "
        "__LINE__; }\n"
        "inline NEVER_INLINE int unused_elsewhere(int i) { return i * 3; }\n"
        "struct Layer { NEVER_INLINE int forward(void **address); };\n"
        "int Layer::forward(void **address) {\n"
        "	here(address); return __LINE__ + unused_elsewhere(0);\n"
        "}\n"
        "}\n"
        "static NEVER_INLINE int hidden_line(void **address) { here(address); return __LINE__; }\n"
        "extern \"C\" int probe_template(void **a) { return extension::line_in<void>(a); }\n"
        "extern \"C\" int probe_member(void **a) { return extension::Layer().forward(a); }\n"
        "extern \"C\" int probe_static(void **a) { return hidden_line(a); }\n"
        "extern \"C\" int (*const probe_table[3])(void **) = {probe_template, probe_member, "
        "probe_static};\n";

static char folder[64];

static int make_folder(void **state)
{
	snprintf(folder, sizeof(folder), "/tmp/gpumem-test-XXXXXX");
	return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return system(command);
}

__attribute__((format(printf, 1, 2))) static bool shell(const char *format, ...)
{
	char command[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	return system(command) == 0;
}

/* Builds the library above; the caller frees the path. NULL: no such compiler here. */
static char *build(const char *compiler, const char *options, const char *name)
{
	if (!shell("command -v %s >/dev/null", compiler))
		return NULL;
	char source[128];
	snprintf(source, sizeof(source), "%s/library.cpp", folder);
	FILE *stream = fopen(source, "w");
	assert_non_null(stream);
	fputs(library_source, stream);
	fclose(stream);
	char *path;
	assert_true(asprintf(&path, "%s/%s", folder, name) > 0);
	assert_true(shell("cd %s && %s -shared -fPIC -O1 %s -Wl,--build-id -o %s library.cpp",
	        folder, compiler, options, path));
	return path;
}

/* This process itself, as an image. */
struct view {
	struct gm_image *image;
	struct gm_symbols *symbols;
};

static void open_view(struct view *view)
{
	assert_null(gm_image_open_pid(getpid(), &view->image));
	assert_null(gm_symbols_create(view->image, &view->symbols));
}

static void close_view(struct view *view)
{
	gm_symbols_destroy(view->symbols);
	gm_image_close(view->image);
}

/* --- modules and look-up ---------------------------------------------------------------------- */

static int compare_with_linker(struct dl_phdr_info *info, size_t size, void *context)
{
	struct view *view = context;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_X))
			continue;
		uint64_t address = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		const struct gm_module *module = gm_symbols_module_at(view->symbols, address);
		assert_non_null(module);
		assert_int_equal(module->bias, info->dlpi_addr);
		assert_true(module->start <= address && address < module->end);
	}
	return 0;
}

static void modules_are_where_the_dynamic_linker_put_them(void **state)
{
	struct view view;
	open_view(&view);
	dl_iterate_phdr(compare_with_linker, &view);
	size_t count;
	const struct gm_module *modules = gm_symbols_modules(view.symbols, &count);
	assert_true(count >= 5);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(modules[i].id, i);
	assert_null(gm_symbols_module_at(view.symbols, 0));
	assert_null(gm_symbols_module_at(view.symbols, UINT64_MAX));
	const struct gm_module *libc = gm_symbols_find_module(view.symbols, "libc.so");
	assert_non_null(libc);
	assert_string_equal(libc->name, "libc.so.6");
	assert_int_equal(libc->build_id_size, 20);
	assert_null(gm_symbols_find_module(view.symbols, "libno-such.so"));
	close_view(&view);
}

static void looked_up_addresses_are_those_of_dlsym(void **state)
{
	static const char *const names[] = {"qsort", "malloc", "getpid", "environ", "fopen"};
	struct view view;
	open_view(&view);
	const struct gm_module *libc = gm_symbols_find_module(view.symbols, "libc.so");
	void *handle = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	assert_non_null(handle);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint64_t address = 0, size = 0;
		assert_true(gm_symbols_lookup(view.symbols, libc, names[i], &address, &size));
		if (strcmp(names[i], "malloc") != 0) /* which a sanitizer takes over */
			assert_int_equal(address, (uintptr_t)dlsym(handle, names[i]));
		assert_true(size > 0);
	}
	uint64_t address = 77;
	const struct gm_module *module = NULL;
	assert_false(gm_symbols_lookup(view.symbols, libc, "no_such_name", &address, NULL));
	assert_false(gm_symbols_lookup(view.symbols, libc, "", &address, NULL));
	assert_false(gm_symbols_lookup_any(view.symbols, "no_such_name", &address, &module));
	assert_int_equal(address, 77);
	assert_true(gm_symbols_lookup_any(view.symbols, "qsort", &address, &module));
	assert_ptr_equal(module, libc);
	dlclose(handle);
	close_view(&view);
}

/* The address through which a library calls a function of another one is that function's. */
static void imports_are_called_where_they_are_found(void **state)
{
	struct view view;
	open_view(&view);
	size_t count, found = 0;
	uint64_t address = 77;
	const struct gm_module *modules = gm_symbols_modules(view.symbols, &count);
	for (size_t i = 0; i < count; i++) {
		size_t (*length)(const char *);
		if (!gm_symbols_lookup_import(view.symbols, &modules[i], "strlen", &address))
			continue;
		assert_in_range(address, modules[i].start, modules[i].end);
		memcpy(&length, &address, sizeof(length));
		assert_int_equal(length("four"), 4);
		found++;
	}
	assert_true(found > 0);
	address = 77;
	for (size_t i = 0; i < count; i++) {
		assert_false(gm_symbols_lookup_import(
		        view.symbols, &modules[i], "no_such_name", &address));
		assert_false(gm_symbols_lookup_import(view.symbols, &modules[i], "", &address));
	}
	assert_int_equal(address, 77);
	close_view(&view);
}

static int local_function(int number)
{
	return number * 3;
}

static void local_functions_are_found_in_the_full_table(void **state)
{
	struct view view;
	open_view(&view);
	uint64_t address = 0;
	const struct gm_module *module = NULL;
	int (*volatile function)(int) = local_function; /* keeps it from being inlined away */
	assert_true(gm_symbols_lookup_any(view.symbols, "local_function", &address, &module));
	assert_int_equal(address, (uintptr_t)function);
	assert_string_equal(module->name, "test_symbols");
	close_view(&view);
}

static void libraries_come_and_go_and_keep_their_ids(void **state)
{
	_cleanup_free_ char *path = build("c++", "-g", "libcomes.so");
	if (!path)
		skip();
	struct view view;
	open_view(&view);
	const struct gm_module *libc = gm_symbols_find_module(view.symbols, "libc.so");
	uint32_t libc_id = libc->id;
	assert_null(gm_symbols_find_module(view.symbols, "libcomes.so"));
	void *handle = dlopen(path, RTLD_NOW);
	assert_non_null(handle);
	assert_null(gm_image_refresh(view.image));
	assert_null(gm_symbols_refresh(view.symbols));
	const struct gm_module *comes = gm_symbols_find_module(view.symbols, "libcomes.so");
	assert_non_null(comes);
	uint64_t inside = (uint64_t)(uintptr_t)dlsym(handle, "probe_static"), address = 0;
	assert_true(gm_symbols_lookup(view.symbols, comes, "probe_static", &address, NULL));
	assert_int_equal(address, inside);
	dlclose(handle);
	assert_null(gm_image_refresh(view.image));
	assert_null(gm_symbols_refresh(view.symbols));
	assert_null(gm_symbols_find_module(view.symbols, "libcomes.so"));
	assert_null(gm_symbols_module_at(view.symbols, inside));
	assert_string_equal(comes->name, "libcomes.so");
	assert_ptr_equal(gm_symbols_find_module(view.symbols, "libc.so"), libc);
	assert_int_equal(libc->id, libc_id);
	close_view(&view);
}

/* --- names and lines -------------------------------------------------------------------------- */

static void named_by_its_symbol(
        struct view *view, void *address, const char *function, uint64_t offset)
{
	uint64_t word = (uint64_t)(uintptr_t)address + offset;
	struct gm_symbol symbol;
	assert_null(gm_symbols_name(view->symbols, &word, 1, false, &symbol));
	assert_non_null(symbol.function);
	assert_string_equal(symbol.function, function);
	assert_int_equal(symbol.offset, offset);
}

static void addresses_are_named_by_what_covers_them(void **state)
{
	struct view view;
	open_view(&view);
	int (*volatile function)(int) = local_function;
	named_by_its_symbol(&view, (void *)(uintptr_t)function, "local_function", 0);
	named_by_its_symbol(&view, (void *)(uintptr_t)function, "local_function", 1);
	void *handle = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	named_by_its_symbol(&view, dlsym(handle, "qsort_r"), "qsort_r", 3);
	dlclose(handle);
	uint64_t nothing[3] = {0, 0x1234, UINT64_MAX};
	struct gm_symbol symbols[3];
	assert_null(gm_symbols_name(view.symbols, nothing, 3, true, symbols));
	for (size_t i = 0; i < 3; i++) {
		assert_null(symbols[i].function);
		assert_null(symbols[i].module);
	}
	assert_null(gm_symbols_name(view.symbols, nothing, 0, true, symbols));
	close_view(&view);
}

static void names_and_lines_are_right(const char *path)
{
	static const char *const functions[] = {
	        "int extension::line_in<void>(void**)", "extension::Layer::forward(void**)"};
	void *handle = dlopen(path, RTLD_NOW);
	assert_non_null(handle);
	int (*const *probes)(void **) = dlsym(handle, "probe_table");
	uint64_t addresses[3];
	int lines[3];
	for (size_t i = 0; i < 3; i++) {
		void *address;
		lines[i] = probes[i](&address);
		addresses[2 - i] = (uint64_t)(uintptr_t)address; /* not in order */
	}
	struct view view;
	open_view(&view);
	struct gm_symbol symbols[3];
	assert_null(gm_symbols_name(view.symbols, addresses, 3, true, symbols));
	for (size_t i = 0; i < 3; i++) {
		const struct gm_symbol *symbol = &symbols[2 - i];
		assert_non_null(symbol->function);
		if (i < 2)
			assert_string_equal(symbol->function, functions[i]);
		else
			assert_non_null(strstr(symbol->function, "hidden_line"));
		assert_non_null(symbol->file);
		assert_non_null(strstr(symbol->file, "/library.cpp"));
		assert_int_equal(symbol->file[0], '/');
		assert_int_equal(symbol->line, lines[i]);
	}
	close_view(&view);
	dlclose(handle);
}

static void lines_of_a_cpp_library(const char *compiler, const char *options)
{
	static int number;
	char name[32];
	snprintf(name, sizeof(name), "liblines%d.so", number++);
	_cleanup_free_ char *path = build(compiler, options, name);
	if (!path) {
		print_message("skipped: no %s here\n", compiler);
		skip();
	}
	names_and_lines_are_right(path);
}

static void lines_of_gcc_dwarf_5(void **state)
{
	lines_of_a_cpp_library("g++", "-g -gdwarf-5");
}
static void lines_of_gcc_dwarf_4(void **state)
{
	lines_of_a_cpp_library("g++", "-g -gdwarf-4");
}
static void lines_of_gcc_compressed(void **state)
{
	lines_of_a_cpp_library("g++", "-g -gz");
}
static void lines_of_clang_dwarf_5(void **state)
{
	lines_of_a_cpp_library("clang++", "-g -gdwarf-5");
}
static void lines_of_clang_dwarf_4(void **state)
{
	lines_of_a_cpp_library("clang++", "-g -gdwarf-4");
}

/* One unit with a long function that the linker removes, whose rows begin at address 0, and a short
 * one at a low address. */
static const char removing_source[] =
        "#define FOUR(x) x x x x\n"
        "__attribute__((noinline)) void removed(volatile int *p) {\n"
        "	FOUR(FOUR(FOUR(FOUR(FOUR(p[0]++; \n p[1]++;)))))\n"
        "}\n"
        "__attribute__((visibility(\"default\"))) int stays(int i) {\n"
        "	return i * 3;\n"
        "}\n";

static uint32_t line_of_what_stays(const char *options, const char *name)
{
	char source[128], path[128];
	snprintf(source, sizeof(source), "%s/removing.c", folder);
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *stream = fopen(source, "w");
	assert_non_null(stream);
	fputs(removing_source, stream);
	fclose(stream);
	assert_true(shell("cc -shared -fPIC -O1 -g -fvisibility=hidden -ffunction-sections "
	                  "-Wl,-z,noseparate-code %s -o %s %s",
	        options, path, source));
	void *handle = dlopen(path, RTLD_NOW);
	assert_non_null(handle);
	uint64_t address = (uint64_t)(uintptr_t)dlsym(handle, "stays") + 1;
	struct view view;
	open_view(&view);
	struct gm_symbol symbol;
	assert_null(gm_symbols_name(view.symbols, &address, 1, true, &symbol));
	assert_string_equal(symbol.function, "stays");
	uint32_t line = symbol.line;
	assert_int_equal(symbol.file != NULL, line != 0);
	close_view(&view);
	dlclose(handle);
	return line;
}

static void rows_of_removed_code_give_no_wrong_line(void **state)
{
	if (!shell("command -v cc >/dev/null"))
		skip();
	assert_int_equal(line_of_what_stays("", "libkept.so"), 7);
	assert_int_equal(line_of_what_stays("-Wl,--gc-sections", "libremoved.so"), 0);
}

static void a_stripped_library_is_named_from_its_debug_file(void **state)
{
	_cleanup_free_ char *path = build("g++", "-g", "libstripped.so");
	if (!path || !shell("command -v objcopy >/dev/null")) {
		print_message("skipped: no g++ or objcopy here\n");
		skip();
	}
	assert_true(shell("cd %s && objcopy --only-keep-debug libstripped.so libstripped.debug && "
	                  "strip -s libstripped.so && "
	                  "objcopy --add-gnu-debuglink=libstripped.debug libstripped.so",
	        folder));
	names_and_lines_are_right(path);
}

static void a_debug_file_of_another_build_is_refused(void **state)
{
	_cleanup_free_ char *path = build("g++", "-g", "liba.so");
	_cleanup_free_ char *other = build("g++", "-g -O2 -DOTHER=1", "libb.so");
	if (!path || !other)
		skip();
	struct gm_elf *file = NULL, *debug = NULL;
	assert_null(gm_elf_open(path, &file));
	char digits[65];
	for (uint32_t i = 0; i < file->build_id_size; i++)
		snprintf(digits + 2 * i, 3, "%02x", file->build_id[i]);
	assert_null(gm_debug_file_open(file, path, folder));
	char target[256];
	snprintf(target, sizeof(target), "%s/usr/lib/debug/.build-id/%.2s", folder, digits);
	assert_true(shell("mkdir -p %s && cp %s %s/%s.debug", target, other, target, digits + 2));
	assert_null(gm_debug_file_open(file, path, folder));
	assert_true(shell("cp %s %s/%s.debug", path, target, digits + 2));
	debug = gm_debug_file_open(file, path, folder);
	assert_non_null(debug);
	gm_elf_close(debug);
	gm_elf_close(file);
}

static void a_library_replaced_on_disk_is_not_named_wrongly(void **state)
{
	_cleanup_free_ char *path = build("g++", "-g", "libreplaced.so");
	if (!path)
		skip();
	void *handle = dlopen(path, RTLD_NOW);
	uint64_t address = (uint64_t)(uintptr_t)dlsym(handle, "probe_static");
	assert_int_equal(unlink(path), 0);
	free(build("g++", "-g -O0 -DOTHER=2", "libreplaced.so"));
	struct view view;
	open_view(&view);
	struct gm_symbol symbol;
	assert_null(gm_symbols_name(view.symbols, &address, 1, false, &symbol));
	assert_non_null(symbol.module);
	/* By the kernel's link to the old file, where we may use it; else not at all. */
	if (symbol.function)
		assert_string_equal(symbol.function, "probe_static");
	else
		assert_int_not_equal(geteuid(), 0);
	close_view(&view);
	dlclose(handle);
}

static void cpp_names_are_demangled_and_others_left(void **state)
{
	static const char *const pairs[][2] = {
	        {"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
	                "c10::reportMemoryUsageToProfiler(void*, long, unsigned long, unsigned "
	                "long, "
	                "c10::Device)"},
	        {"_ZTVN3c1011StorageImplE", "vtable for c10::StorageImpl"}, {"main", "main"},
	        {"_Zgarbage", "_Zgarbage"}, {"_Z", "_Z"}, {"", ""},
	        {"i", "i"}, /* a type's name to the demangler, a function's to us */
	};
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		_cleanup_free_ char *name = gm_demangle(pairs[i][0]);
		assert_string_equal(name, pairs[i][1]);
	}
	/* Nested without end: it must return, with any result. */
	_cleanup_free_ char *deep = malloc(200001);
	memset(deep, 'P', 200000);
	memcpy(deep, "_Z1f", 4);
	deep[200000] = '\0';
	_cleanup_free_ char *name = gm_demangle(deep);
	assert_non_null(name);
}

/* --- files ------------------------------------------------------------------------------------ */

static void a_files_addresses_are_named_without_a_process(void **state)
{
	_cleanup_free_ char *path = build("g++", "-g", "libfile.so");
	if (!path)
		skip();
	struct gm_elf *file = NULL;
	Elf64_Sym symbol;
	assert_null(gm_elf_open(path, &file));
	assert_true(gm_elf_lookup(file, "probe_static", false, &symbol));
	uint64_t offsets[2] = {symbol.st_value + 1, 1};
	char *names[2];
	assert_null(gm_symbols_name_in_file(
	        path, file->build_id, file->build_id_size, offsets, 2, names));
	assert_string_equal(names[0], "probe_static");
	assert_null(names[1]);
	free(names[0]);
	uint8_t other[20] = {1, 2, 3};
	struct gm_error *error = gm_symbols_name_in_file(path, other, 20, offsets, 2, names);
	assert_int_equal(error->status, GM_TARGET);
	assert_non_null(strstr(error->message, "another build"));
	gm_error_destroy(error);
	gm_elf_close(file);
}

static void a_file_that_is_not_elf_is_refused(void **state)
{
	struct {
		const char *path;
		enum gm_status status;
		const char *why;
	} cases[] = {
	        {"/etc/passwd", GM_CORRUPT, "not an ELF file"},
	        {"/dev/null", GM_CORRUPT, "not a regular file"},
	        {"/tmp", GM_CORRUPT, "not a regular file"},
	        {"/no/such/file", GM_TARGET, "cannot be opened"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t offset = 1;
		char *name;
		struct gm_error *error =
		        gm_symbols_name_in_file(cases[i].path, NULL, 0, &offset, 1, &name);
		assert_non_null(error);
		assert_int_equal(error->status, cases[i].status);
		assert_non_null(strstr(error->message, cases[i].why));
		gm_error_destroy(error);
	}
}

static char *read_whole(const char *path, size_t *ret_size)
{
	FILE *stream = fopen(path, "rb");
	assert_non_null(stream);
	fseek(stream, 0, SEEK_END);
	*ret_size = (size_t)ftell(stream);
	rewind(stream);
	char *bytes = malloc(*ret_size);
	assert_int_equal(fread(bytes, 1, *ret_size, stream), *ret_size);
	fclose(stream);
	return bytes;
}

static void use_open_file(struct gm_elf *file)
{
	Elf64_Sym symbol;
	gm_elf_lookup(file, "probe_static", false, &symbol);
	gm_elf_lookup(file, "probe_static", true, &symbol);
	gm_elf_lookup(file, "no_such", false, &symbol);
	struct gm_naming naming[64] = {0};
	struct gm_rows rows = {0};
	for (uint64_t i = 0; i < 64; i++) {
		naming[i].address = 0x1000 + i * 16;
		gm_rows_add(&rows, 0x1000 + i * 16, gm_elf_cfi(file), 0);
	}
	gm_naming_in_file(file, NULL, naming, 64);
	struct gm_line_request lines[64] = {0};
	struct gm_names names = {0};
	for (uint64_t i = 0; i < 64; i++)
		lines[i].address = 0x1000 + i * 16;
	gm_lines_find(file, lines, 64, &names);
	gm_names_deinit(&names);
	gm_rows_deinit(&rows);
}

/* Calls every reader on a damaged file; the test only expects them to return. */
static void use_file(const char *path)
{
	struct gm_elf *file = NULL;
	struct gm_error *error = gm_elf_open(path, &file);
	if (error) {
		assert_true(error->status == GM_CORRUPT || error->status == GM_TARGET);
		assert_non_null(strstr(error->message, path));
		gm_error_destroy(error);
		return;
	}
	use_open_file(file);
	gm_elf_close(file);
}

static void write_whole(const char *path, const char *bytes, size_t size)
{
	FILE *stream = fopen(path, "wb");
	assert_non_null(stream);
	assert_int_equal(fwrite(bytes, 1, size, stream), size);
	fclose(stream);
}

static void files_cut_short_or_damaged_do_no_harm(void **state)
{
	_cleanup_free_ char *path = build("g++", "-g", "libdamaged.so");
	if (!path)
		skip();
	char target[128];
	snprintf(target, sizeof(target), "%s/damaged", folder);
	size_t size;
	_cleanup_free_ char *bytes = read_whole(path, &size);
	for (size_t cut = 0; cut < size; cut += cut < 1024 ? 61 : 997) {
		write_whole(target, bytes, cut);
		use_file(target);
	}
	uint64_t random = 12345;
	_cleanup_free_ char *damaged = malloc(size);
	for (int round = 0; round < 300; round++) {
		memcpy(damaged, bytes, size);
		for (int i = 0; i < 1 + round % 40; i++) {
			random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
			/* Half of it in the headers at both ends, which steer everything. */
			size_t at = (size_t)(random >> 33) % size;
			if (i % 4 == 0)
				at = (size_t)(random >> 33) % 512;
			else if (i % 4 == 1)
				at = size - 1 - (size_t)(random >> 33) % 2048;
			damaged[at] = (char)(random >> 25);
		}
		write_whole(target, damaged, size);
		use_file(target);
	}
}

/* The owner of a file may cut or change it at any moment, also between a check and the use of what
 * was checked. */
static void a_file_that_is_cut_or_changed_while_it_is_open_does_no_harm(void **state)
{
	_cleanup_free_ char *path = build("g++", "-g", "libcut.so");
	if (!path)
		skip();
	char target[128];
	snprintf(target, sizeof(target), "%s/cut", folder);
	size_t size;
	_cleanup_free_ char *bytes = read_whole(path, &size);
	_cleanup_free_ char *letters = malloc(size);
	memset(letters, 'x', size);
	for (size_t left = 0; left < size; left += 4096) {
		struct gm_elf *file = NULL;
		write_whole(target, bytes, size);
		assert_null(gm_elf_open(target, &file));
		assert_int_equal(truncate(target, (off_t)left), 0);
		use_open_file(file);
		gm_elf_close(file);
	}
	/* no NUL from here on */
	for (size_t from = 4096; from < size; from += 4096) {
		struct gm_elf *file = NULL;
		write_whole(target, bytes, size);
		assert_null(gm_elf_open(target, &file));
		int fd = open(target, O_WRONLY | O_CLOEXEC);
		assert_int_equal(
		        pwrite(fd, letters, size - from, (off_t)from), (ssize_t)(size - from));
		close(fd);
		use_open_file(file);
		gm_elf_close(file);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(modules_are_where_the_dynamic_linker_put_them),
	        cmocka_unit_test(looked_up_addresses_are_those_of_dlsym),
	        cmocka_unit_test(imports_are_called_where_they_are_found),
	        cmocka_unit_test(local_functions_are_found_in_the_full_table),
	        cmocka_unit_test(libraries_come_and_go_and_keep_their_ids),
	        cmocka_unit_test(addresses_are_named_by_what_covers_them),
	        cmocka_unit_test(lines_of_gcc_dwarf_5),
	        cmocka_unit_test(lines_of_gcc_dwarf_4),
	        cmocka_unit_test(lines_of_gcc_compressed),
	        cmocka_unit_test(lines_of_clang_dwarf_5),
	        cmocka_unit_test(lines_of_clang_dwarf_4),
	        cmocka_unit_test(rows_of_removed_code_give_no_wrong_line),
	        cmocka_unit_test(a_stripped_library_is_named_from_its_debug_file),
	        cmocka_unit_test(a_debug_file_of_another_build_is_refused),
	        cmocka_unit_test(a_library_replaced_on_disk_is_not_named_wrongly),
	        cmocka_unit_test(cpp_names_are_demangled_and_others_left),
	        cmocka_unit_test(a_files_addresses_are_named_without_a_process),
	        cmocka_unit_test(a_file_that_is_not_elf_is_refused),
	        cmocka_unit_test(files_cut_short_or_damaged_do_no_harm),
	        cmocka_unit_test(a_file_that_is_cut_or_changed_while_it_is_open_does_no_harm),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
