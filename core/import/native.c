#include "import/native.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "import/values.h"

static bool equals(const char *bytes, size_t length, const char *text)
{
	return length == strlen(text) && memcmp(bytes, text, length) == 0;
}

static bool begins(const char *bytes, size_t length, const char *text)
{
	size_t size = strlen(text);
	return length >= size && memcmp(bytes, text, size) == 0;
}

static bool has_end_of(const char *file, size_t length, const char *const *ends, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (length > strlen(ends[i]) && gm_bytes_end_with(file, length, ends[i]))
			return true;
	return false;
}

/* "libtorch.so", "libpython3.11.so.1.0", "libc.so.6": ".so" at the end of the name, or before a
 * number. */
static bool is_shared_object(const char *file, size_t length)
{
	const char *slash = memrchr(file, '/', length);
	size_t start = slash ? (size_t)(slash - file) + 1 : 0;
	for (size_t at = start; at + 3 <= length; at++) {
		if (memcmp(file + at, ".so", 3) != 0)
			continue;
		if (at + 3 == length || file[at + 3] == '.')
			return true;
	}
	return false;
}

enum gm_file_kind gm_file_kind_of_name(const char *file, size_t length)
{
	static const char deleted[] = " (deleted)"; /* as in the kernel's list of mapped files */
	static const char *const python[] = {".py", ".pyc", ".pyi", ".pyw", ".ipynb"};
	static const char *const sources[] = {".c", ".cc", ".cpp", ".cxx", ".c++", ".C", ".h",
	        ".hh", ".hpp", ".hxx", ".cu", ".cuh", ".hip", ".inc", ".inl", ".ipp", ".tcc", ".S",
	        ".s", ".asm", ".rs", ".pyx", ".pxd", ".pxi", ".m", ".mm", ".f", ".f90"};
	static const char *const objects[] = {
	        ".so", ".dylib", ".dll", ".DLL", ".pyd", ".exe", ".o"};
	if (gm_bytes_end_with(file, length, deleted))
		length -= sizeof(deleted) - 1;
	if (length == 0 || equals(file, length, "??") || equals(file, length, "<unknown>"))
		return GM_FILE_SOURCE; /* a file of unknown kind */
	if (has_end_of(file, length, python, sizeof(python) / sizeof(*python)))
		return GM_FILE_PYTHON;
	if (has_end_of(file, length, objects, sizeof(objects) / sizeof(*objects)) ||
	        is_shared_object(file, length) || file[0] == '[') /* [vdso] */
		return GM_FILE_OBJECT;
	if (has_end_of(file, length, sources, sizeof(sources) / sizeof(*sources)))
		return GM_FILE_SOURCE;
	return file[0] == '<' ? GM_FILE_PYTHON : GM_FILE_UNKNOWN; /* <string>, <frozen runpy> */
}

/* The language whose functions have such names. GM_FILE_UNKNOWN: any. */
static enum gm_file_kind kind_of_function(const char *name, size_t length)
{
	/* Python's own names for code without a name */
	static const char *const python[] = {
	        "<module>", "<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"};
	for (size_t i = 0; i < sizeof(python) / sizeof(*python); i++)
		if (equals(name, length, python[i]))
			return GM_FILE_PYTHON;
	bool nothing = length == 0 || equals(name, length, "??");
	bool entry = equals(name, length, "_start") || begins(name, length, "__libc_start");
	bool interpreter = begins(name, length, "_PyEval_") || begins(name, length, "PyEval_") ||
	                   begins(name, length, "Py_RunMain") ||
	                   begins(name, length, "Py_BytesMain");
	bool mangled = begins(name, length, "_Z");
	/* "at::native::empty(...)", "operator new(unsigned long)" */
	bool plus = memchr(name, '(', length) || memmem(name, length, "::", 2);
	if (nothing || entry || interpreter || mangled || plus)
		return GM_FILE_OBJECT;
	return GM_FILE_UNKNOWN;
}

/* Programs have offsets as lines, and headers of C++ without a suffix
 * ("/usr/include/c++/12/functional") have lines. */
static enum gm_file_kind kind_of_native(const char *file, size_t length)
{
	return memmem(file, length, "/include/", 9) ? GM_FILE_SOURCE : GM_FILE_OBJECT;
}

uint8_t *gm_file_kinds(const struct gm_pickle *pickle)
{
	/* in addition to enum gm_file_kind, while names are read: an earlier frame had the name of
	 * a native function */
	enum { PERHAPS_NATIVE = 1 << 7 };
	uint8_t *kinds = calloc(pickle->strings.count + 1, 1);
	size_t length, name_length;
	if (!kinds)
		return NULL;
	for (size_t i = 0; i < pickle->frames.count; i++) {
		const struct gm_frame_record *frame = &pickle->frames.items[i];
		uint8_t *kind = &kinds[frame->file];
		if (*kind & ~PERHAPS_NATIVE)
			continue;
		const char *file = gm_pickle_string(pickle, frame->file, &length);
		if (!*kind)
			*kind = (uint8_t)gm_file_kind_of_name(file, length);
		if (*kind & ~PERHAPS_NATIVE)
			continue;
		const char *name = gm_pickle_string(pickle, frame->name, &name_length);
		enum gm_file_kind by_name = kind_of_function(name, name_length);
		if (by_name == GM_FILE_PYTHON)
			*kind = GM_FILE_PYTHON;
		else if (by_name == GM_FILE_OBJECT)
			*kind = PERHAPS_NATIVE;
	}
	for (uint32_t id = 0; id <= pickle->strings.count; id++) {
		const char *file = gm_pickle_string(pickle, id, &length);
		if (kinds[id] == PERHAPS_NATIVE)
			kinds[id] = (uint8_t)kind_of_native(file, length);
		else if (kinds[id] == GM_FILE_UNKNOWN)
			kinds[id] = GM_FILE_PYTHON;
	}
	return kinds;
}
