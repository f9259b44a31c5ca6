/*
 * Can a program load the libraries that gpumem preloads? They need this machine's glibc and this
 * processor; another dynamic linker ends the program because of them (musl), or complains on its
 * standard error (another ABI).
 *
 * Runs inside the program too, between fork or vfork and exec: no allocation, no locks, no
 * cancellation point, little of the stack. errno changes.
 */
#ifndef GM_PRELOAD_PROGRAM_H
#define GM_PRELOAD_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

enum {
	GM_PRELOAD_LINE = 256 /* what the kernel reads of a script's first line (BINPRM_BUF_SIZE) */
};

struct gm_preload_program {
	uint8_t class, data; /* EI_CLASS, EI_DATA */
	uint16_t machine;    /* e_machine; 0 where the class is another one than this process's */
	char linker[GM_PRELOAD_LINE]; /* PT_INTERP; "": none (static, or itself a dynamic linker) */
	bool is_linker_of_musl;
};

/*
 * What the program at `path` (relative to the descriptor `folder`, as for openat) is; of a script
 * its interpreter counts. False: it is not an ELF file, or cannot be read. Only regular files are
 * opened.
 */
bool gm_preload_read(int folder, const char *path, struct gm_preload_program *ret);

/* Does it take what a process takes whose dynamic linker is `linker`? True of a static program: it
 * preloads nothing. */
bool gm_preload_fits(const struct gm_preload_program *program, const char *linker);

/* Is that dynamic linker musl's, by its name? */
bool gm_preload_is_musl(const char *linker);

#endif
