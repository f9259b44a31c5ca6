/*
 * Put before the decoders of core/cpython where they are built into the agent: what they allocate
 * comes from the recording thread's scratch memory, all of which is free again when the code object
 * that is met is done.
 */
#ifndef GM_AGENT_STACKS_DECODING_H
#define GM_AGENT_STACKS_DECODING_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *gm_decoding_malloc(size_t size);
void *gm_decoding_calloc(size_t count, size_t size);
void *gm_decoding_realloc(void *old, size_t size);
void gm_decoding_free(void *old);

#define malloc gm_decoding_malloc
#define calloc gm_decoding_calloc
#define realloc gm_decoding_realloc
#define free gm_decoding_free

#endif
