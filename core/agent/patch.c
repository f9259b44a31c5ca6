#include "agent/patch.h"
#include "agent/gap.h"
#include "agent/stacks/libraries.h"
#include "agent/stacks/symbols.h"
#include "agent/state.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	TABLES = 12,
	SLOTS_MAX = 1 << 14,
	LIBRARIES_MAX = 1 << 12,
};

/* An entry that was replaced. */
struct slot {
	void **at;
	void *before, *hook;
};

static struct {
	const struct gm_agent_hook *tables[TABLES];
	unsigned table_count;
	struct slot slots[SLOTS_MAX];
	unsigned slot_count;
	const void *libraries[LIBRARIES_MAX]; /* loaded files that were examined, by their dynamic
	                                         section */
	unsigned library_count;
	unsigned long long adds, subs; /* the counter of dl_iterate_phdr at the last look */
	bool full, sealed;             /* some entries were not noted; some could not be written */
} patched;

static void (*on_libraries)(void), (*on_torch)(void);

static _Atomic int scanning;
static _Atomic bool on, pending;

/* --- what to hook ----------------------------------------------------------------------------- */

/* The assembly below refers to these names. */
static void *_Atomic before_dlopen __attribute__((used));
static void *_Atomic before_dlmopen __attribute__((used));
static void *_Atomic before_dlsym __attribute__((used));
void gm_agent_dlopen(void);
void gm_agent_dlmopen(void);
void gm_agent_dlsym(void);

static const struct gm_agent_hook loader_hooks[] = {
        {"dlopen", (void *)gm_agent_dlopen, &before_dlopen},
        {"dlmopen", (void *)gm_agent_dlmopen, &before_dlmopen},
        {"dlsym", (void *)gm_agent_dlsym, &before_dlsym},
        {NULL, NULL, NULL},
};

static const struct gm_agent_hook *find_hook(const char *symbol)
{
	/* A library imports thousands of names; ours begin with a few letters. */
	if (symbol[0] != 'c' && symbol[0] != 'd' && symbol[0] != 'n' && symbol[0] != '_')
		return NULL;
	for (unsigned i = 0; i < patched.table_count; i++)
		for (const struct gm_agent_hook *hook = patched.tables[i]; hook->symbol; hook++)
			if (hook->symbol[2] == symbol[2] && strcmp(hook->symbol, symbol) == 0)
				return hook;
	return NULL;
}

/* ---- a library ------------------------------------------------------------------------------- */

struct library {
	uintptr_t base, start, end; /* of its mapped parts */
	uintptr_t protected_start, protected_end;
	const ElfW(Dyn) * dynamic;
	struct gm_loaded_symbols table;
	const ElfW(Rela) * calls, *data;
	size_t call_count, data_count, relative_count;
};

static bool read_library(const struct dl_phdr_info *info, struct library *library)
{
	*library = (struct library){.base = info->dlpi_addr, .start = UINTPTR_MAX};
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + header->p_vaddr;
		if (header->p_type == PT_DYNAMIC) {
			library->dynamic = (const ElfW(Dyn) *)at;
		} else if (header->p_type == PT_GNU_RELRO) {
			library->protected_start = at;
			library->protected_end = at + header->p_memsz;
		} else if (header->p_type == PT_LOAD) {
			library->start = at < library->start ? at : library->start;
			library->end = at + header->p_memsz > library->end ? at + header->p_memsz
			                                                   : library->end;
		}
	}
	gm_loaded_symbols_read(
	        info, &library->table); /* a library without hash tables is patched all the same */
	bool is_rela = true;
	for (const ElfW(Dyn) *entry = library->dynamic; entry && entry->d_tag != DT_NULL; entry++) {
		/* glibc has made these addresses absolute */
		uintptr_t value = entry->d_un.d_ptr;
		switch (entry->d_tag) {
		case DT_JMPREL:
			library->calls = (const ElfW(Rela) *)value;
			break;
		case DT_PLTRELSZ:
			library->call_count = value / sizeof(ElfW(Rela));
			break;
		case DT_PLTREL:
			is_rela = value == DT_RELA;
			break;
		case DT_RELA:
			library->data = (const ElfW(Rela) *)value;
			break;
		case DT_RELASZ:
			library->data_count = value / sizeof(ElfW(Rela));
			break;
		case DT_RELACOUNT:
			library->relative_count = value;
			break;
		}
	}
	uintptr_t symbols = (uintptr_t)library->table.symbols;
	return library->dynamic && library->table.strings && is_rela && symbols >= library->start &&
	       symbols < library->end;
}

