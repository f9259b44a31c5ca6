#include "torch/readers.h"
#include "torch/torch.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#include "base/regular_file.h"
#include "image/layouts_file.h"
#include "torch/internal.h"
#include "torch/layouts.h"
#include "torch/names.h"

enum { MAX_VERSION_FILE = 64 * 1024 };

/* The module next to version.py: libc10.so is in torch/lib/. */
static const struct gm_module *find_c10(struct gm_symbols *symbols)
{
	size_t count;
	const struct gm_module *modules = gm_symbols_modules(symbols, &count);
	for (size_t i = 0; i < count; i++)
		if (strcmp(modules[i].name, "libc10.so") == 0)
			return &modules[i];
	return NULL;
}

/* The value of __version__ in torch/version.py, a file that torch's build writes. */
static bool parse_version(const char *text, char *version, size_t size)
{
	const char *cursor = strstr(text, "__version__");
	/* `__all__` names it first, in quotes: the assignment starts a line */
	while (cursor && cursor != text && cursor[-1] != '\n')
		cursor = strstr(cursor + 1, "__version__");
	if (!cursor)
		return false;
	cursor += strcspn(cursor, "'\"\n");
	if (*cursor != '\'' && *cursor != '"')
		return false;
	size_t length = strcspn(cursor + 1, "'\"\n");
	if (length == 0 || length >= size || !isdigit((unsigned char)cursor[1]))
		return false;
	memcpy(version, cursor + 1, length);
	version[length] = 0;
	return true;
}

static struct gm_error *read_version(struct gm_torch *torch, const struct gm_module *c10)
{
	const char *end = strrchr(c10->path, '/');
	while (end && end > c10->path && end[-1] != '/')
		end--; /* to "torch/" */
	if (!end || end == c10->path)
		return gm_error_create(GM_TARGET,
		        "PyTorch: its library has no folder (%s): report this", c10->path);
	_cleanup_free_ char *sibling = NULL, *path = NULL;
	if (asprintf(&sibling, "%.*sversion.py", (int)(end - c10->path), c10->path) < 0)
		return &gm_error_no_memory;
	gm_try(gm_image_file_path(torch->image, sibling, &path));
	_cleanup_close_ int file = gm_regular_file_open(path);
	if (file < 0)
		return gm_error_create(GM_TARGET,
		        "PyTorch's version is not known: %s: %s: gpumem needs it to know the "
		        "layouts; "
		        "an installation from a wheel has that file",
		        sibling, gm_regular_file_why(errno));
	_cleanup_free_ char *text = malloc(MAX_VERSION_FILE + 1);
	if (!text)
		return &gm_error_no_memory;
	ssize_t size = read(file, text, MAX_VERSION_FILE);
	text[size > 0 ? size : 0] = 0;
	if (!parse_version(text, torch->version, sizeof(torch->version)))
		return gm_error_create(GM_TARGET,
		        "PyTorch's version is not known: %s has no __version__: gpumem needs it to "
		        "know "
		        "the layouts; an installation from a wheel has it",
		        sibling);
	return NULL;
}

/* Which std::string it was built with: with the old ABI the string parameter of c10::Error's
 * constructor is mangled "Ss". */
static bool has_old_strings(struct gm_symbols *symbols, const struct gm_module *c10)
{
	uint64_t address;
	return gm_symbols_lookup(
	        symbols, c10, "_ZN3c105ErrorC1ENS_14SourceLocationESs", &address, NULL);
}

