/*
 * Finds the interpreter in an image: the address of _PyRuntime, its version, and the tables that
 * fit. It reads no frames, and only the objects that prove that the tables fit.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cpython/versions/learned.h"
#include "cpython/versions/locate.h"
#include "cpython/versions/locate_file.h"
#include "cpython/python.h"
#include "image/layouts_file.h"

struct found {
	uint64_t runtime;
	const struct gm_module *module;
	const char *by;
	unsigned long
	        hex; /* PY_VERSION_HEX, with micro and level 0 if only the name shows the version */
	bool exact;  /* hex is the whole version */
	bool free_threaded;
};

/* "libpython3.10.so.1.0", "python3.10", "python3.13t" -> 0x030a0000; 0: the name has no version. */
unsigned long gm_python_version_of_name(const char *name, bool *ret_free_threaded)
{
	const char *at = strstr(name, "python3.");
	int minor = 0;
	int used = 0;

	*ret_free_threaded = false;
	if (!at || sscanf(at, "python3.%3d%n", &minor, &used) != 1 || minor < 0 || minor > 255)
		return 0;
	*ret_free_threaded = at[used] == 't';
	return 0x03000000UL | (unsigned long)minor << 16;
}

static bool looks_like_python(const struct gm_module *module)
{
	return !strncmp(module->name, "python", 6) || !strncmp(module->name, "libpython", 9);
}

static void find_runtime(struct gm_python *python, struct found *found)
{
	const struct gm_module *modules;
	size_t count;

	if (gm_symbols_lookup_any(python->symbols, "_PyRuntime", &found->runtime, &found->module)) {
		found->by = "symbol _PyRuntime";
		return;
	}
	/* Without that symbol (a stripped program with Python linked in), the section still has its
	 * name. */
	modules = gm_symbols_modules(python->symbols, &count);
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < count; i++) {
			uint64_t offset;
			if ((pass == 0) != (looks_like_python(&modules[i]) || i == 0))
				continue;
			if (gm_python_find_section(
			            python->image, modules[i].path, ".PyRuntime", &offset)) {
				found->runtime = offset + modules[i].bias;
				found->module = &modules[i];
				found->by = "ELF section .PyRuntime";
				return;
			}
		}
	}
}

static void find_version(struct gm_python *python, struct found *found)
{
	struct gm_published_head head;
	uint64_t address;
	uint64_t size;
	bool free_threaded;

	if (gm_image_try_read(python->image, found->runtime, &head, sizeof(head)) &&
	        !memcmp(head.cookie, "xdebugpy", 8)) {
		found->hex = (unsigned long)head.version;
		found->free_threaded = head.free_threaded == 1;
		found->exact = true;
		return;
	}
	if (gm_symbols_lookup(python->symbols, found->module, "Py_Version", &address, &size)) {
		uint64_t hex;
		if (gm_py_u64(python, address, &hex) && hex >> 24 == 3) {
			found->hex = (unsigned long)hex;
			found->exact = true;
			return;
		}
	}
	found->hex = gm_python_version_of_name(found->module->name, &free_threaded);
	found->free_threaded = free_threaded;
	if (!found->hex || found->hex >> 16 < 0x030b) {
		unsigned long hex = gm_python_version_in_file(
		        python->image, found->module->path, found->hex >> 16);
		if (hex) {
			found->hex = hex;
			found->exact = true;
		}
	}
}

/* Nothing is loaded later into a core. */
static struct gm_error *error_not_yet(
        const struct gm_python *python, const char *why, const char *when)
{
	if (gm_image_goes_on(python->image))
		return gm_error_create(
		        GM_TARGET, "no Python here yet: %s: ask again when %s", why, when);
	return gm_error_create(
	        GM_TARGET, "no Python in it: %s: give a core of a Python program", why);
}

/* The list of interpreters, their threads and sys.modules must have the types that the table
 * implies. */
static struct gm_error *check(struct gm_python *python)
{
	const struct gm_python_layout *layout = &python->layout;
	uint32_t initialized = 0;
	uint64_t interpreter;
	uint64_t thread;
	uint64_t type;
	uint64_t metatype;

