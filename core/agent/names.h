/* The moment at which names of tensors are read from outside (format.h, enum gm_agent_names). */
#ifndef GM_AGENT_NAMES_H
#define GM_AGENT_NAMES_H

/* The optimizer has made a step: gradients are there yet, and its state by now. */
void gm_agent_names_step_ended(void);

#endif
