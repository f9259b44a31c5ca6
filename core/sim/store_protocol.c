/*
 * c10d's wire protocol: one byte of command, then words of 64 bits and byte strings after their
 * length. (TCPStoreBackend.hpp and TCPStoreLibUvBackend.cpp of PyTorch 2.4 to 2.11.) All lengths
 * are bounded.
 */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/store.h"

enum command {
	VALIDATE,
	SET,
	COMPARE_SET,
	GET,
	ADD,
	CHECK,
	WAIT,
	GETNUMKEYS,
	DELETE_KEY,
	APPEND,
	MULTI_GET,
	MULTI_SET,
	CANCEL_WAIT,
	PING,
	QUEUE_PUSH,
	QUEUE_POP,
	QUEUE_LEN,
};

/* The same bounds as in libuv's backend. */
enum { LONGEST_KEY = 8192, LARGEST_VALUE = 8 << 20, MOST_KEYS = 128 << 10, MAGIC = 0x3C85F7CE };

bool gm_sim_store_append(struct gm_sim_store_buffer *buffer, const void *data, size_t size)
{
	if (buffer->capacity - buffer->size < size) {
		size_t capacity = (buffer->size + size) * 2 + 256;
		unsigned char *more = realloc(buffer->data, capacity);
		if (!more)
			return false;
		buffer->data = more;
		buffer->capacity = capacity;
	}
	if (size)
		memcpy(buffer->data + buffer->size, data, size);
	buffer->size += size;
	return true;
}

/* Reading a request: `more` if it is not complete yet, `wrong` if it is invalid. */
struct reader {
	const unsigned char *at, *end;
	bool more, wrong;
};

static uint64_t word(struct reader *reader, size_t size)
{
	uint64_t value = 0;
	if (reader->more || reader->wrong)
		return 0;
	if ((size_t)(reader->end - reader->at) < size) {
		reader->more = true;
		return 0;
	}
	memcpy(&value, reader->at, size);
	reader->at += size;
	return le64toh(value);
}

static struct gm_sim_store_bytes string(struct reader *reader, size_t most)
{
	struct gm_sim_store_bytes bytes = {0};
	uint64_t size = word(reader, 8);
	if (reader->more || reader->wrong)
		return bytes;
	if (size > most) {
		reader->wrong = true;
	} else if ((uint64_t)(reader->end - reader->at) < size) {
		reader->more = true;
	} else {
		bytes = (struct gm_sim_store_bytes){(unsigned char *)(uintptr_t)reader->at, size};
		reader->at += size;
	}
	return bytes;
}

static bool put_word(struct gm_sim_store_buffer *out, uint64_t value, size_t size)
{
	value = htole64(value);
	return gm_sim_store_append(out, &value, size);
}

static bool put_bytes(struct gm_sim_store_buffer *out, const void *data, size_t size)
{
	return put_word(out, size, 8) && gm_sim_store_append(out, data, size);
}

/* The value of a key. If an absent rank would set it, it is set first. */
static const struct gm_sim_store_bytes *value_of(
        struct gm_sim_store *store, struct gm_sim_store_bytes key)
{
	const struct gm_sim_store_bytes *value =
	        gm_sim_store_get(store, (const char *)key.data, key.size);
	if (!value && gm_sim_store_answer(store, (const char *)key.data, key.size))
		value = gm_sim_store_get(store, (const char *)key.data, key.size);
	return value;
}

static bool set(
        struct gm_sim_store *store, struct gm_sim_store_bytes key, const void *data, size_t size)
{
	return gm_sim_store_set(store, (const char *)key.data, key.size, data, size);
}

/* Counters increase as if every rank had added; the value is stored as text, as c10d stores it. */
static bool add(struct gm_sim_store *store, struct gm_sim_store_bytes key, int64_t by, int64_t *ret)
{
	const struct gm_sim_store_bytes *old =
	        gm_sim_store_get(store, (const char *)key.data, key.size);
	char text[32] = "";
	if (old && old->size < sizeof(text))
		memcpy(text, old->data, old->size);
	uint64_t sum = (uint64_t)strtoll(text, NULL, 10) +
	               (uint64_t)by * (uint64_t)gm_sim_store_world(store);
	*ret = (int64_t)sum;
	int length = snprintf(text, sizeof(text), "%" PRId64, *ret);
	return set(store, key, text, (size_t)length);
}

