/*
 * A zoo of programs that are awkward to attach to. Each looks at itself before and after: see
 * state.c.
 *
 *     target.c   main: which animal it is, by the words of its command line
 *     traits.c   what is done once, before it begins: limits, filters, signals
 *     work.c     what it does all the time, and how it checks that
 *     state.c    what it is for the kernel: taken when it begins, compared when it ends
 *     bare.c     a program of its own, without a C library
 */
#ifndef ZOO_H
#define ZOO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prints "wrong: WHAT" and ends. Also in a signal handler, and under a filter. */
__attribute__((noreturn, format(printf, 1, 2))) void wrong(const char *format, ...);
/* Prints a line by one write(). */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A signal's handler, as the kernel has it. */
void handle(int number, void (*handler)(int));

/* ---- state.c ---- */

/* Opens what take and compare need: nothing is opened afterwards. */
void state_prepare(void);
/* With so many threads that stay. */
void state_take(int threads);
/* Compares, after threads that come and go have gone. */
void state_compare(void);

/* ---- traits.c ---- */

/* "NAME=VALUE". The filters are the last. False: no such trait. */
bool trait_take(const char *word);
/* What a trait has to check at the end. */
void trait_check(void);

/* ---- work.c ---- */

/* False: no such work. */
bool work_begin(const char *name, unsigned seed);
/* Once; it takes some milliseconds at most. */
void work_once(void);
/* How many threads it has beside the one that began it. */
int work_threads(void);
/* Ends its storms, and checks the sums. */
void work_end(void);
/* The same number each time. */
uint64_t sum_of(unsigned rounds);

#endif
