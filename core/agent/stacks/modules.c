/*
 * Loaded files and their addresses. Each file is written to the agent's file when an address of it
 * is first seen, so that it can be named later. Also detects that something was unloaded: the
 * loader counts that (dlpi_subs of dl_iterate_phdr(3)). The counter is read now and then, and
 * before anything new is stored.
 */
#include <elf.h>
#include <link.h>
#include <unistd.h>

#include "agent/stacks/inside.h"
#include "agent/gap.h"
#include "agent/put.h"
#include "agent/stacks/libraries.h"
#include "agent/stacks/memory.h"
#include "agent/stacks/symbols.h"

enum { MODULES_MAX = 4096, BUILD_ID_MAX = 32, PATH_BYTES = 4096 };

/* A file that was written. Never removed: the same file at the same address again gets the same
 * number. */
struct known {
	struct gm_loaded loaded;
	uint64_t salt; /* when it was last seen; if another value: it may be unloaded */
	uint8_t build_id[BUILD_ID_MAX];
	uint32_t build_id_size;
};

static struct known *known;
static _Atomic uint32_t known_count;
static _Atomic bool busy, reported_full;
static _Atomic uint64_t last_subs;
_Atomic uint64_t gm_unload_salt;

static void notice(uint64_t subs)
{
	if (atomic_exchange(&last_subs, subs) != subs)
		gm_stacks_unloaded();
}

void gm_stacks_unloaded(void)
{
	/* spread over all bits, because it is part of the keys of rows */
	atomic_fetch_add(&gm_unload_salt, UINT64_C(0x5851f42d4c957f2d));
}

void gm_modules_clear(void)
{
	if (!known)
		known = gm_stacks_map(MODULES_MAX * sizeof(*known));
	else
		gm_stacks_clear(known, MODULES_MAX * sizeof(*known));
	atomic_store(&known_count, 0);
	atomic_store(&busy, false);
	atomic_store(&reported_full, false);
}

static int look_at_subs(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)context;
	if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs))
		notice(info->dlpi_subs);
	return 1;
}

void gm_modules_poll(void)
{
	gm_libraries_each(look_at_subs, NULL);
}

struct search {
	uint64_t address;
	struct known found;
	char path[PATH_BYTES];
	bool is_first, is_there;
};

static void take_build_id(const uint8_t *note, size_t size, struct known *found)
{
	while (size >= sizeof(ElfW(Nhdr))) {
		ElfW(Nhdr) head;
		size_t name, desc;
		memcpy(&head, note, sizeof(head));
		name = (head.n_namesz + 3u) & ~3u;
		desc = (head.n_descsz + 3u) & ~3u;
		if (name > size || desc > size || sizeof(head) + name + desc > size)
			return;
		if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
		        !memcmp(note + sizeof(head), "GNU", 4) && head.n_descsz <= BUILD_ID_MAX) {
			memcpy(found->build_id, note + sizeof(head) + name, head.n_descsz);
			found->build_id_size = head.n_descsz;
			return;
		}
		note += sizeof(head) + name + desc;
		size -= sizeof(head) + name + desc;
	}
}

static int look_at_module(struct dl_phdr_info *info, size_t size, void *context)
{
	struct search *search = context;
	struct known *found = &search->found;
	uint64_t start = UINT64_MAX, end = 0;
	bool first = search->is_first;

	search->is_first = false;
	if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs))
		notice(info->dlpi_subs);
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uint64_t at = info->dlpi_addr + segment->p_vaddr;
		if (segment->p_type != PT_LOAD)
			continue;
		start = at < start ? at : start;
		end = at + segment->p_memsz > end ? at + segment->p_memsz : end;
	}
	if (search->address < start || search->address >= end)
		return 0;
	*found = (struct known){.loaded = {.start = start, .end = end, .bias = info->dlpi_addr}};
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uint64_t at = info->dlpi_addr + segment->p_vaddr;
		if (segment->p_type == PT_GNU_EH_FRAME) {
			found->loaded.frame_header = at;
			found->loaded.frame_header_size = segment->p_memsz;
		} else if (segment->p_type == PT_NOTE && !found->build_id_size) {
			take_build_id((const uint8_t *)(uintptr_t)at, segment->p_memsz, found);
		}
	}
	/* the program itself comes first, without a name; the kernel's page has a name that is not
	 * a path */
	search->path[0] = 0;
	if (info->dlpi_name[0] || !first)
		strncat(search->path, info->dlpi_name, sizeof(search->path) - 1);
	else
		strcpy(search->path, "/proc/self/exe");
	search->is_there = true;
	return 1;
}

