/*
 * Whether two ranks did the same: a hash of a recording's events, of each thread in their order.
 *
 * An event counts with what the program did: action, device (the ranks' first devices are the same
 * one, whatever their numbers), sizes, dtype and shape, and the Python stack by its files,
 * functions and lines. Addresses, times, streams and ids do not count; nor does how threads were
 * interleaved, except in the peaks, which are compared too.
 */
#ifndef GM_RANKS_SIM_DIGEST_H
#define GM_RANKS_SIM_DIGEST_H

#include "ranks/sim_result.h"

/* Adds a recording of the rank: digest, events, peaks, out-of-memory errors, the device's bytes. */
struct gm_error *gm_sim_digest(const char *path, struct gm_sim_result *result);

#endif
