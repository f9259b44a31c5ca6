/*
 * Headers and notes of an ELF core. All its offsets and lengths are hostile: nothing outside the
 * file is read, and the lists have limits.
 */
#include "image/core_file.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <sys/user.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/search.h"
#include "image/registers.h"

enum {
	SEGMENTS_MAX = 1 << 20,
	NOTES_MAX = 256 << 20,
};

static struct gm_error *error_corrupt(const char *path, uint64_t offset, const char *why)
{
	return gm_error_at_offset(
	        gm_error_create(GM_CORRUPT,
	                "%s: offset 0x%jx: %s: give a core dump of an x86-64 program", path,
	                (uintmax_t)offset, why),
	        path, offset);
}

static struct gm_error *error_cut(const char *path, uint64_t offset, const char *within)
{
	return gm_error_at_offset(
	        gm_error_create(GM_CORRUPT,
	                "%s: offset 0x%jx: the core is truncated within its %s: write it again, "
	                "with space on the disk and `ulimit -c unlimited`",
	                path, (uintmax_t)offset, within),
	        path, offset);
}

bool gm_core_file_read(const struct gm_core_file *core, uint64_t offset, void *buffer, size_t size)
{
	if (offset > core->size || size > core->size - offset)
		return false;
	for (size_t done = 0; done < size;) {
		ssize_t got =
		        pread(core->fd, (char *)buffer + done, size - done, (off_t)(offset + done));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		done += (size_t)got;
	}
	return true;
}

const struct gm_core_segment *gm_core_file_segment(
        const struct gm_core_file *core, uint64_t address)
{
	const struct gm_core_segment *segment = gm_search_address(
	        core->segments, core->segment_count, sizeof(*core->segments), address);
	return segment && address < segment->end ? segment : NULL;
}

const struct gm_core_mapped *gm_core_file_mapped(const struct gm_core_file *core, uint64_t address)
{
	const struct gm_core_mapped *mapped =
	        gm_search_address(core->mapped, core->mapped_count, sizeof(*core->mapped), address);
	return mapped && address < mapped->end ? mapped : NULL;
}

/* --- notes ------------------------------------------------------------------------------------ */

static bool take_thread(struct gm_core_file *core, const char *content, size_t size)
{
	struct elf_prstatus status;
	struct user_regs_struct user;
	if (size < sizeof(status))
		return true;
	memcpy(&status, content, sizeof(status));
	memcpy(&user, &status.pr_reg, sizeof(user));
	_Static_assert(sizeof(status.pr_reg) == sizeof(user), "both are the kernel's");
	struct gm_core_thread thread = {
	        .id = status.pr_pid,
	        .registers = gm_registers_from_kernel(&user),
	};
	if (!gm_array_grow((void **)&core->threads, &core->thread_capacity, core->thread_count, 1,
	            sizeof(thread)))
		return false;
	core->threads[core->thread_count++] = thread;
	return true;
}

/* NT_FILE: a count, the page size, (start, end, offset in pages) each, then the paths; core(5),
 * fs/binfmt_elf.c. */
static bool take_files(struct gm_core_file *core, const char *content, size_t size)
{
	uint64_t head[2];
	if (size < sizeof(head))
		return true;
	memcpy(head, content, sizeof(head));
	if (head[0] > (size - sizeof(head)) / 24)
		return true;
	const char *path = content + sizeof(head) + head[0] * 24, *end = content + size;
	for (uint64_t i = 0; i < head[0]; i++) {
		uint64_t words[3];
		memcpy(words, content + sizeof(head) + i * 24, sizeof(words));
		const char *nul = memchr(path, '\0', (size_t)(end - path));
		if (!nul)
			return true;
		struct gm_core_mapped mapped = {words[0], words[1], words[2] * head[1], path};
		path = nul + 1;
		if (mapped.start >= mapped.end)
			continue;
		if (!gm_array_grow((void **)&core->mapped, &core->mapped_capacity,
		            core->mapped_count, 1, sizeof(mapped)))
			return false;
		core->mapped[core->mapped_count++] = mapped;
	}
	return true;
}

static void take_process(struct gm_core_file *core, const char *content, size_t size)
{
	struct elf_prpsinfo info;
	if (size < sizeof(info))
		return;
	memcpy(&info, content, sizeof(info));
	core->process = info.pr_pid;
}