static bool compare_set(struct gm_sim_store *store, struct gm_sim_store_buffer *out,
        struct gm_sim_store_bytes key, struct gm_sim_store_bytes expected,
        struct gm_sim_store_bytes desired)
{
	const struct gm_sim_store_bytes *old =
	        gm_sim_store_get(store, (const char *)key.data, key.size);
	if (!old && expected.size)
		return put_bytes(out, expected.data, expected.size);
	if (old && (old->size != expected.size ||
	                   (old->size && memcmp(old->data, expected.data, old->size) != 0)))
		return put_bytes(out, old->data, old->size);
	return set(store, key, desired.data, desired.size) &&
	       put_bytes(out, desired.data, desired.size);
}

static bool append(
        struct gm_sim_store *store, struct gm_sim_store_bytes key, struct gm_sim_store_bytes more)
{
	const struct gm_sim_store_bytes *old =
	        gm_sim_store_get(store, (const char *)key.data, key.size);
	struct gm_sim_store_buffer whole = {0};
	bool good = (!old || gm_sim_store_append(&whole, old->data, old->size)) &&
	            gm_sim_store_append(&whole, more.data, more.size) &&
	            set(store, key, whole.data, whole.size);
	free(whole.data);
	return good;
}

/* A queue is stored under a name of its own: its values one after the other, each after its length.
 * */
static struct gm_sim_store_bytes queue_name(struct gm_sim_store_bytes key, char *buffer)
{
	memcpy(buffer, "\0queue", 6);
	if (key.size)
		memcpy(buffer + 6, key.data, key.size);
	return (struct gm_sim_store_bytes){(unsigned char *)buffer, key.size + 6};
}

static bool queue_push(
        struct gm_sim_store *store, struct gm_sim_store_bytes key, struct gm_sim_store_bytes value)
{
	char buffer[LONGEST_KEY + 8];
	struct gm_sim_store_buffer one = {0};
	bool good = put_bytes(&one, value.data, value.size) &&
	            append(store, queue_name(key, buffer),
	                    (struct gm_sim_store_bytes){one.data, one.size});
	free(one.data);
	return good;
}

static int64_t queue_length(struct gm_sim_store *store, struct gm_sim_store_bytes key)
{
	char buffer[LONGEST_KEY + 8];
	struct gm_sim_store_bytes name = queue_name(key, buffer);
	const struct gm_sim_store_bytes *all =
	        gm_sim_store_get(store, (const char *)name.data, name.size);
	int64_t count = 0;
	if (!all)
		return 0;
	struct reader reader = {.at = all->data, .end = all->data + all->size};
	while (reader.at < reader.end && !reader.more && !reader.wrong) {
		string(&reader, LARGEST_VALUE);
		count++;
	}
	return count;
}

static bool queue_pop(
        struct gm_sim_store *store, struct gm_sim_store_bytes key, struct gm_sim_store_buffer *out)
{
	char buffer[LONGEST_KEY + 8];
	struct gm_sim_store_bytes name = queue_name(key, buffer);
	const struct gm_sim_store_bytes *all =
	        gm_sim_store_get(store, (const char *)name.data, name.size);
	if (!all)
		return false;
	struct reader reader = {.at = all->data, .end = all->data + all->size};
	struct gm_sim_store_bytes head = string(&reader, LARGEST_VALUE);
	put_bytes(out, head.data, head.size);
	if (reader.at == reader.end)
		gm_sim_store_remove(store, (const char *)name.data, name.size);
	else {
		struct gm_sim_store_buffer rest = {0};
		if (gm_sim_store_append(&rest, reader.at, (size_t)(reader.end - reader.at)))
			set(store, name, rest.data, rest.size);
		free(rest.data);
	}
	return true;
}

