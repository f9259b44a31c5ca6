/*
 * Threads of this library in a program that is another's (gdb with our plugin).
 */
#ifndef GM_BASE_THREAD_H
#define GM_BASE_THREAD_H

#include <pthread.h>

/* As pthread_create() with default attributes. The thread takes none of the program's signals: a
 * debugger waits in sigsuspend() for the SIGCHLD of its program, and would wait for ever where
 * another thread took it. Signals that a thread causes itself (SIGSEGV, SIGBUS, ...) stay. */
int gm_thread_create(pthread_t *ret_thread, void *(*run)(void *context), void *context);

#endif