static void take_auxiliary(struct gm_core_file *core, const char *content, size_t size)
{
	for (size_t at = 0; at + sizeof(Elf64_auxv_t) <= size; at += sizeof(Elf64_auxv_t)) {
		Elf64_auxv_t entry;
		memcpy(&entry, content + at, sizeof(entry));
		if (entry.a_type == AT_SYSINFO_EHDR)
			core->vdso = entry.a_un.a_val;
	}
}

static bool take_notes(struct gm_core_file *core, const char *notes, size_t size)
{
	size_t at = 0;
	while (size - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		memcpy(&note, notes + at, sizeof(note));
		at += sizeof(note);
		uint64_t name = ((uint64_t)note.n_namesz + 3) & ~UINT64_C(3);
		uint64_t padded = ((uint64_t)note.n_descsz + 3) & ~UINT64_C(3);
		if (name > size - at || note.n_descsz > size - at - name)
			return true; /* the entries before it are valid */
		const char *content = notes + at + name;
		if (note.n_namesz == 5 && memcmp(notes + at, "CORE", 5) == 0) {
			if ((note.n_type == NT_PRSTATUS &&
			            !take_thread(core, content, note.n_descsz)) ||
			        (note.n_type == NT_FILE &&
			                !take_files(core, content, note.n_descsz)))
				return false;
			if (note.n_type == NT_PRPSINFO)
				take_process(core, content, note.n_descsz);
			if (note.n_type == NT_AUXV)
				take_auxiliary(core, content, note.n_descsz);
		}
		if (padded > size - at - name)
			return true;
		at += name + padded;
	}
	return true;
}

/* --- headers ---------------------------------------------------------------------------------- */

static bool take_segment(struct gm_core_file *core, const Elf64_Phdr *header)
{
	struct gm_core_segment segment = {
	        .start = header->p_vaddr,
	        .end = header->p_vaddr + header->p_memsz,
	        .offset = header->p_offset,
	        .saved = header->p_filesz < header->p_memsz ? header->p_filesz : header->p_memsz,
	        .flags = (header->p_flags & PF_R ? GM_MAPPING_READ : 0) |
	                 (header->p_flags & PF_W ? GM_MAPPING_WRITE : 0) |
	                 (header->p_flags & PF_X ? GM_MAPPING_EXEC : 0),
	        .zero_tail = header->p_flags & GM_CORE_PF_UNTOUCHED,
	};
	if (segment.end <= segment.start)
		return true; /* empty, or beyond the end of the address space */
	if (segment.offset < core->size)
		segment.present = segment.saved < core->size - segment.offset
		                          ? segment.saved
		                          : core->size - segment.offset;
	if (!gm_array_grow((void **)&core->segments, &core->segment_capacity, core->segment_count,
	            1, sizeof(segment)))
		return false;
	core->segments[core->segment_count++] = segment;
	return true;
}

static int compare_segments(const void *left, const void *right)
{
	const struct gm_core_segment *a = left, *b = right;
	return a->start < b->start ? -1 : a->start > b->start;
}

static int compare_mapped(const void *left, const void *right)
{
	const struct gm_core_mapped *a = left, *b = right;
	return a->start < b->start ? -1 : a->start > b->start;
}

/* Memory at one address is in one segment. Of two that overlap the lower one counts, wherever one
 * is looked for. */
static void drop_overlapping(struct gm_core_file *core)
{
	size_t kept = 0;
	for (size_t i = 0; i < core->segment_count; i++)
		if (!kept || core->segments[i].start >= core->segments[kept - 1].end)
			core->segments[kept++] = core->segments[i];
	core->segment_count = kept;
}

/* 0xffff segments or more are counted in the first section header (elf(5), PN_XNUM). */
static uint64_t segment_count(const struct gm_core_file *core, const Elf64_Ehdr *header)
{
	Elf64_Shdr section;
	if (header->e_phnum != PN_XNUM ||
	        !gm_core_file_read(core, header->e_shoff, &section, sizeof(section)))
		return header->e_phnum;
	return section.sh_info;
}

