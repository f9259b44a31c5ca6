/*
 * Marks by PyTorch's own code: record_function() through a callback of at::RecordFunction, and
 * torch.cuda.memory._set_memory_metadata() through the allocator's virtual function. A program
 * without PyTorch has none of this, and the user need not do anything.
 *
 * Only ranges of scope USER_SCOPE are recorded: those of users, of optimizers, of DataLoader, of
 * torch.profiler's steps. Operators have another scope, for which no callback runs, so they do not
 * become slower.
 */
#include "agent/torch_marks.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "torch/names.h"
#include "agent/lookup.h"
#include "agent/marks.h"
#include "agent/names.h"
#include "agent/stacks/libraries.h"

/* ---- record_function ------------------------------------------------------------------------- */

typedef uint64_t add_function(struct gm_torch_record_callback);
typedef void remove_function(uint64_t);
typedef const char *name_function(const void *);
typedef bool async_function(const void *);

static struct {
	_Atomic bool tried;
	uint64_t handle; /* 0: none */
	remove_function *remove;
	name_function *name;
	async_function *is_async;
} record;

/* std::unique_ptr<ObserverContext>, returned in memory: there is none. */
static void *see_start(void **ret_context, const void *function)
{
	*ret_context = NULL;
	if (!record.is_async(function)) /* of a collective: it ends in another thread */
		gm_agent_range_begin(record.name(function));
	return ret_context;
}

static void see_end(const void *function, void *context)
{
	/* the name that torch/optim/optimizer.py uses, profile_hook_step() */
	static const char step[] = "Optimizer.step#";
	if (record.is_async(function))
		return;
	gm_agent_range_end();
	const char *name = record.name(function);
	if (name && strncmp(name, step, sizeof(step) - 1) == 0)
		gm_agent_names_step_ended();
}

static bool find_function(void *ret_function, const char *symbol)
{
	void *found = gm_agent_lookup("libtorch_cpu.so", symbol);
	memcpy(ret_function, &found, sizeof(found));
	return found;
}

static void listen(void)
{
	add_function *add;
	if (!find_function(&add, GM_TORCH_ADD_CALLBACK) ||
	        !find_function(&record.remove, GM_TORCH_REMOVE_CALLBACK) ||
	        !find_function(&record.name, GM_TORCH_RECORD_NAME) ||
	        !find_function(&record.is_async, GM_TORCH_RECORD_IS_ASYNC))
		return;
	if (atomic_exchange(&record.tried, true))
		return;
	struct gm_torch_record_callback callback = {
	        .start = see_start, .end = see_end, .probability = 1};
	callback.scopes[GM_TORCH_USER_SCOPE] = true;
	record.handle = add(callback);
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* std::string of libstdc++ */
struct text {
	const char *characters;
	size_t size;
};

typedef void set_function(void *allocator, const struct text *);

static struct {
	void **slot;
	void *_Atomic before;
} metadata;

static void hook_set(void *allocator, const struct text *text)
{
	void *found = atomic_load(&metadata.before);
	set_function *function;
	memcpy(&function, &found, sizeof(function));
	gm_agent_metadata(text->characters, text->size);
	function(allocator, text);
}

/* libc10_cuda.so, as it is mapped */
struct library {
	uintptr_t start, end, code, code_end;
	uintptr_t tables, tables_end; /* PT_GNU_RELRO: vtables and type information */
};

static int find_library(struct dl_phdr_info *info, size_t size, void *context)
{
	struct library *library = context;
	const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
	if (!slash || strcmp(slash + 1, "libc10_cuda.so") != 0)
		return 0;
	library->start = UINTPTR_MAX;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + header->p_vaddr, end = at + header->p_memsz;
		if (header->p_type == PT_GNU_RELRO) {
			library->tables = at;
			library->tables_end = end;
		} else if (header->p_type == PT_LOAD) {
			library->start = at < library->start ? at : library->start;
			library->end = end > library->end ? end : library->end;
			if (header->p_flags & PF_X) {
				library->code = at;
				library->code_end = end;
			}
		}
	}
	return 1;
}

static bool in_tables(const struct library *library, const void *address, size_t words)
{
	uintptr_t at = (uintptr_t)address;
	return at % sizeof(void *) == 0 && at >= library->tables &&
	       at + words * sizeof(void *) <= library->tables_end;
}

static bool in_code(const struct library *library, uintptr_t address)
{
	return address >= library->code && address + 8 <= library->code_end;
}

/* The beginning of a function, after the instruction that marks a jump target (endbr64). NULL: this
 * is not a function. */