static bool covers(const struct gm_loaded *loaded, uint64_t address)
{
	return address >= loaded->start && address < loaded->end;
}

static bool is_same(const struct known *a, const struct known *b)
{
	return a->loaded.start == b->loaded.start && a->loaded.end == b->loaded.end &&
	       a->loaded.bias == b->loaded.bias && a->build_id_size == b->build_id_size &&
	       !memcmp(a->build_id, b->build_id, a->build_id_size);
}

static void write_module(struct gm_stacks_thread *thread, const struct search *search, uint32_t id)
{
	const struct known *found = &search->found;
	uint8_t *at = thread->record;
	const char *path = search->path;
	char own[PATH_BYTES];

	if (!strcmp(path, "/proc/self/exe")) {
		ssize_t length = readlink(path, own, sizeof(own) - 1);
		if (length > 0) {
			own[length] = 0;
			path = own;
		}
	}
	at = gm_put_varint(at, found->loaded.start);
	at = gm_put_varint(at, found->loaded.end);
	at = gm_put_varint(at, found->loaded.bias);
	at = gm_write_string(at, path, strlen(path));
	at = gm_write_string(at, found->build_id, found->build_id_size);
	gm_agent_put(GM_AGENT_MODULE, id, thread->record, (size_t)(at - thread->record));
}

bool gm_module_at(struct gm_stacks_thread *thread, uint64_t address, struct gm_loaded *ret)
{
	uint64_t salt = atomic_load(&gm_unload_salt);
	uint32_t count = atomic_load_explicit(&known_count, memory_order_acquire);
	struct search *search = (struct search *)(void *)thread->raw; /* too large for a stack */

	for (uint32_t i = count; i-- > 0;) {
		if (known[i].salt == salt && covers(&known[i].loaded, address)) {
			*ret = known[i].loaded;
			return true;
		}
	}
	_Static_assert(sizeof(*search) <= sizeof(thread->raw), "the scratch memory holds a search");
	memset(search, 0, offsetof(struct search, path));
	search->address = address;
	search->is_first = true;
	search->is_there = false;
	gm_libraries_each(look_at_module, search);
	if (!search->is_there)
		return false;
	*ret = search->found.loaded;
	/* One thread at a time adds a file; another thread skips it, and writes it the next time.
	 * */
	if (atomic_exchange(&busy, true))
		return true;
	salt = atomic_load(&gm_unload_salt);
	count = atomic_load(&known_count);
	for (uint32_t i = 0; i < count; i++) {
		if (is_same(&known[i], &search->found)) {
			known[i].salt = salt;
			atomic_store(&busy, false);
			return true;
		}
	}
	if (count < MODULES_MAX) {
		known[count] = search->found;
		known[count].salt = salt;
		write_module(thread, search, count + 1);
		atomic_store_explicit(&known_count, count + 1, memory_order_release);
	} else if (!atomic_exchange(&reported_full, true)) {
		gm_agent_gap("more than 4096 libraries: those met later are not named");
	}
	atomic_store(&busy, false);
	return true;
}

/* --- symbols --- */

struct symbol_search {
	const char *name;
	uint32_t hash;
	uint64_t address;
};

static int look_at_symbols(struct dl_phdr_info *info, size_t size, void *context)
{
	struct symbol_search *search = context;
	struct gm_loaded_symbols table;

	(void)size;
	if (!gm_loaded_symbols_read(info, &table))
		return 0;
	const ElfW(Sym) *symbol = gm_loaded_symbol(&table, search->name, search->hash);
	if (!symbol)
		return 0;
	search->address = table.base + symbol->st_value;
	return 1;
}

uint64_t gm_module_symbol(const char *name)
{
	struct symbol_search search = {.name = name, .hash = gm_symbol_hash(name)};

	gm_libraries_each(look_at_symbols, &search);
	return search.address;
}
