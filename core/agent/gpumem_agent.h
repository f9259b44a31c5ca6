/*
 * Functions by which a program can control gpumem's agent: when to record, where a step begins, the
 * name of a range of the program. They are in libgpumem-agent.so, which `gpumem run` preloads. They
 * do nothing if the program is not recorded. Any thread may call them, but no signal handler.
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

/* settings: "out=PATH;devices=cuda,cpu;stacks=python,native"; %p in PATH is the process id. Returns
 * 0; 1: it records already; 2: it cannot, and a line on stderr gives the reason; 3: the process may
 * not read the processor's time stamp counter (PR_SET_TSC of prctl(2)). */
int gpumem_agent_start(const char *settings);
/* Returns 0; 1: it does not record. */
int gpumem_agent_stop(void);
/* The file of this process; "" if nothing is recorded. */
const char *gpumem_agent_path(void);

/* A step of the program begins: step 1 at the first call. If a program marks steps, gpumem looks
 * for no others. */
void gpumem_agent_step(void);
/* A range of the calling thread begins and ends; ranges nest. The name is UTF-8; at most 1024 bytes
 * are kept. */
void gpumem_agent_push(const char *name);
void gpumem_agent_pop(void);

#ifdef __cplusplus
}
#endif

#endif