/* A layout from the named file, a shipped one, or a learned one. NULL layout: there is none. */
static struct gm_error *find_row(struct gm_torch *torch, const char *layouts)
{
	struct gm_torch_builds builds = {.old_strings = torch->old_strings};
	struct gm_torch_learned learned;
	bool found = false;
	gm_torch_builds_read(torch->symbols, &builds);
	if (layouts) {
		gm_try(gm_torch_learned_load(layouts, &learned));
		const char *other = gm_torch_builds_differ(&learned.builds, &builds);
		if (other)
			return gm_error_create(GM_CORRUPT,
			        "%s: it is of another build than the target's: %s (the file is of "
			        "PyTorch %s, the target is %s): learn that one with `gpumem learn "
			        "PYTHON -o FILE`",
			        layouts, other, learned.builds.version, torch->version);
		found = true;
	} else {
		torch->layout = gm_layouts_of_torch_are_hidden()
		                        ? NULL
		                        : gm_torch_layout_for(torch->version, torch->old_strings);
		if (!torch->layout)
			gm_try(gm_torch_kept_find(&builds, &learned, &found));
	}
	if (found) {
		torch->learned = learned.layout;
		torch->layout = &torch->learned;
	}
	return NULL;
}

/* The part of gm_torch_open() before it knows a layout. */
static struct gm_error *begin(struct gm_image *image, struct gm_symbols *symbols,
        const char *layouts, struct gm_torch *torch)
{
	const struct gm_module *c10 = find_c10(symbols);
	if (!c10 && !gm_image_goes_on(image))
		return gm_error_create(GM_TARGET, "no PyTorch in it: libc10.so is not among the "
		                                  "process's libraries: give a core "
		                                  "of a PyTorch program");
	if (!c10)
		return gm_error_create(GM_TARGET, "torch is not loaded yet: libc10.so is not among "
		                                  "the process's libraries: ask "
		                                  "again after the program has imported torch");
	torch->image = image;
	torch->symbols = symbols;
	gm_try(read_version(torch, c10));
	torch->old_strings = has_old_strings(symbols, c10);
	return find_row(torch, layouts);
}

struct gm_error *gm_torch_is_known(
        struct gm_image *image, struct gm_symbols *symbols, const char *layouts, bool *ret_known)
{
	_cleanup_free_ struct gm_torch *torch = calloc(1, sizeof(*torch));
	if (!torch)
		return &gm_error_no_memory;
	gm_try(begin(image, symbols, layouts, torch));
	*ret_known = torch->layout != NULL;
	return NULL;
}

static struct gm_error *unknown(const struct gm_torch *torch)
{
	return gm_error_create(GM_TARGET,
	        "PyTorch %s%s: gpumem has no table of its object layouts (it has: %s): events and "
	        "call stacks still work; for the rest let gpumem learn it, with `gpumem learn "
	        "PYTHON` and that same Python",
	        torch->version, torch->old_strings ? " built with the old std::string" : "",
	        gm_torch_layout_versions());
}

static struct gm_error *finish(struct gm_torch *torch, struct gm_image *image,
        struct gm_symbols *symbols, struct gm_python *python, struct gm_torch **ret_torch)
{
	torch->python = python;
	gm_classes_init(&torch->classes, image, symbols);
	*ret_torch = torch;
	return NULL;
}

struct gm_error *gm_torch_open_with(struct gm_image *image, struct gm_symbols *symbols,
        struct gm_python *python, const char *layouts, struct gm_torch **ret_torch)
{
	_cleanup_free_ struct gm_torch *torch = calloc(1, sizeof(*torch));
	if (!torch)
		return &gm_error_no_memory;
	gm_try(begin(image, symbols, layouts, torch));
	if (!torch->layout)
		return unknown(torch);
	return finish(gm_take(torch), image, symbols, python, ret_torch);
}

struct gm_error *gm_torch_open(struct gm_image *image, struct gm_symbols *symbols,
        struct gm_python *python, struct gm_torch **ret_torch)
{
	return gm_torch_open_with(image, symbols, python, NULL, ret_torch);
}

