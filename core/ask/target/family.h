/*
 * Which process was meant by the id of a shell, of `gpumem run`, of torchrun or another launcher:
 * those of its descendants that have Python or CUDA. Only /proc is read; no process is stopped.
 */
#ifndef GM_ASK_FAMILY_H
#define GM_ASK_FAMILY_H

#include <stdbool.h>
#include <stddef.h>

struct gm_relative {
	int pid;
	bool python; /* an interpreter is loaded */
	bool cuda;   /* a library of CUDA or PyTorch is loaded */
	bool device; /* it has mapped memory of a device, or of the simulated one */
};

/* What the process has loaded; all false where it cannot be read. */
struct gm_relative gm_relative_look(int pid);

/* The descendants that use a device, else those that have Python, else CUDA: at most `most`, with
 * the smallest ids. */
size_t gm_relatives_find(int pid, struct gm_relative *ret, size_t most);

/* "its child 4705 (python train.py)", "its children 4705 and 4706 (python train.py)"; NULL: there
 * is none, or none that uses a device where `device` is asked for. The caller frees it. *ret_pid:
 * the first one. */
char *gm_relatives_text(int pid, bool device, int *ret_pid);

#endif
