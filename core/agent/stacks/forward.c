/*
 * The forward stack of the autograd node whose backward runs, if PyTorch stores it: in anomaly mode
 * (torch.autograd.set_detect_anomaly, detect_anomaly) a node stores the text of
 * traceback.format_stack() from its creation in node.metadata['traceback_']
 * (torch/csrc/autograd/python_anomaly_mode.cpp). Nothing is examined as long as that mode has never
 * been on; the cost is one load for each event.
 *
 * The engine holds the node while its backward runs, the node holds its dict, the dict holds the
 * list and its strings. They are created before the node runs. If Python code changes them
 * meanwhile, the result is a wrong answer but not a fault, because everything is read through the
 * kernel. The thread writes a mark, which is valid for its events until the next one.
 */
#include <string.h>

#include "agent/stacks/inside.h"
#include "agent/put.h"
#include "agent/stacks/memory.h"
#include "torch/names.h"

enum {
	NODE_FROM =
	        64, /* words of torch::autograd::Node that may be its unique_ptr<AnomalyMetadata> */
	NODE_TO = 256,
	DICT_FROM = 8, /* words of the metadata that may be its dict, after the base's fields, which
	                  depend on the version */
	DICT_TO = 72,
	FRAMES_MAX = 64, /* innermost frames that are recorded */
	TEXT_MAX = 1024, /* characters of a string that are examined */
	ENTRIES_MAX = 64,
	MARK_MAX = 16000, /* bytes of a mark */
};

/*
 * The result of get_current_node(), returned in memory: until PyTorch 2.12 a std::shared_ptr of
 * libstdc++, whose counts are {table, uses, weak uses} (bits/shared_ptr_base.h, _Sp_counted_base);
 * from 2.13 on a c10::intrusive_ptr, which is one word: the node's own counts follow its virtual
 * table (c10/util/intrusive_ptr.h). Then the second word stays 0.
 */
struct shared {
	uint64_t object, counts;
};
typedef struct shared *current_node_function(struct shared *ret);

static struct {
	const bool *_Atomic enabled; /* torch::autograd::AnomalyMode::_enabled */
	_Atomic bool was_on;
	current_node_function *_Atomic current;
	uint64_t dict_type;
	_Atomic uint32_t tries;
	_Atomic uint32_t offset; /* offset of the metadata in the node; offset of the dict in the
	                            metadata << 16 */
} anomaly;

/* Searched less and less often, because a program may have no PyTorch. */
static bool seek(void)
{
	uint32_t tries = atomic_fetch_add_explicit(&anomaly.tries, 1, memory_order_relaxed);
	if (tries & (tries - 1))
		return false;
	uint64_t enabled = gm_module_symbol(GM_TORCH_ANOMALY_ENABLED);
	uint64_t current = gm_module_symbol(GM_TORCH_CURRENT_NODE);
	anomaly.dict_type = gm_module_symbol("PyDict_Type");
	if (!enabled || !current || !anomaly.dict_type)
		return false;
	atomic_store(&anomaly.current, (current_node_function *)(uintptr_t)current);
	atomic_store(&anomaly.enabled, (const bool *)(uintptr_t)enabled);
	return true;
}

bool gm_forward_is_on(void)
{
	const bool *enabled = atomic_load_explicit(&anomaly.enabled, memory_order_acquire);
	if (GM_UNLIKELY(!enabled)) {
		if (!seek())
			return false;
		enabled = atomic_load(&anomaly.enabled);
	}
	if (GM_UNLIKELY(__atomic_load_n(enabled, __ATOMIC_RELAXED)))
		atomic_store_explicit(&anomaly.was_on, true, memory_order_relaxed);
	return atomic_load_explicit(&anomaly.was_on, memory_order_relaxed);
}

/* The node that this thread runs; 0: none. */
static uint64_t current_node(void)
{
	struct shared node = {0};
	atomic_load (&anomaly.current)(&node);
	/* the thread has a reference of its own (current_evaluating_node). So releasing this one
	 * never frees the node; nor, if the node has a Python object, which also has a reference,
	 * does it reach the count at which the two no longer own each other */
	uint64_t counts = node.counts ? node.counts : node.object;
	if (counts)
		__atomic_fetch_sub((uint32_t *)(uintptr_t)(counts + 8), 1, __ATOMIC_ACQ_REL);
	return node.object;
}

