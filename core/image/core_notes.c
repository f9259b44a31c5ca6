#include "image/core_notes.h"

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/procfs.h>

#include "base/cleanup.h"
#include "image/numbers.h"
#include "image/page_cache.h"

static bool put(struct gm_note_bytes *notes, const void *bytes, size_t size)
{
	if (!gm_array_reserve(&notes->bytes, size + 3))
		return false;
	if (size > 0)
		memcpy(notes->bytes.items + notes->bytes.count, bytes, size);
	notes->bytes.count += size;
	while (notes->bytes.count % 4)
		notes->bytes.items[notes->bytes.count++] = 0;
	return true;
}

static bool add(struct gm_note_bytes *notes, const char *name, uint32_t type, const void *content,
        size_t size)
{
	Elf64_Nhdr head = {(uint32_t)strlen(name) + 1, (uint32_t)size, type};
	return put(notes, &head, sizeof(head)) && put(notes, name, head.n_namesz) &&
	       put(notes, content, size);
}

/* --- the process ------------------------------------------------------------------------------ */

/* The data of /proc/PID/stat and its neighbours; zeros if there is no process. */
static struct elf_prpsinfo describe(pid_t pid)
{
	struct elf_prpsinfo info = {.pr_sname = 'R', .pr_pid = pid};
	char path[64], text[1024] = "";
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	_cleanup_fclose_ FILE *stat = pid > 0 ? fopen(path, "re") : NULL;
	size_t size = stat ? fread(text, 1, sizeof(text) - 1, stat) : 0;
	text[size] = '\0';
	char *begin = strchr(text, '('),
	     *close = strrchr(text, ')'); /* the name may contain any character */
	if (begin && close && close > begin) {
		size_t length = (size_t)(close - begin - 1);
		memcpy(info.pr_fname, begin + 1,
		        length < sizeof(info.pr_fname) - 1 ? length : sizeof(info.pr_fname) - 1);
		long nice = 0;
		char letter = 'R';
		sscanf(close + 1,
		        " %c %d %d %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld", &letter,
		        &info.pr_ppid, &info.pr_pgrp, &info.pr_sid, &nice);
		/* 't' is our own doing */
		info.pr_sname = letter == 't' ? 'S' : letter;
		info.pr_nice = (char)nice;
	}
	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	_cleanup_close_ int command = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t got = command >= 0 ? read(command, info.pr_psargs, sizeof(info.pr_psargs) - 1) : 0;
	for (ssize_t i = 0; i + 1 < got; i++) {
		if (info.pr_psargs[i] == '\0')
			info.pr_psargs[i] = ' ';
	}
	return info;
}

static bool add_auxiliary(struct gm_note_bytes *notes, pid_t pid)
{
	char path[32], vector[8192];
	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	_cleanup_close_ int fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t size = fd >= 0 ? read(fd, vector, sizeof(vector)) : 0;
	return size <= 0 || add(notes, "CORE", NT_AUXV, vector, (size_t)size);
}

/* A count, the size of a page, then start, end and offset in pages of each mapping, then the paths.
 * */
static bool add_files(struct gm_note_bytes *notes, const struct gm_image *image)
{
	size_t count;
	const struct gm_mapping *mappings = gm_image_mappings(image, &count);
	GM_ARRAY(uint64_t) words = {0};
	GM_ARRAY(char) paths = {0};
	uint64_t head[2] = {0, GM_PAGE_SIZE};
	bool made = gm_array_push(&words, head[0]) && gm_array_push(&words, head[1]);
	for (size_t i = 0; i < count && made; i++) {
		const struct gm_mapping *mapping = &mappings[i];
		if (mapping->path[0] != '/')
			continue;
		size_t length = strlen(mapping->path) + 1;
		made = gm_array_reserve(&words, 3) && gm_array_reserve(&paths, length);
		if (!made)
			break;
		words.items[words.count++] = mapping->start;
		words.items[words.count++] = mapping->end;
		words.items[words.count++] = mapping->file_offset / GM_PAGE_SIZE;
		memcpy(paths.items + paths.count, mapping->path, length);
		paths.count += length;
		words.items[0]++;
	}
	uint8_t *content =
	        made ? malloc(words.count * sizeof(*words.items) + paths.count + 1) : NULL;
	if (content) {
		size_t size = words.count * sizeof(*words.items);
		memcpy(content, words.items, size);
		if (paths.count > 0)
			memcpy(content + size, paths.items, paths.count);
		made = add(notes, "CORE", NT_FILE, content, size + paths.count);
	}
	made = made && content;
	free(content);
	gm_array_deinit(&words);
	gm_array_deinit(&paths);
	return made;
}

/* --- a thread --------------------------------------------------------------------------------- */

static bool add_status(struct gm_note_bytes *notes, const struct gm_thread_state *thread,
        const struct elf_prpsinfo *process, int signal)
{
	struct elf_prstatus status = {
	        .pr_info = {.si_signo = signal},
	        .pr_cursig = (short)signal,
	        .pr_pid = thread->id,
	        .pr_ppid = process->pr_ppid,
	        .pr_pgrp = process->pr_pgrp,
	        .pr_sid = process->pr_sid,
	        .pr_fpvalid = thread->has_floating,
	};
	_Static_assert(sizeof(status.pr_reg) == sizeof(thread->general), "both are the kernel's");
	memcpy(&status.pr_reg, &thread->general, sizeof(thread->general));
	return add(notes, "CORE", NT_PRSTATUS, &status, sizeof(status));
}

static bool add_floating(struct gm_note_bytes *notes, const struct gm_thread_state *thread)
{
	if (thread->has_floating &&
	        !add(notes, "CORE", NT_FPREGSET, &thread->floating, sizeof(thread->floating)))
		return false;
	return thread->extended_size == 0 ||
	       add(notes, "LINUX", NT_X86_XSTATE, thread->extended, thread->extended_size);
}

struct gm_error *gm_core_notes_make(struct gm_image *image, const struct gm_thread_state *threads,
        size_t count, int signal, struct gm_note_bytes *ret_notes)
{
	pid_t pid = gm_image_pid(image);
	struct elf_prpsinfo process = describe(pid);
	process.pr_pid = pid > 0 ? gm_number_inside(pid, pid) : gm_image_main_thread(image);
	siginfo_t information = {.si_signo = signal};
	struct gm_note_bytes notes = {0};
	bool made = true;
	for (size_t i = 0; i < count && made; i++) {
		made = add_status(&notes, &threads[i], &process, i == 0 ? signal : 0);
		/* Those of the process come after the first thread's status, as in the kernel's
		 * cores. */
		if (i == 0)
			made = made &&
			       add(&notes, "CORE", NT_PRPSINFO, &process, sizeof(process)) &&
			       add(&notes, "CORE", NT_SIGINFO, &information, sizeof(information)) &&
			       add_auxiliary(&notes, pid) && add_files(&notes, image);
		made = made && add_floating(&notes, &threads[i]);
	}
	if (!made) {
		gm_array_deinit(&notes.bytes);
		return &gm_error_no_memory;
	}
	*ret_notes = notes;
	return NULL;
}
