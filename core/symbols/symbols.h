/*
 * Symbols: from addresses in an image to names and lines, and back, and native call stacks.
 *
 * ELF files are read with libelf (dynamic symbols first, then .symtab), lines and call frame
 * information (.eh_frame) with libdw; C++ names are demangled with the C++ ABI's own demangler.
 * Everything is lazy: a library's tables are read when a question first needs them. Call
 * frame rows are cached by address, so that a 40-frame stack that was seen before costs a few
 * microseconds.
 *
 * This room may include base and image. It knows nothing of Python or PyTorch.
 */
#ifndef GM_SYMBOLS_SYMBOLS_H
#define GM_SYMBOLS_SYMBOLS_H

#include "image/image.h"

struct gm_symbols;

/* A loaded ELF file. Owned by gm_symbols; valid until gm_symbols_destroy(), even when unloaded. */
struct gm_module {
	uint32_t id;         /* dense, from 0 */
	const char *path;    /* as mapped by the target */
	const char *name;    /* the last part of path */
	uint64_t start, end; /* of all its mappings */
	uint64_t bias;       /* address in the image = address in the file + bias */
	/* what is read-only once relocated, vtables among it (PT_GNU_RELRO); equal: it has no such
	 * part */
	uint64_t relocated_start, relocated_end;
	uint8_t build_id[32];
	uint32_t build_id_size; /* 0: none */
};

struct gm_symbol {
	const char *function;           /* demangled; NULL where no symbol covers the address */
	const char *linkage_name;       /* as in the symbol table; NULL likewise */
	uint64_t offset;                /* from the symbol's start */
	const struct gm_module *module; /* NULL: in no file */
	const char *file;               /* from DWARF, NULL where the module has none */
	uint32_t line;                  /* 0: unknown */
};

struct gm_error *gm_symbols_create(struct gm_image *image, struct gm_symbols **ret_symbols);
void gm_symbols_destroy(struct gm_symbols *symbols);
/* Looks at the image's mappings again (call gm_image_refresh() first). Modules keep their ids. */
struct gm_error *gm_symbols_refresh(struct gm_symbols *symbols);

const struct gm_module *gm_symbols_modules(const struct gm_symbols *symbols, size_t *ret_count);
/* The module that covers an address; NULL: none. */
const struct gm_module *gm_symbols_module_at(struct gm_symbols *symbols, uint64_t address);
/* The first loaded module whose name starts with `prefix` ("libc10.so", "libcudart.so"); NULL:
 * none. */
const struct gm_module *gm_symbols_find_module(struct gm_symbols *symbols, const char *prefix);

/* The address in the image of a defined symbol of one module. False: not there. */
bool gm_symbols_lookup(struct gm_symbols *symbols, const struct gm_module *module,
        const char *linkage_name, uint64_t *ret_address, uint64_t *ret_size);
/* The address in the image of the code by which a module calls a function of another one. Where a
 * thread stands there, its registers and its stack are those of the function's entry. False: it
 * does not call it in this way. */
bool gm_symbols_lookup_import(struct gm_symbols *symbols, const struct gm_module *module,
        const char *linkage_name, uint64_t *ret_address);
/* The same over all modules, or NULL module: the first that defines it. */
bool gm_symbols_lookup_any(struct gm_symbols *symbols, const char *linkage_name,
        uint64_t *ret_address, const struct gm_module **ret_module);

/*
 * Names many addresses at once (one pass over each module's table). For return addresses pass
 * `return_addresses` true: the name and line are those of the call before them. Strings in
 * ret_symbols are owned by gm_symbols. Unknown addresses leave `function` NULL.
 */
struct gm_error *gm_symbols_name(struct gm_symbols *symbols, const uint64_t *addresses,
        size_t count, bool return_addresses, struct gm_symbol *ret_symbols);
/* The same without source lines, for which gigabytes of debug information may have to be read. */
struct gm_error *gm_symbols_name_functions(struct gm_symbols *symbols, const uint64_t *addresses,
        size_t count, bool return_addresses, struct gm_symbol *ret_symbols);

/*
 * The native call stack of a stopped thread: addresses innermost first (the first is rip, the
 * others return addresses). Returns their number, at most `max`. Stops silently where no call frame
 * information covers an address. Hot path: allocates nothing once the rows are cached.
 */
size_t gm_symbols_unwind(struct gm_symbols *symbols, const struct gm_registers *registers,
        uint64_t *ret_addresses, size_t max);
/* The same, and where each frame's part of the stack begins: that of frame i ends where the next
 * one's begins. `ret_whole`: the last one is where the thread began. Both may be NULL. */
size_t gm_symbols_unwind_frames(struct gm_symbols *symbols, const struct gm_registers *registers,
        uint64_t *ret_addresses, uint64_t *ret_pointers, size_t max, bool *ret_whole);
/*
 * A function saves the registers that it uses on its own stack, with what its callers keep there.
 * The frame, of the first `max` of that walk, whose register was saved at the address; `max`: the
 * address is no such place, or the frame is not known.
 */
size_t gm_symbols_saver(struct gm_symbols *symbols, const struct gm_registers *registers,
        uint64_t address, size_t max);

/*
 * One step of that walk: the registers of a frame's caller. Its stack pointer is the frame's
 * canonical address, which stays the same while the function runs. `exact`: the thread stands at
 * rip; false: rip is a return address. False: no call frame information covers it, or the frame is
 * the outermost one.
 */
bool gm_symbols_caller(struct gm_symbols *symbols, const struct gm_registers *registers, bool exact,
        struct gm_registers *ret_registers);

/* The file's symbols without an image: for naming the addresses of a log on another day. `offsets`
 * are addresses in the file. GM_CORRUPT where the file is no ELF; GM_TARGET where the build-id
 * differs. */
struct gm_error *gm_symbols_name_in_file(const char *path, const uint8_t *build_id,
        size_t build_id_size, const uint64_t *offsets, size_t count,
        char **ret_names /* caller frees each */);

/* Whether a file defines a function that a user may call "c10d::Reducer::all_reduce_bucket",
 * "all_reduce_bucket" or, in C, "ncclAllReduce". Arguments in it are not looked at. */
bool gm_symbols_file_defines(const char *path, const char *function);

#endif
