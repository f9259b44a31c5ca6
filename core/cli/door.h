/* The door's inner side, for main.c: the same as gpumem_door_run() with real streams. */
#ifndef GM_CLI_DOOR_H
#define GM_CLI_DOOR_H

#include <stdio.h>

#include "ask/context.h"
#include "gpumem.h"

/* The door of a shell command: questions must name what they are about. */
void gm_door_set_shell(gpumem_door *door);
/* What the door looks at. */
struct gm_context *gm_door_context(gpumem_door *door);
int gm_door_run(gpumem_door *door, int argc, const char *const *argv, FILE *out, FILE *err);

#endif
