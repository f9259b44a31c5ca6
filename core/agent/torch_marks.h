/* Marks that PyTorch makes. */
#ifndef GM_AGENT_TORCH_MARKS_H
#define GM_AGENT_TORCH_MARKS_H

#include "agent/agent.h"

/* To be called where PyTorch may have been loaded, by a thread that is in no allocator or loader */
void gm_agent_torch_marks_look(void);
void gm_agent_torch_marks_end(void);

#endif