static bool inside(const struct library *library, const void *address)
{
	return (uintptr_t)address >= library->start && (uintptr_t)address < library->end;
}

/* The first library that defines a symbol, in the order of loading, without this one. */
struct definition {
	const char *symbol;
	uint32_t hash;
	void *found;
};

static int find_definition(struct dl_phdr_info *info, size_t size, void *context)
{
	struct definition *definition = context;
	struct library library;
	if (!read_library(info, &library) || !library.table.hashed || inside(&library, &patched))
		return 0;
	const ElfW(Sym) *symbol =
	        gm_loaded_symbol(&library.table, definition->symbol, definition->hash);
	if (symbol && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC) {
		definition->found = (void *)(library.base + symbol->st_value);
		return 1;
	}
	return 0;
}

/* ---- one entry ------------------------------------------------------------------------------- */

static bool write_slot(const struct library *library, void **slot, void *value)
{
	uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t page = (uintptr_t)slot & ~(page_size - 1);
	/* The page in which the protected part ends is not protected (glibc elf/dl-reloc.c,
	 * _dl_protect_relro). */
	uintptr_t start = library->protected_start & ~(page_size - 1),
	          end = library->protected_end & ~(page_size - 1);
	if (page < start || page >= end) {
		__atomic_store_n(slot, value, __ATOMIC_RELEASE);
		return true;
	}
	if (mprotect((void *)page, page_size, PROT_READ | PROT_WRITE) == 0) {
		__atomic_store_n(slot, value, __ATOMIC_RELEASE);
		mprotect((void *)page, page_size, PROT_READ);
		return true;
	}
	/* sealed: the kernel can write there for us all the same */
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	bool written = fd >= 0 &&
	               pwrite(fd, &value, sizeof(value), (off_t)(uintptr_t)slot) == sizeof(value);
	if (fd >= 0)
		close(fd);
	return written;
}

/* Where an entry is noted: that of a library which was at its address before is of no use any more,
 * nor one that could not be written. NULL: no space. */
static struct slot *slot_for(void **at)
{
	struct slot *unused = NULL;
	for (unsigned i = 0; i < patched.slot_count; i++) {
		if (patched.slots[i].at == at)
			return &patched.slots[i];
		if (!patched.slots[i].at)
			unused = &patched.slots[i];
	}
	if (unused)
		return unused;
	if (patched.slot_count == SLOTS_MAX)
		return NULL;
	patched.slots[patched.slot_count] = (struct slot){.at = at};
	return &patched.slots[patched.slot_count++];
}

static void patch_slot(const struct library *library, void **slot, const struct gm_agent_hook *hook)
{
	void *value = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
	if (value == hook->hook)
		return;
	void *before = atomic_load(hook->before);
	/* An entry that is not bound yet points into the library's own stub. */
	if (!value || (!before && inside(library, value))) {
		if (!before)
			return;
	} else if (!before) {
		atomic_store(hook->before, value);
	} else if (before != value && !inside(library, value)) {
		return; /* another function of that name, or another tool's hook: left unchanged */
	}
	struct slot *kept = slot_for(slot);
	if (!kept) {
		patched.full = true;
		return;
	}
	*kept = (struct slot){slot, value, hook->hook};
	if (!write_slot(library, slot, hook->hook)) {
		kept->at = NULL; /* nothing to undo */
		patched.sealed = true;
	}
}

void *gm_agent_find(const char *symbol)
{
	struct definition definition = {.symbol = symbol, .hash = gm_symbol_hash(symbol)};
	gm_libraries_each(find_definition, &definition);
	return definition.found;
}

static void resolve(const struct gm_agent_hook *hooks)
{
	for (const struct gm_agent_hook *hook = hooks; hook->symbol; hook++) {
		if (atomic_load(hook->before))
			continue;
		struct definition definition = {
		        .symbol = hook->symbol, .hash = gm_symbol_hash(hook->symbol)};
		gm_libraries_each(find_definition, &definition);
		atomic_store(hook->before, definition.found);
	}
}

static void patch_entries(const struct library *library, const ElfW(Rela) * entries, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t type = (uint32_t)ELF64_R_TYPE(entries[i].r_info);
		if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT)
			continue;
		const ElfW(Sym) *symbol = &library->table.symbols[ELF64_R_SYM(entries[i].r_info)];
		const struct gm_agent_hook *hook =
		        find_hook(library->table.strings + symbol->st_name);
		if (hook)
			patch_slot(library, (void **)(library->base + entries[i].r_offset), hook);
	}
}