static const uint8_t *code_of(const struct library *library, uintptr_t function)
{
	static const uint8_t mark[] = {0xf3, 0x0f, 0x1e, 0xfa};
	const uint8_t *code = (const uint8_t *)function;
	if (!in_code(library, function))
		return NULL;
	return memcmp(code, mark, sizeof(mark)) == 0 ? code + sizeof(mark) : code;
}

static bool does_nothing(const struct library *library, uintptr_t function)
{
	const uint8_t *code = code_of(library, function);
	return code && code[0] == 0xc3; /* ret */
}

static bool answers_no(const struct library *library, uintptr_t function)
{
	static const uint8_t no[] = {0x31, 0xc0, 0xc3}; /* xor eax, eax; ret */
	const uint8_t *code = code_of(library, function);
	return code && memcmp(code, no, sizeof(no)) == 0;
}

/*
 * Which virtual function of c10::cuda::CUDACachingAllocator::CUDAAllocator sets the metadata. In
 * the class's own table, three functions that do nothing are consecutive: recordAnnotation(),
 * pushCompileContext() and popCompileContext(). They are followed by setUserMetadata(), which does
 * nothing, and getUserMetadata(), which does something (c10/cuda/CUDACachingAllocator.h, since
 * 2.10); or by supportsUserMetadata(), which returns false, and setUserMetadata(), which warns
 * (since 2.14). -1: the table is different.
 */
static int index_of_set(const struct library *library, void *const *table)
{
	enum { FUNCTIONS_MAX = 80, ALIKE = 3 };
	int alike = 0;
	for (int i = 0; i < FUNCTIONS_MAX && in_tables(library, &table[i], 1); i++) {
		uintptr_t function = (uintptr_t)table[i];
		if (does_nothing(library, function))
			alike++;
		else if (alike == ALIKE && answers_no(library, function))
			return i + 1;
		else if (alike == ALIKE + 1 && in_code(library, function))
			return i - 1;
		else
			alike = 0;
	}
	return -1;
}

/* The virtual table of a class, by its type information: {offset 0, type, functions ...} (Itanium
 * C++ ABI, 2.5.2). */
static void *const *table_of(const struct library *library, const void *type)
{
	void *const *at = (void *const *)(library->tables + (-library->tables & 7));
	for (at++; in_tables(library, at, 2); at++)
		if (*at == type && !at[-1])
			return at + 1;
	return NULL;
}

static void **find_slot(void *allocator)
{
	struct library library = {0};
	gm_libraries_each(find_library, &library);
	void **functions = allocator ? *(void ***)allocator : NULL;
	if (!functions || !in_tables(&library, functions - 1, 2))
		return NULL;
	/* its type: {table of __si_class_type_info, name, type of its base} */
	void *const *type = functions[-1];
	if (!in_tables(&library, type, 3))
		return NULL;
	const char *name = type[1];
	if ((uintptr_t)name < library.start || (uintptr_t)name >= library.end ||
	        !strstr(name, "NativeCachingAllocator"))
		return NULL;
	void *const *base = in_tables(&library, type[2], 2) ? table_of(&library, type[2]) : NULL;
	int index = base ? index_of_set(&library, base) : -1;
	bool own = index >= 0 && in_tables(&library, &functions[index], 1) &&
	           in_code(&library, (uintptr_t)functions[index]) &&
	           functions[index] != base[index];
	return own ? &functions[index] : NULL;
}

/* The table is not writable; the kernel can write there for us all the same. */
static bool write_slot(void **slot, void *value)
{
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	bool written = fd >= 0 && pwrite(fd, &value, sizeof(value), (off_t)(uintptr_t)slot) ==
	                                  (ssize_t)sizeof(value);
	if (fd >= 0)
		close(fd);
	return written;
}

static void hook_metadata(void)
{
	void **allocator = gm_agent_lookup("libc10_cuda.so", GM_TORCH_ALLOCATOR);
	void **slot = allocator ? find_slot(__atomic_load_n(allocator, __ATOMIC_ACQUIRE)) : NULL;
	if (!slot || *slot == (void *)hook_set)
		return;
	atomic_store(&metadata.before, *slot);
	if (write_slot(slot, (void *)hook_set))
		metadata.slot = slot;
}

/* ---- both ------------------------------------------------------------------------------------ */

void gm_agent_torch_marks_look(void)
{
	if (atomic_load_explicit(&record.tried, memory_order_relaxed))
		return;
	listen();
	if (record.tried)
		hook_metadata();
}

void gm_agent_torch_marks_end(void)
{
	if (record.handle)
		record.remove(record.handle);
	if (metadata.slot && *metadata.slot == (void *)hook_set)
		write_slot(metadata.slot, atomic_load(&metadata.before));
	metadata.slot = NULL;
	record.handle = 0;
	atomic_store(&record.tried, false);
}
