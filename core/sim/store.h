/*
 * A TCPStore of PyTorch for a job with a single simulated rank: it also plays the part of the
 * absent ranks.
 *
 * torch.distributed starts through a key-value store: ranks set keys, count, and wait for each
 * other's keys. A helper process serves the store (c10d's wire protocol;
 * torch/csrc/distributed/c10d/TCPStoreBackend.hpp, 2.4 to 2.11) until the program ends. Counters
 * rise as if all ranks had counted. A key of an absent rank is answered if its value can be known
 * (store_peers.c); otherwise the program waits, as for a rank that never starts, and a line on
 * stderr names the key.
 *
 * This does not replace the peers of a `gloo` group, which connect to each other.
 */
#ifndef GM_SIM_STORE_H
#define GM_SIM_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct gm_sim_store_bytes {
	unsigned char *data;
	size_t size;
};

/* Starts the process, which watches the calling one; the port on 127.0.0.1 is in *ret_port. */
struct gm_error *gm_sim_store_start(unsigned rank, unsigned world, unsigned *ret_port);

/* store.c: the keys there are; NULL where a key is not. */
struct gm_sim_store;
struct gm_sim_store *gm_sim_store_new(unsigned rank, unsigned world);
void gm_sim_store_free(struct gm_sim_store *store);
const struct gm_sim_store_bytes *gm_sim_store_get(
        struct gm_sim_store *store, const char *key, size_t length);
bool gm_sim_store_set(
        struct gm_sim_store *store, const char *key, size_t length, const void *data, size_t size);
bool gm_sim_store_remove(struct gm_sim_store *store, const char *key, size_t length);
size_t gm_sim_store_count(const struct gm_sim_store *store);
unsigned gm_sim_store_rank(const struct gm_sim_store *store);
unsigned gm_sim_store_world(const struct gm_sim_store *store);

/* store_peers.c: sets a missing key as an absent rank would; false where that is not known. */
bool gm_sim_store_answer(struct gm_sim_store *store, const char *key, size_t length);

/* store_protocol.c: one connection's input. Consumes whole requests; answers are appended to
 * `out`. */
struct gm_sim_store_buffer {
	unsigned char *data;
	size_t size, capacity;
};
bool gm_sim_store_append(struct gm_sim_store_buffer *buffer, const void *data, size_t size);
struct gm_sim_store_client {
	struct gm_sim_store_buffer in, out;
	/* Keys that it waits for, as they came: count and then size and bytes each; empty: none. */
	struct gm_sim_store_buffer awaited;
	bool popping; /* it waits for the head of the queue of that name */
};
/* False where the input is not c10d's protocol: the connection is to be closed. */
bool gm_sim_store_serve(struct gm_sim_store *store, struct gm_sim_store_client *client);
/* Answers a client whose wait has ended; true where something was answered. */
bool gm_sim_store_wake(struct gm_sim_store *store, struct gm_sim_store_client *client);

#endif