/* ---- all libraries --------------------------------------------------------------------------- */

static bool is_known(const void *dynamic)
{
	for (unsigned i = 0; i < patched.library_count; i++)
		if (patched.libraries[i] == dynamic)
			return true;
	return false;
}

/*
 * The loader itself, NVIDIA's driver, and what NVIDIA's tools load into a program. Nsight Compute's
 * libraries take the address of dlopen() from such an entry in order to change the function's code;
 * with a hook's address there, CUDA does not start in the program (seen of 2025.3 on an H200).
 */
static bool is_left_alone(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL, *name = slash ? slash + 1 : path;
	return name && (strstr(path, "ld-linux") || strstr(name, "njection") ||
	                       strncmp(name, "libcuda.so", 10) == 0 ||
	                       strncmp(name, "libnvidia-", 10) == 0 ||
	                       strncmp(name, "libnvoptix.so", 13) == 0);
}

static int patch_library(struct dl_phdr_info *info, size_t size, void *context)
{
	struct library library;
	patched.adds = info->dlpi_adds;
	if (info->dlpi_subs != patched.subs) {
		/* Some are unloaded, and others may have their addresses. */
		patched.subs = info->dlpi_subs;
		patched.library_count = 0;
	}
	if (!read_library(info, &library) || is_known(library.dynamic) ||
	        inside(&library, &patched) || is_left_alone(info->dlpi_name))
		return 0;
	patch_entries(&library, library.calls, library.call_count);
	if (library.data_count > library.relative_count)
		patch_entries(&library, library.data + library.relative_count,
		        library.data_count - library.relative_count);
	if (patched.library_count < LIBRARIES_MAX)
		patched.libraries[patched.library_count++] = library.dynamic;
	return 0;
}

/*
 * One thread at a time. In a forked child, a thread that does not exist there may have taken it. A
 * signal's handler that interrupts the thread that has it goes on after a while.
 */
static struct gm_agent_alone lock(void)
{
	const struct gm_agent_alone before = gm_agent_alone_begin();
	int pid = (int)getpid(), holder = 0;
	for (int waited = 0; !atomic_compare_exchange_strong(&scanning, &holder, pid); waited++) {
		bool gone = holder && (holder != pid || waited >= GM_LIBRARIES_PATIENCE);
		if (gone && atomic_compare_exchange_strong(&scanning, &holder, pid))
			break;
		gm_libraries_wait(waited);
		holder = 0;
	}
	return before;
}

static void unlock(struct gm_agent_alone before)
{
	atomic_store(&scanning, 0);
	gm_agent_alone_end(before);
}

static void scan(void)
{
	for (unsigned i = 0; i < patched.table_count; i++)
		resolve(patched.tables[i]);
	gm_libraries_each(patch_library, NULL);
}

static int count_libraries(struct dl_phdr_info *info, size_t size, void *context)
{
	*(unsigned long long *)context = info->dlpi_adds;
	return 1;
}

void gm_agent_patch_gaps(void)
{
	if (patched.full)
		gm_agent_gap("too many libraries: calls from some of them are not recorded");
	if (patched.sealed)
		gm_agent_gap("import tables of some libraries cannot be written: calls from these "
		             "are not recorded");
}

/* Called before the program sees the libraries that a dlopen() loaded. */
static void look_again(void)
{
	if (!atomic_load_explicit(&pending, memory_order_relaxed) || !atomic_load(&on))
		return;
	int error = errno;
	const struct gm_agent_alone before = lock();
	unsigned long long adds = 0;
	gm_libraries_each(count_libraries, &adds);
	bool more = atomic_load(&on) && adds != patched.adds;
	if (more)
		scan();
	unlock(before);
	if (more)
		gm_agent_patch_gaps();
	if (more && on_libraries)
		on_libraries();
	errno = error;
}

void gm_agent_patch_on_load(void (*libraries)(void), void (*torch)(void))
{
	on_libraries = libraries;
	on_torch = torch;
}

void gm_agent_patch(const struct gm_agent_hook *hooks)
{
	gm_libraries_guard_forks();
	const struct gm_agent_alone before = lock();
	if (patched.table_count == 0) {
		*(void **)&before_dlopen = (void *)dlopen;
		*(void **)&before_dlmopen = (void *)dlmopen;
		*(void **)&before_dlsym = (void *)dlsym;
		patched.tables[patched.table_count++] = loader_hooks;
	}
	bool there = false;
	for (unsigned i = 0; i < patched.table_count; i++)
		there |= patched.tables[i] == hooks;
	if (!there && patched.table_count < TABLES)
		patched.tables[patched.table_count++] = hooks;
	patched.library_count = 0;
	scan();
	atomic_store(&on, true);
	unlock(before);
	gm_agent_patch_gaps();
}

