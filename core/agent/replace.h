/* The file of a former recording, which a new one of the same name replaces: not before it has
 * begun. */
#ifndef GM_AGENT_REPLACE_H
#define GM_AGENT_REPLACE_H

#include <stdbool.h>

/*
 * Whether `path` is the file that `gpumem run` has found there (the setting "old"): it may be
 * replaced. Every process of the program may be the first to record; whoever comes later finds that
 * one's file.
 */
bool gm_agent_is_old(const char *path);

/* Gives `made` the name `path`, if that is still the old file's: at once, so that there always is
 * one of the two. */
bool gm_agent_replace(const char *made, const char *path);

#endif
