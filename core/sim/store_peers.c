/*
 * Values that absent ranks set. They are assumed to do what the present rank does: a key that names
 * another rank has the value of the same key with the present rank's number; barrier marks are set;
 * the unique id of a communicator is arbitrary (sim/nccl/alone.c needs none). Anything else that
 * another rank would set is not known.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/store.h"

enum { UNIQUE_ID = 128, LONGEST = 8192 };

static bool contains(const char *key, const char *word)
{
	return strstr(key, word) != NULL;
}

/* The last part of a key, after the prefixes of PrefixStore. */
static const char *last_part(const char *key)
{
	const char *slash = strrchr(key, '/');
	return slash ? slash + 1 : key;
}

/*
 * Keys under which rank 0 (or each of several roots) publishes a communicator's ncclUniqueId. The
 * names, all in the last part:
 *   "0", "1", "2:3"             ProcessGroupNCCL: a group's communicators, a pair's for sends
 *                               and receives
 *   "UniqueNCCLID:0"            the same for more than 128 ranks, which have several roots
 *                               (PyTorch 2.6 on)
 *   "nccl_storekey_0", "…_0_2"  c10d/nccl2/NCCLBootstrap.cpp (the default from PyTorch 2.15
 *                               on): a generation, and the root if there are several;
 *                               torchcomms uses the same prefix
 * So these are names of only digits and colons, or names that contain "nccl". Nobody waits for
 * NCCL's other keys.
 */
static bool is_unique_id(const char *key)
{
	const char *part = last_part(key);
	if (strcasestr(part, "nccl"))
		return true;
	bool digit = isdigit((unsigned char)*part);
	for (const char *at = part; *at; at++)
		if (!isdigit((unsigned char)*at) && *at != ':')
			return false;
	return digit;
}

/* The key with one number in it, another rank's, replaced by this rank's, if that key exists. */
static const struct gm_sim_store_bytes *own_like(struct gm_sim_store *store, const char *key)
{
	char own[LONGEST + 32];
	const char *part = key;
	for (const char *at = part; *at; at++) {
		if (!isdigit((unsigned char)*at) || (at > key && isdigit((unsigned char)at[-1])))
			continue;
		char *end;
		unsigned long number = strtoul(at, &end, 10);
		if (number >= gm_sim_store_world(store) || number == gm_sim_store_rank(store))
			continue;
		int length = snprintf(own, sizeof(own), "%.*s%u%s", (int)(at - key), key,
		        gm_sim_store_rank(store), end);
		if (length < 0 || (size_t)length >= sizeof(own))
			return NULL;
		const struct gm_sim_store_bytes *value =
		        gm_sim_store_get(store, own, (size_t)length);
		if (value)
			return value;
	}
	return NULL;
}

bool gm_sim_store_answer(struct gm_sim_store *store, const char *key, size_t length)
{
	char text[LONGEST + 1];
	if (length > LONGEST || memchr(key, 0, length))
		return false;
	memcpy(text, key, length);
	text[length] = 0;
	const struct gm_sim_store_bytes *own = own_like(store, text);
	if (own) {
		struct gm_sim_store_bytes copy = {malloc(own->size + 1), own->size};
		if (!copy.data)
			return false;
		memcpy(copy.data, own->data, own->size);
		bool set = gm_sim_store_set(store, key, length, copy.data, copy.size);
		free(copy.data);
		return set;
	}
	if (is_unique_id(text)) {
		unsigned char id[UNIQUE_ID] = "gpumem-sim-alone";
		return gm_sim_store_set(store, key, length, id, sizeof(id));
	}
	if (contains(text, "barrier") || contains(text, "last_worker") ||
	        contains(text, "last_member"))
		return gm_sim_store_set(store, key, length, "1", 1);
	return false;
}
