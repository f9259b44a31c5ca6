/*
 * The modules of an image: which ELF files are mapped and where. Found from the mappings and the
 * ELF header in the image's own memory, so that no file must be opened: a process has hundreds of
 * libraries, and a question needs a few.
 */
#include <limits.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/search.h"
#include "image/build_id.h"
#include "symbols/debug_file.h"
#include "symbols/internal.h"

enum {
	HEADER_SIZE = 4096, /* ELF header, program headers and usually the build-id note */
	NOTES_MAX = 4096,
};
static const uint64_t SPAN_MAX = UINT64_C(64) << 30;

/* A mapping that may begin a module, and its first bytes. */
struct candidate {
	size_t mapping;
	uint8_t header[HEADER_SIZE];
};

static bool may_begin_module(const struct gm_mapping *mapping)
{
	if (!(mapping->flags & GM_MAPPING_READ) || (mapping->flags & GM_MAPPING_DEVICE))
		return false;
	if (strcmp(mapping->path, "[vdso]") == 0)
		return true;
	return mapping->path[0] == '/' && mapping->inode != 0 && mapping->file_offset == 0;
}

static void find_build_id(const uint8_t *notes, size_t size, struct gm_module *module)
{
	struct gm_build_id id;
	if (!gm_build_id_in_notes(notes, size, sizeof(module->build_id), &id))
		return;
	memcpy(module->build_id, id.bytes, id.size);
	module->build_id_size = id.size;
}

static void read_notes(struct gm_image *image, const uint8_t *header, const Elf64_Phdr *segment,
        struct gm_module *module)
{
	uint8_t notes[NOTES_MAX];
	size_t size = segment->p_filesz < NOTES_MAX ? segment->p_filesz : NOTES_MAX;
	if (segment->p_offset <= HEADER_SIZE && size <= HEADER_SIZE - segment->p_offset)
		find_build_id(header + segment->p_offset, size, module);
	else if (gm_image_try_read(image, module->bias + segment->p_vaddr, notes, size))
		find_build_id(notes, size, module);
}

/* Bias, extent and build-id from the ELF header in memory; false: no module begins here. */
static bool read_header(
        struct gm_image *image, const uint8_t *header, uint64_t start, struct gm_module *module)
{
	Elf64_Ehdr elf;
	memcpy(&elf, header, sizeof(elf));
	if (memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
	        elf.e_ident[EI_DATA] != ELFDATA2LSB || elf.e_machine != EM_X86_64 ||
	        elf.e_phentsize != sizeof(Elf64_Phdr) || elf.e_phoff > HEADER_SIZE)
		return false;
	size_t capacity = (HEADER_SIZE - elf.e_phoff) / sizeof(Elf64_Phdr);
	size_t count = elf.e_phnum < capacity ? elf.e_phnum : capacity;
	Elf64_Phdr segments[HEADER_SIZE / sizeof(Elf64_Phdr)];
	memcpy(segments, header + elf.e_phoff, count * sizeof(Elf64_Phdr));
	uint64_t low = UINT64_MAX, high = 0;
	for (size_t i = 0; i < count; i++) {
		const Elf64_Phdr *segment = &segments[i];
		if (segment->p_type != PT_LOAD || segment->p_memsz > SPAN_MAX)
			continue;
		if (segment->p_vaddr < low)
			low = segment->p_vaddr;
		if (segment->p_vaddr + segment->p_memsz > high)
			high = segment->p_vaddr + segment->p_memsz;
	}
	low &= ~UINT64_C(4095);
	if (high <= low || high - low > SPAN_MAX || high - low > UINT64_MAX - start)
		return false;
	module->start = start;
	module->end = start + (high - low);
	module->bias = start - low;
	for (size_t i = 0; i < count; i++) {
		const Elf64_Phdr *segment = &segments[i];
		if (segment->p_type == PT_GNU_RELRO && segment->p_vaddr >= low &&
		        segment->p_vaddr < high && segment->p_memsz <= high - segment->p_vaddr) {
			module->relocated_start = module->bias + segment->p_vaddr;
			module->relocated_end = module->relocated_start + segment->p_memsz;
		}
	}
	for (size_t i = 0; i < count && module->build_id_size == 0; i++) {
		if (segments[i].p_type == PT_NOTE)
			read_notes(image, header, &segments[i], module);
	}
	return true;
}

/* Code of the same file must be mapped within it: a library that a program only reads as data has
 * none. */
static bool has_code(const struct gm_mapping *mappings, size_t count, size_t first, uint64_t end)
{
	for (size_t i = first; i < count && mappings[i].start < end; i++) {
		if ((mappings[i].flags & GM_MAPPING_EXEC) &&
		        mappings[i].inode == mappings[first].inode &&
		        strcmp(mappings[i].path, mappings[first].path) == 0)
			return true;
	}
	return false;
}

/* "libc10.so", also for a file that was deleted or replaced while it is mapped. The path shows
 * that; then the file's bytes are available only through the kernel's link (image/live.c). */