struct gm_error *gm_torch_open_row(struct gm_image *image, struct gm_symbols *symbols,
        struct gm_python *python, const struct gm_torch_layout *layout, struct gm_torch **ret_torch)
{
	_cleanup_free_ struct gm_torch *torch = calloc(1, sizeof(*torch));
	if (!torch)
		return &gm_error_no_memory;
	snprintf(torch->version, sizeof(torch->version), "%d.%d", layout->major,
	        layout->minor_first);
	torch->image = image;
	torch->symbols = symbols;
	torch->learned = *layout;
	torch->layout = &torch->learned;
	return finish(gm_take(torch), image, symbols, python, ret_torch);
}

struct gm_error *gm_torch_builds_of(
        struct gm_image *image, struct gm_symbols *symbols, struct gm_torch_builds *ret_builds)
{
	struct gm_torch_builds builds = {0};
	struct gm_torch torch = {.image = image, .symbols = symbols};
	const struct gm_module *c10 = find_c10(symbols);
	if (!c10)
		return gm_error_create(
		        GM_TARGET, "no PyTorch in it: libc10.so is not among its libraries");
	gm_try(read_version(&torch, c10));
	memcpy(builds.version, torch.version, sizeof(builds.version));
	builds.old_strings = has_old_strings(symbols, c10);
	gm_torch_builds_read(symbols, &builds);
	*ret_builds = builds;
	return NULL;
}

void gm_torch_close(struct gm_torch *torch)
{
	if (!torch)
		return;
	gm_classes_deinit(&torch->classes);
	gm_map_deinit(&torch->statics);
	gm_map_deinit(&torch->block_records);
	free(torch);
}

const char *gm_torch_version(const struct gm_torch *torch)
{
	return torch->version;
}

struct gm_classes *gm_torch_classes(struct gm_torch *torch)
{
	return &torch->classes;
}

const struct gm_torch_layout *gm_torch_layout_of(const struct gm_torch *torch)
{
	return torch->layout;
}

/* libc10_cuda.so may be loaded after libc10.so: look again until it is found. */
static uint64_t allocator_variable(struct gm_torch *torch)
{
	if (torch->allocator_variable == 0) {
		const struct gm_module *module =
		        gm_symbols_find_module(torch->symbols, "libc10_cuda.so");
		uint64_t address;
		if (module && gm_symbols_lookup(
		                      torch->symbols, module, GM_TORCH_ALLOCATOR, &address, NULL))
			torch->allocator_variable = address;
	}
	return torch->allocator_variable;
}

uint64_t gm_torch_allocator_object(struct gm_torch *torch)
{
	uint64_t variable = allocator_variable(torch), object = 0;
	if (variable == 0 || !gm_image_try_u64(torch->image, variable, &object) ||
	        !gm_is_object_address(object))
		return 0;
	return object;
}

const char *gm_torch_allocator_kind(struct gm_torch *torch)
{
	uint64_t object = gm_torch_allocator_object(torch), vtable;
	if (object == 0 || !gm_image_try_u64(torch->image, object, &vtable))
		return "none";
	const struct gm_class *class = gm_classes_at(&torch->classes, vtable);
	if (!class)
		return "none";
	const char *last = gm_class_name(class);
	for (const char *cursor; (cursor = strstr(last, "::"));)
		last = cursor + 2;
	if (strcmp(last, "NativeCachingAllocator") == 0) {
		/* the object exists when the library is loaded; devices are added when CUDA is
		 * initialized */
		uint64_t bounds[2];
		if (!gm_image_try_read(torch->image, object + torch->layout->allocator.devices,
		            bounds, sizeof(bounds)) ||
		        bounds[0] == bounds[1])
			return "none";
		return "native";
	}
	if (strcmp(last, "CudaMallocAsyncAllocator") == 0)
		return "cudaMallocAsync";
	if (strcmp(last, "CUDAPluggableAllocator") == 0)
		return "pluggable";
	snprintf(torch->allocator_kind, sizeof(torch->allocator_kind), "%s", gm_class_name(class));
	return torch->allocator_kind;
}