static struct gm_error *read_notes(
        struct gm_core_file *core, const Elf64_Phdr *header, const char *path)
{
	if (core->notes)
		return NULL;
	if (header->p_filesz > NOTES_MAX)
		return error_corrupt(path, header->p_offset, "its notes have more than 256 MiB");
	char *notes = malloc(header->p_filesz + 1);
	if (!notes)
		return &gm_error_no_memory;
	core->notes = notes;
	if (!gm_core_file_read(core, header->p_offset, notes, header->p_filesz))
		return error_cut(path, header->p_offset, "notes");
	notes[header->p_filesz] = '\0';
	return take_notes(core, notes, header->p_filesz) ? NULL : &gm_error_no_memory;
}

static const char *machine_name(unsigned number)
{
	return number == EM_AARCH64 ? "AArch64"
	       : number == EM_PPC64 ? "POWER"
	       : number == EM_RISCV ? "RISC-V"
	       : number == EM_386   ? "x86, 32-bit"
	                            : "not x86-64";
}

static struct gm_error *check_header(
        const struct gm_core_file *core, const char *path, Elf64_Ehdr *ret_header)
{
	uint8_t magic[4] = {0};
	Elf64_Ehdr header;
	if (core->size >= sizeof(magic))
		gm_core_file_read(core, 0, magic, sizeof(magic));
	if (memcmp(magic, ELFMAG, SELFMAG) != 0)
		return error_corrupt(path, 0, "it is not an ELF file");
	if (!gm_core_file_read(core, 0, &header, sizeof(header)))
		return error_cut(path, core->size, "first header");
	if (header.e_ident[EI_DATA] == ELFDATA2MSB)
		return error_corrupt(
		        path, EI_DATA, "it is of another kind of machine (big-endian)");
	if (header.e_ident[EI_CLASS] == ELFCLASS32)
		return error_corrupt(path, EI_CLASS, "it is of a 32-bit program");
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
		return error_corrupt(path, EI_CLASS, "its ELF header is damaged");
	if (header.e_machine != EM_X86_64)
		return gm_error_at_offset(gm_error_create(GM_CORRUPT,
		                                  "%s: offset 0x%zx: it is of another kind of "
		                                  "machine (%s): give a core dump "
		                                  "of an "
		                                  "x86-64 program",
		                                  path, offsetof(Elf64_Ehdr, e_machine),
		                                  machine_name(header.e_machine)),
		        path, offsetof(Elf64_Ehdr, e_machine));
	if (header.e_type != ET_CORE || header.e_phentsize != sizeof(Elf64_Phdr))
		return error_corrupt(path, 0, "it is an ELF file but not a core dump");
	*ret_header = header;
	return NULL;
}

struct gm_error *gm_core_file_init(struct gm_core_file *core, int fd, const char *path)
{
	*core = (struct gm_core_file){.fd = fd};
	struct stat status;
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
		return error_corrupt(path, 0, "it is not a regular file");
	core->size = (uint64_t)status.st_size;
	Elf64_Ehdr header;
	gm_try(check_header(core, path, &header));
	uint64_t count = segment_count(core, &header);
	if (count > SEGMENTS_MAX)
		return error_corrupt(path, 0, "it has more segments than any process can have");
	_cleanup_free_ Elf64_Phdr *headers = calloc(count + 1, sizeof(*headers));
	if (!headers)
		return &gm_error_no_memory;
	if (!gm_core_file_read(core, header.e_phoff, headers, count * sizeof(*headers)))
		return header.e_phoff > core->size
		               ? error_cut(path, core->size, "first header's segments")
		               : error_cut(path, header.e_phoff, "headers");
	for (uint64_t i = 0; i < count; i++) {
		if (headers[i].p_type == PT_NOTE)
			gm_try(read_notes(core, &headers[i], path));
		else if (headers[i].p_type == PT_LOAD && !take_segment(core, &headers[i]))
			return &gm_error_no_memory;
	}
	if (core->segment_count == 0)
		return error_corrupt(path, header.e_phoff, "there is no memory in it");
	qsort(core->segments, core->segment_count, sizeof(*core->segments), compare_segments);
	drop_overlapping(core);
	if (core->mapped_count > 0)
		qsort(core->mapped, core->mapped_count, sizeof(*core->mapped), compare_mapped);
	return NULL;
}

void gm_core_file_deinit(struct gm_core_file *core)
{
	if (core->fd >= 0)
		close(core->fd);
	free(core->segments);
	free(core->mapped);
	free(core->threads);
	free(core->notes);
	*core = (struct gm_core_file){.fd = -1};
}
