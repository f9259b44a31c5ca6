/* The keys and their values. */
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "sim/store.h"

struct entry {
	UT_hash_handle hh;
	struct gm_sim_store_bytes value;
	char key[];
};

struct gm_sim_store {
	struct entry *entries;
	unsigned rank, world;
	size_t bytes;
};

/* Bytes of all keys and values; those of a job are some kilobytes. */
enum { MOST = 256 << 20 };

struct gm_sim_store *gm_sim_store_new(unsigned rank, unsigned world)
{
	struct gm_sim_store *store = calloc(1, sizeof(*store));
	if (store) {
		store->rank = rank;
		store->world = world;
	}
	return store;
}

static void drop(struct gm_sim_store *store, struct entry *entry)
{
	store->bytes -= entry->value.size + entry->hh.keylen;
	HASH_DEL(store->entries, entry);
	free(entry->value.data);
	free(entry);
}

void gm_sim_store_free(struct gm_sim_store *store)
{
	struct entry *entry, *next;
	if (!store)
		return;
	HASH_ITER(hh, store->entries, entry, next)
	drop(store, entry);
	free(store);
}

static struct entry *find(struct gm_sim_store *store, const char *key, size_t length)
{
	struct entry *entry;
	HASH_FIND(hh, store->entries, key, length, entry);
	return entry;
}

const struct gm_sim_store_bytes *gm_sim_store_get(
        struct gm_sim_store *store, const char *key, size_t length)
{
	struct entry *entry = find(store, key, length);
	return entry ? &entry->value : NULL;
}

bool gm_sim_store_set(
        struct gm_sim_store *store, const char *key, size_t length, const void *data, size_t size)
{
	unsigned char *copy = malloc(size + 1);
	struct entry *entry = find(store, key, length);
	if (!copy || store->bytes + length + size > MOST) {
		free(copy);
		return false;
	}
	if (size)
		memcpy(copy, data, size);
	if (!entry) {
		entry = calloc(1, sizeof(*entry) + length + 1);
		if (!entry) {
			free(copy);
			return false;
		}
		memcpy(entry->key, key, length);
		HASH_ADD_KEYPTR(hh, store->entries, entry->key, length, entry);
		store->bytes += length;
	}
	free(entry->value.data);
	store->bytes += size - entry->value.size;
	entry->value = (struct gm_sim_store_bytes){copy, size};
	return true;
}

bool gm_sim_store_remove(struct gm_sim_store *store, const char *key, size_t length)
{
	struct entry *entry = find(store, key, length);
	if (entry)
		drop(store, entry);
	return entry != NULL;
}

size_t gm_sim_store_count(const struct gm_sim_store *store)
{
	return HASH_COUNT(store->entries);
}

unsigned gm_sim_store_rank(const struct gm_sim_store *store)
{
	return store->rank;
}

unsigned gm_sim_store_world(const struct gm_sim_store *store)
{
	return store->world;
}
