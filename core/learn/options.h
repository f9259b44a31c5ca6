/* Which Python a probe is started with. */
#ifndef GM_LEARN_OPTIONS_H
#define GM_LEARN_OPTIONS_H

struct gm_learn_options {
	const char *python;       /* the interpreter's file, or a name in PATH */
	const char *probe;        /* "python/probe.py" for CPython alone; NULL: PyTorch's */
	const char *site;         /* the folder that has its torch; NULL: it knows itself */
	char *const *environment; /* its variables, NULL after the last; NULL: our own. Few of them
	                             are passed on */
};

#endif