	if (!gm_image_try_u32(python->image,
	            python->runtime + (uint64_t)layout->runtime_initialized, &initialized) ||
	        !initialized)
		return error_not_yet(python, "its library is not initialised, or Python has ended",
		        "the program runs Python code");
	interpreter = gm_py_field(python, python->runtime, layout->runtime_interpreters_head);
	thread = interpreter ? gm_py_field(python, interpreter, layout->interpreter_threads) : 0;
	if (!thread)
		return error_not_yet(
		        python, "no interpreter has a thread", "the program runs Python code");
	uint64_t modules = gm_py_field(python, interpreter, layout->interpreter_modules);
	type = gm_py_field(python, modules, layout->object_type);
	metatype = gm_py_field(python, type, layout->object_type);
	if (gm_py_field(python, thread, layout->thread_interpreter) != interpreter || !metatype ||
	        gm_py_field(python, metatype, layout->object_type) != metatype) {
		python->unfit = true;
		return gm_error_create(GM_TARGET,
		        "CPython %s: its struct layouts differ from the known releases (a debug or "
		        "patched build?): Python stacks and variables cannot be read; events, "
		        "blocks and native stacks still work",
		        python->version_text);
	}
	python->type_type = metatype;
	return NULL;
}

static void say_version(struct gm_python *python, const struct found *found)
{
	static const char levels[16][3] = {[0xa] = "a", [0xb] = "b", [0xc] = "rc"};
	const unsigned long hex = found->hex;
	const char *level = levels[hex >> 4 & 15];

	if (!found->exact)
		snprintf(python->version_text, sizeof(python->version_text), "%lu.%lu", hex >> 24,
		        hex >> 16 & 255);
	else if (*level)
		snprintf(python->version_text, sizeof(python->version_text), "%lu.%lu.%lu%s%lu",
		        hex >> 24, hex >> 16 & 255, hex >> 8 & 255, level, hex & 15);
	else
		snprintf(python->version_text, sizeof(python->version_text), "%lu.%lu.%lu",
		        hex >> 24, hex >> 16 & 255, hex >> 8 & 255);
}

/* Finds the runtime and its version. Builds without a layout are rejected, with their name. */
static struct gm_error *find(struct gm_python *python, struct found *found)
{
	find_runtime(python, found);
	if (!found->runtime || !found->module)
		return error_not_yet(python,
		        "no loaded file has the symbol _PyRuntime or a section .PyRuntime",
		        "the program has loaded Python");
	python->runtime = found->runtime;
	python->found_by = found->by;
	find_version(python, found);
	if (!found->hex)
		return gm_error_create(GM_TARGET,
		        "Python in %s: its version cannot be determined: events, blocks and native "
		        "stacks still work",
		        found->module->path);
	python->version = (int)(found->hex >> 16);
	say_version(python, found);
	if (found->free_threaded)
		return gm_error_create(GM_TARGET,
		        "CPython %st (free-threaded): its struct layouts are not known here: run "
		        "the program on "
		        "the GIL build for Python stacks and variables; events, blocks and native "
		        "stacks still "
		        "work",
		        python->version_text);
	return NULL;
}

static struct gm_error *use_shipped(struct gm_python *python, const struct found *found)
{
	const struct gm_python_tables *tables =
	        gm_layouts_are_hidden() ? NULL : gm_python_tables_of(python->version);

	python->unfit = true;
	if (!tables)
		return gm_error_create(GM_TARGET,
		        "CPython %s: its struct layouts are not known here (" GM_PYTHON_VERSIONS
		        " are): Python stacks and variables cannot be read; events, blocks and "
		        "native stacks still work. `gpumem learn PYTHON`, with exactly that "
		        "Python, learns them",
		        python->version_text);
	python->unfit = false;
	gm_py_use_tables(python, tables);
	if (python->version >= 0x030d) {
		uint8_t published[GM_PUBLISHED_MOST];
		if (gm_image_try_read(python->image, python->runtime, published, sizeof(published)))
			gm_python_put_published(tables, &python->layout, published);
		if (found->exact)
			python->found_by =
			        !strcmp(found->by, "symbol _PyRuntime")
			                ? "symbol _PyRuntime, with _Py_DebugOffsets"
			                : "ELF section .PyRuntime, with _Py_DebugOffsets";
	}
	return check(python);
}