/* --- restoring -------------------------------------------------------------------------------- */

static int undo_library(struct dl_phdr_info *info, size_t size, void *context)
{
	struct library library;
	if (!read_library(info, &library))
		return 0;
	for (unsigned i = 0; i < patched.slot_count; i++) {
		const struct slot *slot = &patched.slots[i];
		if (inside(&library, slot->at) &&
		        __atomic_load_n(slot->at, __ATOMIC_ACQUIRE) == slot->hook)
			write_slot(&library, slot->at, slot->before);
	}
	return 0;
}

void gm_agent_patch_undo(void)
{
	const struct gm_agent_alone before = lock();
	atomic_store(&on, false);
	gm_libraries_each(undo_library, NULL);
	patched.slot_count = 0;
	patched.library_count = 0;
	patched.full = patched.sealed = false;
	unlock(before);
}

/* ---- the loader's functions ------------------------------------------------------------------ */

/*
 * dlopen() and dlsym() look at their caller, so the hook jumps to them with the caller's return
 * address in place, and cannot do anything after them. The libraries that a dlopen() loaded are
 * examined when the program next looks up a symbol or opens another library. Before that it can use
 * nothing of them, except through their constructors.
 */
#define SEE __attribute__((used, visibility("hidden")))
SEE void gm_agent_see_dlopen(void);
SEE void *gm_agent_see_dlsym(void *handle, const char *symbol);

void gm_agent_see_dlopen(void)
{
	look_again();
	atomic_store_explicit(&pending, true, memory_order_relaxed);
}

/* A hooked function that is looked up by name: returns the hook. NULL: continue with dlsym(). */
void *gm_agent_see_dlsym(void *handle, const char *name)
{
	look_again();
	/* this thread has loaded PyTorch, to its last library */
	if (name && strcmp(name, "PyInit__C") == 0 && atomic_load(&on) && on_torch)
		on_torch();
	if (!name || handle == RTLD_NEXT || handle == RTLD_DEFAULT || !atomic_load(&on))
		return NULL;
	const struct gm_agent_hook *hook = find_hook(name);
	if (!hook || name[0] == 'd')
		return NULL;
	void *function =
	        ((void *(*)(void *, const char *))atomic_load(&before_dlsym))(handle, name);
	void *before = NULL;
	if (!function || function == hook->hook)
		return function;
	atomic_compare_exchange_strong(hook->before, &before, function);
	return !before || before == function ? hook->hook : function;
}

#define ENTRY(name, see, before)                                \
	__asm__(".text\n"                                       \
	        ".p2align 4\n"                                  \
	        ".hidden " name "\n"                            \
	        ".globl " name "\n"                             \
	        ".type " name ", @function\n" name ":\n"        \
	        ".cfi_startproc\n"                              \
	        "endbr64\n"                                     \
	        "push %rbp\n"                                   \
	        ".cfi_def_cfa_offset 16\n"                      \
	        ".cfi_offset rbp, -16\n"                        \
	        "mov %rsp, %rbp\n"                              \
	        ".cfi_def_cfa_register rbp\n"                   \
	        "push %rdi\n"                                   \
	        "push %rsi\n"                                   \
	        "push %rdx\n"                                   \
	        "push %rcx\n"                                   \
	        "xor %eax, %eax\n"                              \
	        "call " see "\n"                                \
	        "pop %rcx\n"                                    \
	        "pop %rdx\n"                                    \
	        "pop %rsi\n"                                    \
	        "pop %rdi\n"                                    \
	        "pop %rbp\n"                                    \
	        ".cfi_def_cfa rsp, 8\n" before ".cfi_endproc\n" \
	        ".size " name ", .-" name "\n")

ENTRY("gm_agent_dlopen", "gm_agent_see_dlopen", "jmp *before_dlopen(%rip)\n");
ENTRY("gm_agent_dlmopen", "gm_agent_see_dlopen", "jmp *before_dlmopen(%rip)\n");
ENTRY("gm_agent_dlsym", "gm_agent_see_dlsym",
        "test %rax, %rax\n jnz 1f\n jmp *before_dlsym(%rip)\n 1: ret\n");
