/*
 * The notes of a core that we write: NT_PRSTATUS, NT_FPREGSET and NT_X86_XSTATE of each thread,
 * NT_PRPSINFO, NT_SIGINFO, NT_AUXV and NT_FILE, laid out as the kernel does (fs/binfmt_elf.c;
 * core(5)). Inside of the image room.
 */
#ifndef GM_IMAGE_CORE_NOTES_H
#define GM_IMAGE_CORE_NOTES_H

#include "base/array.h"
#include "image/thread_state.h"

struct gm_note_bytes {
	GM_ARRAY(uint8_t) bytes;
};

/* threads[0] is the one that debuggers select. `signal`: what it got, 0: none. */
struct gm_error *gm_core_notes_make(struct gm_image *image, const struct gm_thread_state *threads,
        size_t count, int signal, struct gm_note_bytes *ret_notes);

#endif