/* True if all of the keys exist, including those of absent ranks; *ret_missing is the first that
 * does not. */
static bool all_there(struct gm_sim_store *store, struct reader *reader, bool answer,
        struct gm_sim_store_bytes *ret_missing)
{
	uint64_t count = word(reader, 8);
	bool all = true;
	if (count > MOST_KEYS)
		reader->wrong = true;
	for (uint64_t i = 0; i < count && !reader->more && !reader->wrong; i++) {
		struct gm_sim_store_bytes key = string(reader, LONGEST_KEY);
		if (reader->more || reader->wrong)
			break;
		bool there =
		        answer ? value_of(store, key) != NULL
		               : gm_sim_store_get(store, (const char *)key.data, key.size) != NULL;
		if (!there && all) {
			all = false;
			*ret_missing = key;
		}
	}
	return all;
}

bool gm_sim_store_wake(struct gm_sim_store *store, struct gm_sim_store_client *client)
{
	if (!client->awaited.size)
		return false;
	struct reader reader = {
	        .at = client->awaited.data, .end = client->awaited.data + client->awaited.size};
	if (client->popping) {
		struct gm_sim_store_bytes key = string(&reader, LONGEST_KEY);
		if (!queue_length(store, key))
			return false;
		queue_pop(store, key, &client->out);
	} else {
		struct gm_sim_store_bytes missing;
		if (!all_there(store, &reader, true, &missing))
			return false;
		put_word(&client->out, 0, 1);
	}
	client->awaited.size = 0;
	return true;
}

static void say_missing(struct gm_sim_store *store, struct gm_sim_store_bytes key)
{
	const char *quiet = getenv("GPUMEM_SIM_QUIET");
	if (quiet && *quiet && strcmp(quiet, "0") != 0)
		return;
	char text[512];
	size_t n = key.size < 300 ? key.size : 300, at = 0;
	for (size_t i = 0; i < n; i++)
		text[at++] = key.data[i] >= 0x20 && key.data[i] < 0x7f ? (char)key.data[i] : '?';
	fprintf(stderr,
	        "gpumem sim: rank %u of %u waits for the store's key '%.*s', which an absent rank "
	        "would set: its value is not known\n",
	        gm_sim_store_rank(store), gm_sim_store_world(store), (int)at, text);
}

/* One request; false if it is invalid or there is no memory. reader->more: not complete, nothing
 * was done. */
