/*
 * What a program may say to gpumem's agent, if it wants to: when to record, where a step begins,
 * what a stretch of the program is called. libgpumem-agent.so has these; `gpumem run` preloads it.
 * Each is safe to call where nothing is recorded: it does nothing then. From any thread; not from a
 * signal handler.
 *
 *     cc -c train.c -I...
 *
 * Link with -lgpumem-agent, or look the names up with dlsym(RTLD_DEFAULT, ...).
 */
#ifndef GPUMEM_AGENT_H
#define GPUMEM_AGENT_H

#ifdef __cplusplus
extern "C" {
#endif

/* "out=PATH;devices=cuda,cpu;stacks=python,native": %p in PATH is the process id. 0; 1: it records
 * already; 2: it cannot, and one line on stderr has told why. */
int gpumem_agent_start(const char *settings);
/* 0; 1: it does not record. */
int gpumem_agent_stop(void);
/* The file of this process; "" where nothing is recorded. */
const char *gpumem_agent_path(void);

/* A step of the program begins: step 1 at the first call. Where a program says so, nothing else is
 * taken for its steps. */
void gpumem_agent_step(void);
/* A stretch of the calling thread begins and ends; they nest. UTF-8, at most 1024 bytes are
 * kept. */
void gpumem_agent_push(const char *name);
void gpumem_agent_pop(void);

#ifdef __cplusplus
}
#endif

#endif
