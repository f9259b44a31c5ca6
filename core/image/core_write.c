#include "image/core_write.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <time.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/regular_file.h"
#include "image/core_file.h"
#include "image/core_notes.h"
#include "image/core_out.h"
#include "image/core_plan.h"
#include "image/numbers.h"
#include "image/page_cache.h"
#include "image/stop.h"
#include "image/thread_state.h"

enum {
	BUFFER_PAGES = 512,
	BUFFER_SIZE = BUFFER_PAGES * GM_PAGE_SIZE, /* bytes of memory at a time */
	PROGRESS_STEP = 32 << 20,
};

/* The core being written: state shared by the steps of gm_core_write(). */
struct writing {
	struct gm_image *image;
	const struct gm_core_options *options;
	struct gm_core_plan plan;
	struct gm_core_out out;
	struct gm_thread_state *threads;
	size_t thread_count;
	uint8_t *buffer; /* BUFFER_SIZE bytes */
	uint64_t copied, reported, unread;
};

/* --- threads ---------------------------------------------------------------------------------- */

static struct gm_error *read_threads(struct writing *writing)
{
	_cleanup_free_ pid_t *ids = NULL;
	size_t count;
	gm_try(gm_image_threads(writing->image, &ids, &count));
	writing->threads = calloc(count + 1, sizeof(*writing->threads));
	if (!writing->threads)
		return &gm_error_no_memory;
	pid_t first = writing->options->thread;
	if (first <= 0)
		first = gm_image_main_thread(writing->image);
	for (size_t i = 0; i < count; i++) {
		struct gm_thread_state state;
		struct gm_error *error = gm_thread_state_read(writing->image, ids[i], &state);
		if (error && error != &gm_error_no_memory) { /* it has ended, and its parent has not
			                                        waited for it yet */
			gm_error_destroy(error);
			continue;
		}
		gm_try(error);
		size_t at = writing->thread_count++;
		if (ids[i] == first) { /* to the front */
			memmove(writing->threads + 1, writing->threads, at * sizeof(state));
			at = 0;
		}
		/* As the kernel does: a core has the process's own view of itself. */
		if (gm_image_pid(writing->image) > 0)
			state.id = gm_number_inside(gm_image_pid(writing->image), ids[i]);
		writing->threads[at] = state;
	}
	if (writing->thread_count > 0)
		return NULL;
	return gm_error_create(GM_TARGET,
	        "process %d: no thread's registers can be read: only the debugger that stopped it "
	        "can read them: ask there",
	        gm_image_pid(writing->image));
}

/* --- headers ---------------------------------------------------------------------------------- */

static Elf64_Phdr describe_part(const struct gm_core_part *part, uint64_t offset)
{
	return (Elf64_Phdr){
	        .p_type = PT_LOAD,
	        .p_flags = (part->flags & GM_MAPPING_READ ? PF_R : 0) |
	                   (part->flags & GM_MAPPING_WRITE ? PF_W : 0) |
	                   (part->flags & GM_MAPPING_EXEC ? PF_X : 0) |
	                   (part->zero_tail ? GM_CORE_PF_UNTOUCHED : 0),
	        .p_offset = offset,
	        .p_vaddr = part->start,
	        .p_filesz = part->saved,
	        .p_memsz = part->end - part->start,
	        .p_align = GM_PAGE_SIZE,
	};
}

/* ELF header, program headers, notes, and zeros up to the first page of memory. */
static struct gm_error *write_headers(struct writing *writing, const struct gm_note_bytes *notes)
{
	size_t parts = writing->plan.parts.count, count = parts + 1;
	bool many = count >= PN_XNUM; /* then the number is in a section header, elf(5) */
	uint64_t notes_at =
	        sizeof(Elf64_Ehdr) + count * sizeof(Elf64_Phdr) + (many ? sizeof(Elf64_Shdr) : 0);
	Elf64_Ehdr header = {
	        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
	                EV_CURRENT},
	        .e_type = ET_CORE,
	        .e_machine = EM_X86_64,
	        .e_version = EV_CURRENT,
	        .e_phoff = sizeof(Elf64_Ehdr),
	        .e_ehsize = sizeof(Elf64_Ehdr),
	        .e_phentsize = sizeof(Elf64_Phdr),
	        .e_phnum = many ? PN_XNUM : (Elf64_Half)count,
	        .e_shoff = many ? notes_at - sizeof(Elf64_Shdr) : 0,
	        .e_shnum = many ? 1 : 0,
	        .e_shentsize = many ? sizeof(Elf64_Shdr) : 0,
	};
	_cleanup_free_ Elf64_Phdr *headers = calloc(count, sizeof(*headers));
	if (!headers)
		return &gm_error_no_memory;
	headers[0] = (Elf64_Phdr){.p_type = PT_NOTE,
	        .p_offset = notes_at,
	        .p_filesz = notes->bytes.count,
	        .p_align = 4};
	uint64_t end = notes_at + notes->bytes.count;
	uint64_t first = (end + GM_PAGE_SIZE - 1) / GM_PAGE_SIZE * GM_PAGE_SIZE, at = first;
	for (size_t i = 0; i < parts; i++) {
		headers[i + 1] = describe_part(&writing->plan.parts.items[i], at);
		at += writing->plan.parts.items[i].saved;
	}
	gm_try(gm_core_out_write(&writing->out, &header, sizeof(header)));
	gm_try(gm_core_out_write(&writing->out, headers, count * sizeof(*headers)));
	const Elf64_Shdr section = {
	        .sh_type = SHT_NULL, .sh_size = 1, .sh_info = (Elf64_Word)count};
	if (many)
		gm_try(gm_core_out_write(&writing->out, &section, sizeof(section)));
	gm_try(gm_core_out_write(&writing->out, notes->bytes.items, notes->bytes.count));
	return gm_core_out_zeros(&writing->out, first - end);
}

