/* close_range(2) for every C library and kernel: glibc has the function since 2.34, Linux
 * since 5.9. */
#ifndef GM_BASE_CLOSE_RANGE_H
#define GM_BASE_CLOSE_RANGE_H

/*
 * Closes all descriptors from first to last. Makes only system calls, so a child may call it after
 * fork(). A kernel that lacks the call has the descriptors in /proc/self/fd. Without /proc, all
 * numbers up to the limit on open files are closed one by one.
 */
void gm_close_range(unsigned first, unsigned last);

#endif