/* ---- the dict -------------------------------------------------------------------------------- */

static uint64_t word(uint64_t address)
{
	uint64_t value = 0;
	return address && !(address & 7) && gm_read_checked(address, &value, 8) ? value : 0;
}

/* Characters of a str in one object (every text that Python creates is), as UTF-8 with a NUL;
 * false: it is not one. */
static bool text_of(uint64_t object, char ret[4 * TEXT_MAX + 1])
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	uint32_t state, characters[TEXT_MAX];
	uint64_t length = word(object + (uint64_t)layout->str_length);
	uint8_t *at = (uint8_t *)ret;
	if (!gm_read_checked(object + (uint64_t)layout->str_state, &state, 4) || !(state >> 5 & 1))
		return false;
	unsigned kind = state >> 2 & 7;
	uint64_t data = object + (uint64_t)(state >> 6 & 1 ? layout->str_ascii_size
	                                                   : layout->str_compact_size);
	length = length < TEXT_MAX ? length : TEXT_MAX;
	if ((kind != 1 && kind != 2 && kind != 4) ||
	        (length && !gm_read_checked(data, characters, length * kind)))
		return false;
	for (uint64_t i = 0; i < length; i++) {
		uint32_t c = kind == 1   ? ((const uint8_t *)characters)[i]
		             : kind == 2 ? ((const uint16_t *)(const void *)characters)[i]
		                         : characters[i];
		at = gm_put_utf8(at, c && (c < 0xd800 || c > 0xdfff) ? c : '?');
	}
	*at = 0;
	return true;
}

/* The list of strings under "traceback_"; 0 if there is none. */
static uint64_t find_list(uint64_t dict, char text[4 * TEXT_MAX + 1])
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	uint8_t head[64], entries[ENTRIES_MAX * 24];
	uint64_t keys = word(dict + (uint64_t)layout->dict_keys), indices, count, size = 24;
	if (!keys || (size_t)layout->keys_indices > sizeof(head) ||
	        !gm_read_checked(keys, head, (size_t)layout->keys_indices))
		return 0;
	memcpy(&count, head + layout->keys_entries, 8);
	/* as in core/cpython/objects/dict.c: 3.9 and 3.10 store the number of the table's slots,
	 * later versions the logarithm of its bytes */
	if (layout->keys_log2_size == GM_NO_FIELD) {
		memcpy(&indices, head + layout->keys_size, 8);
	} else {
		unsigned log2 = head[layout->keys_log2_index_bytes];
		indices = log2 < 16 ? UINT64_C(1) << log2 : UINT64_MAX;
		size = head[layout->keys_kind] == 0 ? 24 : 16;
	}
	if (count > ENTRIES_MAX || indices > 128 ||
	        !gm_read_checked(
	                keys + (uint64_t)layout->keys_indices + indices, entries, count * size))
		return 0;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t pair[2]; /* key, value */
		memcpy(pair, entries + i * size + (size == 24 ? 8 : 0), sizeof(pair));
		if (pair[0] && pair[1] && text_of(pair[0], text) && !strcmp(text, "traceback_"))
			return pair[1];
	}
	return 0;
}

/* By the name of its type (Itanium C++ ABI, 2.9.5): memory after another object does not belong to
 * it. */
static bool is_metadata(uint64_t object)
{
	static const char is[] = GM_TORCH_METADATA_CLASS;
	char name[sizeof(is)];
	uint64_t table = object > 0x10000 ? word(object) : 0,
	         type = table > 8 ? word(table - 8) : 0, at = type ? word(type + 8) : 0;
	return at && gm_read_checked(at, name, sizeof(name)) && !memcmp(name, is, sizeof(is));
}

/* The list of a node whose metadata is at one offset and whose dict is at another in it; 0 if there
 * is none. */
static uint64_t list_at(uint64_t words, uint32_t at, char *text)
{
	uint64_t dict = words > 0x10000 && !(words & 7) ? word(words + at) : 0;
	return dict > 0x10000 && word(dict + 8) == anomaly.dict_type ? find_list(dict, text) : 0;
}

