/* Inside of the image room: what an ELF core says of itself, apart from memory. */
#ifndef GM_IMAGE_CORE_FILE_H
#define GM_IMAGE_CORE_FILE_H

#include <elf.h>

#include "image/image.h"

/* A flag of PT_LOAD in cores that gpumem writes (of PF_MASKOS): the memory behind the saved bytes
 * was never touched, so it reads as zero; in other cores it is not saved. */
#define GM_CORE_PF_UNTOUCHED 0x08000000u

/* A PT_LOAD: `present` bytes of memory are in the file, `saved` were meant to be (more: it was cut
 * short). */
struct gm_core_segment {
	uint64_t start, end;
	uint64_t offset;
	uint64_t saved, present;
	uint32_t flags; /* enum gm_mapping_flags */
	bool zero_tail; /* GM_CORE_PF_UNTOUCHED */
};

/* A mapped file, from the NT_FILE note. */
struct gm_core_mapped {
	uint64_t start, end;
	uint64_t file_offset;
	const char *path; /* in `notes` */
};

struct gm_core_thread {
	pid_t id;
	struct gm_registers registers;
};

struct gm_core_file {
	int fd;
	uint64_t size;
	char *notes;                      /* owns the strings */
	struct gm_core_segment *segments; /* by address */
	size_t segment_count, segment_capacity;
	struct gm_core_mapped *mapped; /* by address */
	size_t mapped_count, mapped_capacity;
	struct gm_core_thread *threads;
	size_t thread_count, thread_capacity;
	pid_t process; /* 0: unknown */
	uint64_t vdso; /* its first address, 0: unknown */
};

/* Reads headers and notes; the descriptor is taken over, also on an error (then call deinit). */
struct gm_error *gm_core_file_init(struct gm_core_file *core, int fd, const char *path);
void gm_core_file_deinit(struct gm_core_file *core);
/* The one that contains an address, or NULL. */
const struct gm_core_segment *gm_core_file_segment(
        const struct gm_core_file *core, uint64_t address);
const struct gm_core_mapped *gm_core_file_mapped(const struct gm_core_file *core, uint64_t address);
/* All of the bytes, or false. */
bool gm_core_file_read(const struct gm_core_file *core, uint64_t offset, void *buffer, size_t size);

#endif