/* --- memory ----------------------------------------------------------------------------------- */

static bool is_zero(const uint8_t *page)
{
	return page[0] == 0 && memcmp(page, page + 1, GM_PAGE_SIZE - 1) == 0;
}

/* A run of pages: at once if that works, otherwise page by page, so that one bad page affects only
 * itself. */
static void read_run(struct writing *writing, struct gm_read *run)
{
	for (size_t at = 0; run->failed && at < run->size; at += GM_PAGE_SIZE) {
		uint8_t *page = (uint8_t *)run->buffer + at;
		if (gm_image_try_read(writing->image, run->address + at, page, GM_PAGE_SIZE))
			continue;
		memset(page, 0, GM_PAGE_SIZE);
		writing->unread += GM_PAGE_SIZE;
	}
	writing->copied += run->size;
}

/* Reads the touched pages of a range into the buffer; `states` shows which these are. */
static void read_pages(struct writing *writing, uint64_t start, size_t count, const uint8_t *states)
{
	struct gm_read runs[BUFFER_PAGES];
	size_t run_count = 0;
	for (size_t i = 0; i < count; i++) {
		if (!(states[i] & GM_PAGE_TOUCHED))
			continue;
		uint64_t address = start + i * GM_PAGE_SIZE;
		struct gm_read *last = run_count > 0 ? &runs[run_count - 1] : NULL;
		if (last && last->address + last->size == address)
			last->size += GM_PAGE_SIZE;
		else
			runs[run_count++] = (struct gm_read){
			        address, writing->buffer + i * GM_PAGE_SIZE, GM_PAGE_SIZE, true};
	}
	gm_image_read_many(writing->image, runs, run_count);
	for (size_t i = 0; i < run_count; i++)
		read_run(writing, &runs[i]);
}

/* The vDSO is the same in every 64-bit process of this kernel: if it was never touched, ours is
 * used. */
static bool read_own_vdso(const struct gm_mapping *mapping, uint64_t address, uint8_t *page)
{
	const uint8_t *own = (const uint8_t *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
	if (!own || !mapping || strcmp(mapping->path, "[vdso]") != 0)
		return false;
	memcpy(page, own + (address - mapping->start), GM_PAGE_SIZE);
	return true;
}

/* Pages of a file that the process never touched are read from the file: reading them through the
 * process would map them, and make it larger. */
static void read_from_file(struct writing *writing, uint64_t start, size_t count, uint8_t *states)
{
	const struct gm_mapping *mapping = gm_image_find_mapping(writing->image, start);
	int fd = -1;
	for (size_t i = 0; i < count; i++) {
		if (states[i] & GM_PAGE_TOUCHED)
			continue;
		_cleanup_free_ char *path = NULL;
		if (fd < 0 && mapping && mapping->path[0] == '/')
			gm_error_destroy(gm_image_file_path(writing->image, mapping->path, &path));
		if (path)
			fd = gm_regular_file_open(path);
		struct stat status;
		uint8_t *page = writing->buffer + i * GM_PAGE_SIZE;
		if (read_own_vdso(mapping, start + i * GM_PAGE_SIZE, page)) {
			states[i] = GM_PAGE_OF_FILE;
			continue;
		}
		memset(page, 0, GM_PAGE_SIZE); /* after the file's end */
		if (fd < 0 || fstat(fd, &status) != 0 || status.st_ino != mapping->inode ||
		        pread(fd, page, GM_PAGE_SIZE,
		                (off_t)(mapping->file_offset + (start - mapping->start) +
		                        i * GM_PAGE_SIZE)) <= 0)
			states[i] = GM_PAGE_TOUCHED; /* through the process after all */
		else
			states[i] = GM_PAGE_OF_FILE;
	}
	if (fd >= 0)
		close(fd);
}

/* `states`: zero for pages that are not in the buffer. */
static struct gm_error *write_pages(struct writing *writing, size_t count, uint8_t *states)
{
	for (size_t i = 0; i < count; i++) {
		states[i] = states[i] && !is_zero(writing->buffer + i * GM_PAGE_SIZE);
	}
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && states[end] == states[i];)
			end++;
		size_t size = (end - i) * GM_PAGE_SIZE;
		gm_try(states[i] ? gm_core_out_write(
		                           &writing->out, writing->buffer + i * GM_PAGE_SIZE, size)
		                 : gm_core_out_zeros(&writing->out, size));
	}
	return NULL;
}