static uint64_t list_of(uint64_t node, char *text)
{
	uint64_t words[(NODE_TO - NODE_FROM) / 8];
	uint32_t known = atomic_load(&anomaly.offset);
	if (known)
		return list_at(word(node + (known & 0xffff)), known >> 16, text);
	if (!gm_read_checked(node + NODE_FROM, words, sizeof(words)))
		return 0;
	for (uint32_t i = 0; i < sizeof(words) / 8; i++) {
		for (uint32_t at = DICT_FROM; at < DICT_TO && is_metadata(words[i]); at += 8) {
			uint64_t list = list_at(words[i], at, text);
			if (!list)
				continue;
			atomic_store(&anomaly.offset, at << 16 | (NODE_FROM + 8 * i));
			return list;
		}
	}
	return 0;
}

/* ---- the text -------------------------------------------------------------------------------- */

/*
 * `  File "PATH", line N, in FUNCTION\n    code\n` (traceback.format_stack()) as
 * "N\tFUNCTION\tPATH\n".
 */
static size_t put_frame(char *to, size_t capacity, char *text)
{
	static const char begin[] = "  File \"", line[] = "\", line ", in[] = ", in ";
	char *end = strchr(text, '\n');
	if (strncmp(text, begin, sizeof(begin) - 1) != 0)
		return 0;
	if (end)
		*end = 0;
	char *path = text + sizeof(begin) - 1, *number = NULL, *next = path;
	while ((next = strstr(next, line)))
		number = next++; /* the last one: a path may contain anything */
	char *function = number ? strstr(number, in) : NULL;
	if (!function)
		return 0;
	*number = *function = 0;
	number += sizeof(line) - 1;
	function += sizeof(in) - 1;
	size_t digits = strlen(number), name = strlen(function), file = strlen(path);
	if (digits + name + file + 3 > capacity)
		return 0;
	memcpy(to, number, digits);
	to[digits] = '\t';
	memcpy(to + digits + 1, function, name);
	to[digits + 1 + name] = '\t';
	memcpy(to + digits + name + 2, path, file);
	to[digits + name + 2 + file] = '\n';
	return digits + name + file + 3;
}

/* The frames of a list of strings, innermost first. */
static size_t frames_of(uint64_t list, char *ret, char text[4 * TEXT_MAX + 1])
{
	const struct gm_python_layout *layout = &gm_stacks_python.layout;
	uint64_t items = word(list + (uint64_t)layout->list_items),
	         count = word(list + (uint64_t)layout->object_size);
	size_t used = 0;
	if (!items || count > 1 << 20)
		return 0;
	for (uint64_t i = count; i-- > 0 && count - i <= FRAMES_MAX;) {
		uint64_t object = word(items + 8 * i);
		size_t put = object && text_of(object, text)
		                     ? put_frame(ret + used, MARK_MAX - used, text)
		                     : 0;
		if (!put)
			break;
		used += put;
	}
	return used;
}

static uint64_t hash(const char *bytes, size_t size)
{
	uint64_t value = UINT64_C(0xcbf29ce484222325) + size; /* FNV-1a */
	for (size_t i = 0; i < size; i++)
		value = (value ^ (uint8_t)bytes[i]) * UINT64_C(0x100000001b3);
	return value;
}

void gm_forward_take(struct gm_stacks_thread *thread)
{
	char text[4 * TEXT_MAX + 1];
	uint8_t head[16], *begin = thread->record, *at;
	char *frames = (char *)begin + sizeof(head);
	uint64_t node = current_node(), list = node ? list_of(node, text) : 0;
	size_t size = list ? frames_of(list, frames, text) : 0;
	uint64_t value = size ? hash(frames, size) : 0;
	if (value == thread->forward)
		return;
	thread->forward = value;
	at = gm_put_varint(head, GM_AGENT_MARK_FORWARD);
	at = gm_put_varint(at, size);
	memcpy(frames - (at - head), head, (size_t)(at - head));
	gm_agent_put(GM_AGENT_MARK, 0, frames - (at - head), (size_t)(at - head) + size);
}