static const char *base_name(struct gm_symbols *symbols, const char *path)
{
	static const char mark[] = " (deleted)";
	char name[NAME_MAX + 1];
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	size_t size = strlen(base), tail = sizeof(mark) - 1;
	if (size <= tail || size > NAME_MAX || strcmp(base + size - tail, mark) != 0)
		return gm_names_string(&symbols->names, base);
	memcpy(name, base, size - tail);
	name[size - tail] = 0;
	return gm_names_string(&symbols->names, name);
}

/* The module's slot: its previous one, or a new one. False: out of memory or slots. */
static bool place_module(struct gm_symbols *symbols, struct gm_module *found,
        const struct gm_mapping *mapping, bool *ret_changed)
{
	for (size_t i = 0; i < symbols->count; i++) {
		const struct gm_module *module = &symbols->modules[i];
		struct gm_module_state *state = &symbols->states[i];
		if (module->start == found->start && module->bias == found->bias &&
		        state->inode == mapping->inode &&
		        strcmp(module->path, mapping->path) == 0 &&
		        module->build_id_size == found->build_id_size &&
		        memcmp(module->build_id, found->build_id, sizeof(found->build_id)) == 0) {
			state->loaded = true;
			return true;
		}
	}
	if (symbols->count >= GM_MODULES_MAX)
		return true;
	const char *path = gm_names_string(&symbols->names, mapping->path);
	const char *name = base_name(symbols, mapping->path);
	if (!path || !name)
		return false;
	found->id = (uint32_t)symbols->count;
	found->path = path;
	found->name = name;
	symbols->modules[symbols->count] = *found;
	symbols->states[symbols->count] =
	        (struct gm_module_state){.loaded = true, .inode = mapping->inode};
	symbols->count++;
	*ret_changed = true;
	return true;
}

static int compare_start(const void *left, const void *right, void *context)
{
	const struct gm_module *modules = context;
	uint64_t a = modules[*(const uint32_t *)left].start;
	uint64_t b = modules[*(const uint32_t *)right].start;
	return a < b ? -1 : a > b;
}

static void sort_loaded(struct gm_symbols *symbols)
{
	symbols->loaded_count = 0;
	for (uint32_t i = 0; i < symbols->count; i++) {
		if (symbols->states[i].loaded)
			symbols->by_address[symbols->loaded_count++] = i;
	}
	qsort_r(symbols->by_address, symbols->loaded_count, sizeof(*symbols->by_address),
	        compare_start, symbols->modules);
}

static struct gm_error *read_candidates(
        struct gm_image *image, struct candidate **ret_candidates, size_t *ret_count)
{
	size_t mapping_count, count = 0;
	const struct gm_mapping *mappings = gm_image_mappings(image, &mapping_count);
	for (size_t i = 0; i < mapping_count; i++)
		count += may_begin_module(&mappings[i]);
	if (count > GM_MODULES_MAX)
		count = GM_MODULES_MAX;
	_cleanup_free_ struct candidate *candidates = calloc(count + 1, sizeof(*candidates));
	_cleanup_free_ struct gm_read *reads = calloc(count + 1, sizeof(*reads));
	if (!candidates || !reads)
		return &gm_error_no_memory;
	size_t used = 0;
	for (size_t i = 0; i < mapping_count && used < count; i++) {
		if (!may_begin_module(&mappings[i]))
			continue;
		candidates[used].mapping = i;
		reads[used] = (struct gm_read){
		        mappings[i].start, candidates[used].header, HEADER_SIZE, false};
		used++;
	}
	gm_image_read_many(image, reads, used);
	for (size_t i = 0; i < used; i++) {
		if (reads[i].failed)
			memset(candidates[i].header, 0, HEADER_SIZE);
	}
	*ret_candidates = gm_take(candidates);
	*ret_count = used;
	return NULL;
}

struct gm_error *gm_symbols_refresh(struct gm_symbols *symbols)
{
	_cleanup_free_ struct candidate *candidates = NULL;
	size_t count, mapping_count;
	gm_try(read_candidates(symbols->image, &candidates, &count));
	const struct gm_mapping *mappings = gm_image_mappings(symbols->image, &mapping_count);
	_cleanup_free_ bool *before = malloc(symbols->count + 1);
	if (!before)
		return &gm_error_no_memory;
	size_t count_before = symbols->count;
	for (size_t i = 0; i < count_before; i++) {
		before[i] = symbols->states[i].loaded;
		symbols->states[i].loaded = false;
	}
	bool changed = false, memory = true;
	uint64_t last_end = 0;
	for (size_t i = 0; i < count && memory; i++) {
		const struct gm_mapping *mapping = &mappings[candidates[i].mapping];
		struct gm_module found = {0};
		if (mapping->start < last_end ||
		        !read_header(
		                symbols->image, candidates[i].header, mapping->start, &found) ||
		        !has_code(mappings, mapping_count, candidates[i].mapping, found.end))
			continue;
		last_end = found.end;
		memory = place_module(symbols, &found, mapping, &changed);
	}
	for (size_t i = 0; i < count_before; i++)
		changed |= before[i] != symbols->states[i].loaded;
	sort_loaded(symbols);
	if (changed)
		gm_rows_clear(&symbols->rows);
	return memory ? NULL : &gm_error_no_memory;
}