/* A learned layout is used if no shipped one fits: for a version without one, or for a different
 * build. */
static struct gm_error *open_python(struct gm_python *python, const char *layouts)
{
	_cleanup_error_ struct gm_error *error = NULL;
	const struct gm_python_tables *learned;
	struct found found = {0};

	gm_try(find(python, &found));
	error = use_shipped(python, &found);
	if (!error || !python->unfit)
		return gm_take(error);
	gm_try(gm_python_learned_find(
	        found.module->build_id, found.module->build_id_size, layouts, &learned));
	if (!learned)
		return gm_take(error);
	python->found_by = found.by;
	gm_py_use_tables(python, learned);
	return check(python);
}

static struct gm_error *create(
        struct gm_image *image, struct gm_symbols *symbols, struct gm_python **ret_python)
{
	struct gm_python *python = calloc(1, sizeof(*python));

	if (!python)
		return &gm_error_no_memory;
	python->image = image;
	python->symbols = symbols;
	*ret_python = python;
	return NULL;
}

struct gm_error *gm_python_open_with(struct gm_image *image, struct gm_symbols *symbols,
        const char *layouts, struct gm_python **ret_python)
{
	struct gm_python *python = NULL;
	struct gm_error *error;

	gm_try(create(image, symbols, &python));
	error = open_python(python, layouts);
	if (error) {
		gm_python_close(python);
		return error;
	}
	*ret_python = python;
	return NULL;
}

struct gm_error *gm_python_open(
        struct gm_image *image, struct gm_symbols *symbols, struct gm_python **ret_python)
{
	return gm_python_open_with(image, symbols, NULL, ret_python);
}

struct gm_error *gm_python_open_row(struct gm_image *image, struct gm_symbols *symbols,
        const struct gm_python_tables *tables, struct gm_python **ret_python)
{
	struct found found = {0};
	struct gm_python *python = NULL;
	struct gm_error *error;

	gm_try(create(image, symbols, &python));
	error = find(python, &found);
	if (!error && python->version != tables->version)
		error = gm_error_create(GM_TARGET, "CPython %s: the row is of another version",
		        python->version_text);
	if (!error) {
		gm_py_use_tables(python, tables);
		error = check(python);
	}
	if (error) {
		gm_python_close(python);
		return error;
	}
	*ret_python = python;
	return NULL;
}

struct gm_error *gm_python_build(struct gm_image *image, struct gm_symbols *symbols,
        const char *layouts, struct gm_python_build *ret_build)
{
	struct gm_python python = {.image = image, .symbols = symbols};
	const struct gm_python_tables *learned = NULL;
	struct found found = {0};

	gm_try(find(&python, &found));
	_cleanup_error_ struct gm_error *error = use_shipped(&python, &found);
	if (python.unfit)
		gm_try(gm_python_learned_find(
		        found.module->build_id, found.module->build_id_size, layouts, &learned));
	ret_build->module = found.module;
	ret_build->known = !python.unfit || learned;
	snprintf(ret_build->version, sizeof(ret_build->version), "%s", python.version_text);
	return NULL;
}

void gm_python_close(struct gm_python *python)
{
	if (!python)
		return;
	for (size_t i = 0; i < GM_CODE_BUCKETS; i++) {
		for (struct gm_code_entry *entry = python->codes[i], *next; entry; entry = next) {
			next = entry->next;
			gm_py_code_destroy(entry);
		}
	}
	gm_py_types_destroy(python);
	gm_array_deinit(&python->raw);
	gm_array_deinit(&python->reads);
	gm_array_deinit(&python->checked);
	gm_array_deinit(&python->heads);
	gm_address_set_deinit(&python->running);
	free(python);
}

const char *gm_python_version(const struct gm_python *python)
{
	return python->version_text;
}

int gm_python_version_hex(const struct gm_python *python)
{
	return python->version;
}

uint64_t gm_python_pool_size(const struct gm_python *python)
{
	return (uint64_t)python->layout.pool_size;
}

const char *gm_python_found_by(const struct gm_python *python)
{
	return python->found_by;
}