static struct gm_error *report_progress(struct writing *writing)
{
	const struct gm_core_options *options = writing->options;
	if (options->cancel && *options->cancel)
		return gm_error_create(GM_TARGET,
		        "%s: cancelled: the file was removed, and the process continues",
		        writing->out.path);
	if (writing->unread > 0 && writing->unread == writing->copied)
		return gm_error_create(GM_TARGET,
		        "process %d: its memory cannot be read, or it ended meanwhile: the file "
		        "was removed",
		        gm_image_pid(writing->image));
	if (options->progress && writing->copied - writing->reported >= PROGRESS_STEP) {
		writing->reported = writing->copied;
		options->progress(options->context, writing->copied, writing->plan.bytes);
	}
	return NULL;
}

static struct gm_error *write_part(struct writing *writing, const struct gm_core_part *part)
{
	for (uint64_t done = 0; done < part->saved; done += BUFFER_SIZE) {
		uint64_t left = part->saved - done;
		size_t count = (left < BUFFER_SIZE ? (size_t)left : BUFFER_SIZE) / GM_PAGE_SIZE;
		uint8_t states[BUFFER_PAGES];
		gm_core_plan_pages(&writing->plan, part->start + done, count, states);
		if (part->kind == GM_PART_ALL)
			read_from_file(writing, part->start + done, count, states);
		read_pages(writing, part->start + done, count, states);
		gm_try(write_pages(writing, count, states));
		gm_try(report_progress(writing));
	}
	return NULL;
}

/* --- everything ------------------------------------------------------------------------------- */

static struct gm_error *copy(struct writing *writing, const char *path)
{
	gm_try(gm_image_refresh(writing->image));
	gm_try(read_threads(writing));
	gm_try(gm_core_plan_init(writing->image, &writing->plan));
	struct gm_note_bytes notes = {0};
	gm_try(gm_core_notes_make(writing->image, writing->threads, writing->thread_count,
	        writing->options->signal, &notes));
	struct gm_error *error = gm_core_out_open(path, writing->options->compress,
	        writing->plan.bytes + notes.bytes.count, &writing->out);
	if (!error)
		error = write_headers(writing, &notes);
	gm_array_deinit(&notes.bytes);
	for (size_t i = 0; i < writing->plan.parts.count && !error; i++)
		error = write_part(writing, &writing->plan.parts.items[i]);
	return error;
}

static double seconds_since(const struct timespec *start)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static void deinit(struct writing *writing)
{
	gm_core_out_close(&writing->out);
	gm_core_plan_deinit(&writing->plan);
	for (size_t i = 0; i < writing->thread_count; i++)
		gm_thread_state_deinit(&writing->threads[i]);
	free(writing->threads);
	free(writing->buffer);
}

struct gm_error *gm_core_write(struct gm_image *image, const char *path,
        const struct gm_core_options *options, struct gm_core_written *ret_written)
{
	struct writing writing = {.image = image,
	        .options = options,
	        .plan = {.pagemap = -1},
	        .out = {.file = {.fd = -1, .folder = -1}},
	        .buffer = malloc(BUFFER_SIZE)};
	if (!writing.buffer)
		return &gm_error_no_memory;
	struct timespec start;
	clock_gettime(CLOCK_MONOTONIC, &start);
	struct gm_stop stop = {0};
	struct gm_error *error = gm_image_pid(image) > 0 ? gm_stop_begin(image, &stop) : NULL;
	if (!error)
		error = copy(&writing, path);
	gm_stop_end(&stop);
	struct gm_core_written written = {
	        .length = writing.out.length,
	        .memory = writing.copied,
	        .unread = writing.unread,
	        .device = writing.plan.device,
	        .untouched = writing.plan.untouched,
	        .files = writing.plan.files,
	        .threads = writing.thread_count,
	        .stopped = seconds_since(&start),
	};
	if (!error)
		error = gm_core_out_finish(&writing.out, &written.disk);
	deinit(&writing);
	if (!error)
		*ret_written = written;
	return error;
}