static bool request(
        struct gm_sim_store *store, struct gm_sim_store_client *client, struct reader *reader)
{
	struct gm_sim_store_buffer *out = &client->out;
	enum command command = (enum command)word(reader, 1);
	const unsigned char *behind = reader->at;
	struct gm_sim_store_bytes key = {0}, value = {0}, other = {0}, missing = {0};
	uint64_t count;
	switch (command) {
	case VALIDATE:
		return (uint32_t)word(reader, 4) == MAGIC || reader->more;
	case PING:
		count = word(reader, 4);
		return reader->more || put_word(out, count, 4);
	case SET:
		key = string(reader, LONGEST_KEY);
		value = string(reader, LARGEST_VALUE);
		return reader->more || reader->wrong || set(store, key, value.data, value.size);
	case APPEND:
		key = string(reader, LONGEST_KEY);
		value = string(reader, LARGEST_VALUE);
		return reader->more || reader->wrong || append(store, key, value);
	case COMPARE_SET:
		key = string(reader, LONGEST_KEY);
		value = string(reader, LARGEST_VALUE);
		other = string(reader, LARGEST_VALUE);
		return reader->more || reader->wrong || compare_set(store, out, key, value, other);
	case GET: {
		key = string(reader, LONGEST_KEY);
		if (reader->more || reader->wrong)
			return true;
		const struct gm_sim_store_bytes *found = value_of(store, key);
		return put_bytes(out, found ? found->data : NULL, found ? found->size : 0);
	}
	case ADD: {
		key = string(reader, LONGEST_KEY);
		int64_t sum, by = (int64_t)word(reader, 8);
		return reader->more || reader->wrong ||
		       (add(store, key, by, &sum) && put_word(out, (uint64_t)sum, 8));
	}
	case CHECK: {
		bool all = all_there(store, reader, false, &missing);
		return reader->more || reader->wrong || put_word(out, all ? 0 : 1, 1);
	}
	case WAIT: {
		bool all = all_there(store, reader, true, &missing);
		if (reader->more || reader->wrong)
			return true;
		if (all)
			return put_word(out, 0, 1);
		say_missing(store, missing);
		client->awaited.size = 0;
		client->popping = false;
		return gm_sim_store_append(&client->awaited, behind, (size_t)(reader->at - behind));
	}
	case CANCEL_WAIT:
		client->awaited.size = 0;
		return put_word(out, 1, 1);
	case GETNUMKEYS:
		return put_word(out, gm_sim_store_count(store), 8);
	case DELETE_KEY:
		key = string(reader, LONGEST_KEY);
		return reader->more || reader->wrong ||
		       put_word(out, gm_sim_store_remove(store, (const char *)key.data, key.size),
		               8);
	case MULTI_GET: {
		struct gm_sim_store_buffer all = {0};
		count = word(reader, 8);
		reader->wrong |= count > MOST_KEYS;
		bool good = true;
		for (uint64_t i = 0; i < count && good && !reader->more && !reader->wrong; i++) {
			key = string(reader, LONGEST_KEY);
			if (reader->more || reader->wrong)
				break;
			const struct gm_sim_store_bytes *found = value_of(store, key);
			good = put_bytes(&all, found ? found->data : NULL, found ? found->size : 0);
		}
		if (!reader->more && !reader->wrong)
			good = good && gm_sim_store_append(out, all.data, all.size);
		free(all.data);
		return good;
	}
	case MULTI_SET: {
		/* Twice: first to check that it is complete. */
		struct reader probe = *reader;
		count = word(&probe, 8);
		probe.wrong |= count > MOST_KEYS;
		for (uint64_t i = 0; i < count && !probe.more && !probe.wrong; i++) {
			string(&probe, LONGEST_KEY);
			string(&probe, LARGEST_VALUE);
		}
		if (probe.more || probe.wrong) {
			*reader = probe;
			return true;
		}
		count = word(reader, 8);
		for (uint64_t i = 0; i < count; i++) {
			key = string(reader, LONGEST_KEY);
			value = string(reader, LARGEST_VALUE);
			if (!set(store, key, value.data, value.size))
				return false;
		}
		return true;
	}
	case QUEUE_PUSH:
		key = string(reader, LONGEST_KEY);
		value = string(reader, LARGEST_VALUE);
		return reader->more || reader->wrong || queue_push(store, key, value);
	case QUEUE_POP:
		key = string(reader, LONGEST_KEY);
		if (reader->more || reader->wrong || queue_pop(store, key, out))
			return true;
		say_missing(store, key);
		client->awaited.size = 0;
		client->popping = true;
		return gm_sim_store_append(&client->awaited, behind, (size_t)(reader->at - behind));
	case QUEUE_LEN:
		key = string(reader, LONGEST_KEY);
		return reader->more || reader->wrong ||
		       put_word(out, (uint64_t)queue_length(store, key), 8);
	}
	return false;
}

bool gm_sim_store_serve(struct gm_sim_store *store, struct gm_sim_store_client *client)
{
	size_t done = 0;
	while (done < client->in.size) {
		struct reader reader = {
		        .at = client->in.data + done, .end = client->in.data + client->in.size};
		if (!request(store, client, &reader) || reader.wrong)
			return false;
		if (reader.more)
			break;
		done = (size_t)(reader.at - client->in.data);
	}
	if (done) {
		memmove(client->in.data, client->in.data + done, client->in.size - done);
		client->in.size -= done;
	}
	return true;
}