struct gm_error *gm_symbols_create(struct gm_image *image, struct gm_symbols **ret_symbols)
{
	struct gm_symbols *symbols = calloc(1, sizeof(*symbols));
	if (!symbols)
		return &gm_error_no_memory;
	symbols->image = image;
	symbols->modules = calloc(GM_MODULES_MAX, sizeof(*symbols->modules));
	symbols->states = calloc(GM_MODULES_MAX, sizeof(*symbols->states));
	symbols->by_address = calloc(GM_MODULES_MAX, sizeof(*symbols->by_address));
	struct gm_error *error = &gm_error_no_memory;
	if (symbols->modules && symbols->states && symbols->by_address)
		error = gm_symbols_refresh(symbols);
	if (error) {
		gm_symbols_destroy(symbols);
		return error;
	}
	*ret_symbols = symbols;
	return NULL;
}

void gm_symbols_destroy(struct gm_symbols *symbols)
{
	if (!symbols)
		return;
	for (size_t i = 0; i < symbols->count; i++) {
		gm_elf_close(symbols->states[i].debug);
		gm_elf_close(symbols->states[i].file);
	}
	gm_rows_deinit(&symbols->rows);
	gm_names_deinit(&symbols->names);
	free(symbols->modules);
	free(symbols->states);
	free(symbols->by_address);
	free(symbols);
}

const struct gm_module *gm_symbols_modules(const struct gm_symbols *symbols, size_t *ret_count)
{
	*ret_count = symbols->count;
	return symbols->modules;
}

const struct gm_module *gm_symbols_module_at(struct gm_symbols *symbols, uint64_t address)
{
	size_t low = gm_partition_point(symbols->loaded_count, middle,
	        symbols->modules[symbols->by_address[middle]].end <= address);
	if (low == symbols->loaded_count)
		return NULL;
	const struct gm_module *module = &symbols->modules[symbols->by_address[low]];
	return module->start <= address ? module : NULL;
}

const struct gm_module *gm_symbols_find_module(struct gm_symbols *symbols, const char *prefix)
{
	size_t length = strlen(prefix);
	for (size_t i = 0; i < symbols->count; i++) {
		if (symbols->states[i].loaded &&
		        strncmp(symbols->modules[i].name, prefix, length) == 0)
			return &symbols->modules[i];
	}
	return NULL;
}

/* --- files ------------------------------------------------------------------------------------ */

static struct gm_elf *open_vdso(struct gm_image *image, const struct gm_module *module)
{
	enum { VDSO_MAX = 1 << 20 };
	const struct gm_mapping *mapping = gm_image_find_mapping(image, module->start);
	if (!mapping || mapping->end - mapping->start > VDSO_MAX)
		return NULL;
	size_t size = mapping->end - mapping->start;
	void *memory = malloc(size);
	if (!memory || !gm_image_try_read(image, module->start, memory, size)) {
		free(memory);
		return NULL;
	}
	struct gm_elf *file = NULL;
	gm_error_destroy(gm_elf_open_memory(memory, size, &file));
	return file;
}

struct gm_elf *gm_symbols_file(struct gm_symbols *symbols, const struct gm_module *module)
{
	struct gm_module_state *state = &symbols->states[module->id];
	if (state->opened)
		return state->file;
	state->opened = true;
	if (module->path[0] == '[') {
		state->file = open_vdso(symbols->image, module);
		return state->file;
	}
	_cleanup_free_ char *path = NULL;
	struct gm_elf *file = NULL;
	gm_error_destroy(gm_image_file_path(symbols->image, module->path, &path));
	if (path)
		gm_error_destroy(gm_elf_open(path, &file));
	/* Replaced on disk since it was mapped: its tables would give wrong names. */
	if (file && module->build_id_size > 0 &&
	        (file->build_id_size != module->build_id_size ||
	                memcmp(file->build_id, module->build_id, module->build_id_size) != 0)) {
		gm_elf_close(file);
		file = NULL;
	}
	state->file = file;
	return file;
}

struct gm_elf *gm_symbols_debug_file(struct gm_symbols *symbols, const struct gm_module *module)
{
	struct gm_module_state *state = &symbols->states[module->id];
	if (state->debug_opened)
		return state->debug;
	state->debug_opened = true;
	struct gm_elf *file = gm_symbols_file(symbols, module);
	/* If the file itself has the full table and DWARF, a debug file adds nothing. */
	if (!file || !file->path || (file->full.count > 0 && file->has_dwarf))
		return NULL;
	/* "/" as the target sees it: the root under which the module's own path was found. */
	_cleanup_free_ char *root = NULL;
	gm_error_destroy(gm_image_file_path(symbols->image, "/", &root));
	if (!root)
		return NULL;
	root[strlen(root) - 1] = '\0';
	state->debug = gm_debug_file_open(file, module->path, root);
	return state->debug;
}
