/* Where the project's own files lie: beside each other in a build, in bin/ and lib/ once
 * installed. */
#ifndef GM_BASE_SIBLING_PATH_H
#define GM_BASE_SIBLING_PATH_H

/* The library `name` as seen from `file`, a program in bin/ or libgpumem.so next to it; NULL where
 * it is not there. The caller frees it. */
char *gm_sibling_path(const char *file, const char *name);
/* The same as seen from the file that this code is in, else from the program that runs it. */
char *gm_installed_path(const char *name);

#endif
