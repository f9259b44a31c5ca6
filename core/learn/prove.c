/*
 * The proof. The probe printed PyTorch's own data: one line for each tensor, node, block, sum and
 * entry of the trace, and for blocks that one variable holds. Each line is compared with the
 * results of gpumem's own readers for the live process.
 */
#include "learn/prove.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "holders/holders.h"
#include "torch/fields.h"
#include "torch/readers.h"
#include "torch/torch.h"

enum {
	MAX_DEVICES = 16,
	LEAST_TENSORS = 50,
	LEAST_NODES = 10,
	LEAST_BLOCKS = 50,
	LEAST_HELD = 8,
	LEAST_SAID = 100,
	LEAST_TRACE = 60
};

struct proof {
	struct gm_image *image;
	struct gm_symbols *symbols;
	struct gm_python *python; /* NULL: no known CPython */
	struct gm_torch *torch;
	struct gm_holders *holders; /* created when first needed */
	struct gm_block_record *blocks;
	size_t block_count, mapped;
	struct gm_trace_entry *trace[MAX_DEVICES];
	size_t trace_count[MAX_DEVICES], trace_next[MAX_DEVICES];
	unsigned tensors, nodes, blocks_seen, sums, held, said, traced;
};

static struct gm_error *differs(const char *what, uint64_t address, const char *field)
{
	return gm_error_create(GM_TARGET,
	        "learn: the layout failed verification: %s 0x%" PRIx64
	        ": %s differs from what PyTorch reports: nothing was learned",
	        what, address, field);
}

static struct gm_error *half(const char *line)
{
	return gm_error_create(GM_TARGET,
	        "learn: the probe's answer cannot be read (%.*s): nothing was learned: report this",
	        (int)strcspn(line, " \n"), line);
}

/* The numbers of a line, from `line` on; returns how many there were. */
static size_t numbers(const char *line, int64_t *ret, size_t max)
{
	size_t count = 0;
	int used;
	while (count < max && *line != '\n' &&
	        sscanf(line, "%" SCNd64 "%n", &ret[count], &used) == 1) {
		line += used;
		count++;
		while (*line == ' ')
			line++;
	}
	return count;
}

/* --- tensors and storages --------------------------------------------------------------------- */

enum {
	ADDRESS,
	STORAGE,
	OFFSET,
	NUMEL,
	KIND,
	INDEX,
	WRAPPER,
	REQUIRES_GRAD,
	GRAD_FN,
	GRAD,
	BASE,
	DATA,
	BYTES,
	DIMENSIONS,
	SHAPE
};

static const char *storage_differs(struct proof *proof, const int64_t *said)
{
	struct gm_storage storage;
	if (!gm_torch_storage(proof->torch, (uint64_t)said[STORAGE], &storage))
		return "its storage";
	if (storage.data != (uint64_t)said[DATA])
		return "its storage's data";
	if (storage.size != (uint64_t)said[BYTES])
		return "its storage's size";
	if (storage.device_type != said[KIND] || storage.device != said[INDEX])
		return "its storage's device";
	if (storage.refcount == 0 || storage.refcount > 1000)
		return "its storage's count";
	return NULL;
}

static const char *tensor_differs(struct proof *proof, const char *dtype, const int64_t *said)
{
	struct gm_tensor tensor;
	if (!gm_torch_tensor(proof->torch, (uint64_t)said[ADDRESS], &tensor))
		return "the object";
	if (tensor.storage != (uint64_t)said[STORAGE])
		return "its storage";
	if (tensor.storage_offset != (uint64_t)said[OFFSET] ||
	        tensor.numel != (uint64_t)said[NUMEL])
		return "its number of elements";
	if (strcmp(tensor.dtype, dtype) != 0)
		return "its dtype";
	if (tensor.device_type != said[KIND] || tensor.device != said[INDEX])
		return "its device";
	if (tensor.python != (uint64_t)said[WRAPPER] ||
	        gm_torch_unwrap(proof->torch, (uint64_t)said[WRAPPER]) != (uint64_t)said[ADDRESS])
		return "its Python object";
	if (tensor.requires_grad != said[REQUIRES_GRAD])
		return "requires_grad";
	if (tensor.grad_fn != (uint64_t)said[GRAD_FN])
		return "grad_fn";
	if (tensor.grad != (uint64_t)said[GRAD])
		return "grad";
	if (tensor.view_base != (uint64_t)said[BASE])
		return "what it is a view of";
	if (tensor.refcount == 0 || tensor.refcount > 1000)
		return "its count";
	if (tensor.dimensions != said[DIMENSIONS] ||
	        memcmp(tensor.shape, said + SHAPE, tensor.dimensions * sizeof(tensor.shape[0])) !=
	                0)
		return "its shape";
	return storage_differs(proof, said);
}

static struct gm_error *prove_tensor(struct proof *proof, const char *line)
{
	char dtype[32];
	int used = 0;
	int64_t said[SHAPE + GM_TENSOR_MAX_DIMENSIONS];
	if (sscanf(line, "tensor %31s %n", dtype, &used) != 1 || !used)
		return half(line);
	size_t count = numbers(line + used, said, sizeof(said) / sizeof(said[0]));
	if (count < SHAPE || said[DIMENSIONS] < 0 || count != (size_t)(SHAPE + said[DIMENSIONS]))
		return half(line);
	const char *wrong = tensor_differs(proof, dtype, said);
	proof->tensors++;
	return wrong ? differs("tensor", (uint64_t)said[ADDRESS], wrong) : NULL;
}

static struct gm_error *prove_node(struct proof *proof, const char *line)
{
	uint64_t address;
	char name[128];
	unsigned edges;
	const char *found;
	struct gm_node node;
	if (sscanf(line, "node %" SCNu64 " %127s %u", &address, name, &edges) != 3)
		return half(line);
	proof->nodes++;
	if (!gm_torch_node(proof->torch, address, &node) || node.edge_count != edges)
		return differs("node", address, "its edges");
	if (!gm_torch_node_name(proof->torch, address, &found) || strcmp(found, name) != 0)
		return differs("node", address, "its name");
	return NULL;
}

/* --- the allocator ---------------------------------------------------------------------------- */

static const struct gm_block_record *block_at(const struct proof *proof, uint64_t address)
{
	for (size_t i = 0; i < proof->block_count; i++)
		if (proof->blocks[i].mapped && proof->blocks[i].address == address)
			return &proof->blocks[i];
	return NULL;
}

static struct gm_error *prove_block(struct proof *proof, const char *line)
{
	enum { DEVICE, AT, SIZE, REQUESTED, STREAM, STATE, SMALL, PRIVATE, COUNT };
	enum { INACTIVE, ALLOCATED, PENDING };
	int64_t said[COUNT];
	struct gm_pool_record pool;
	if (numbers(line + 6, said, COUNT) != COUNT)
		return half(line);
	uint64_t address = (uint64_t)said[AT];
	const struct gm_block_record *block = block_at(proof, address);
	proof->blocks_seen++;
	if (!block)
		return differs("block", address, "that there is one");
	if (block->device != said[DEVICE] || block->size != (uint64_t)said[SIZE] ||
	        block->stream != (uint64_t)said[STREAM])
		return differs("block", address, "its device, size or stream");
	if (block->allocated != (said[STATE] == ALLOCATED) ||
	        (block->event_count > 0) != (said[STATE] == PENDING))
		return differs("block", address, "its state");
	if (said[STATE] == ALLOCATED && block->requested != (uint64_t)said[REQUESTED])
		return differs("block", address, "its requested size");
	if (!gm_torch_pool(proof->torch, block->pool, &pool) || pool.small != said[SMALL] ||
	        pool.is_private != said[PRIVATE])
		return differs("block", address, "its pool");
	return NULL;
}

static struct gm_error *prove_sums(struct proof *proof, const char *line)
{
	enum { DEVICE, NOW, PEAK = NOW + 4, LIMIT = PEAK + 4, TOTAL, SPLIT, COUNT };
	int64_t said[COUNT];
	struct gm_allocator_device device;
	if (numbers(line + 4, said, COUNT) != COUNT)
		return half(line);
	proof->sums++;
	gm_try(gm_torch_allocator_device(proof->torch, (int)said[DEVICE], &device));
	const struct gm_allocator_bytes both[2] = {device.now, device.peak};
	for (size_t i = 0; i < 2; i++) {
		const int64_t *of = said + (i ? PEAK : NOW);
		if (both[i].allocated != (uint64_t)of[0] || both[i].reserved != (uint64_t)of[1] ||
		        both[i].active != (uint64_t)of[2] || both[i].requested != (uint64_t)of[3])
			return differs("device", (uint64_t)said[DEVICE], "its sums");
	}
	if (device.total != GM_NOT_KNOWN && device.total != (uint64_t)said[TOTAL])
		return differs("device", (uint64_t)said[DEVICE], "its memory");
	/* a fraction of it, rounded down or to the nearest */
	if (device.limit != GM_NOT_KNOWN && device.limit != (uint64_t)said[LIMIT] &&
	        device.limit != (uint64_t)said[LIMIT] + 1)
		return differs("device", (uint64_t)said[DEVICE], "its limit");
	if (device.max_split != (uint64_t)said[SPLIT])
		return differs("device", (uint64_t)said[DEVICE], "max_split_size");
	return NULL;
}

/* The probe printed the newest entries of a ring first; printing them has added entries. */
static struct gm_error *prove_trace(struct proof *proof, const char *line)
{
	enum { DEVICE, ACTION, AT, SIZE, STREAM, COUNT, SNAPSHOT = 7 };
	int64_t said[COUNT];
	if (numbers(line + 6, said, COUNT) != COUNT || said[DEVICE] < 0 ||
	        said[DEVICE] >= MAX_DEVICES)
		return half(line);
	size_t device = (size_t)said[DEVICE], *next = &proof->trace_next[device];
	if (!proof->trace[device])
		gm_try(gm_torch_trace(proof->torch, (int)device, &proof->trace[device],
		        &proof->trace_count[device]));
	if (said[ACTION] == SNAPSHOT)
		return NULL;
	const struct gm_trace_entry *entries = proof->trace[device];
	while (*next < proof->trace_count[device] && entries[*next].action == SNAPSHOT)
		++*next;
	if (*next >= proof->trace_count[device])
		return differs("trace of device", device, "its length");
	const struct gm_trace_entry *entry = &entries[*next];
	bool same = entry->action == said[ACTION] && entry->address == (uint64_t)said[AT] &&
	            entry->size == (uint64_t)said[SIZE] && entry->stream == (uint64_t)said[STREAM];
	/* the oldest ones were overwritten */
	if (!same && *next == 0)
		return NULL;
	++*next;
	proof->traced++;
	return same ? NULL : differs("trace of device", device, "an entry");
}

/* --- the values of fields --------------------------------------------------------------------- */

static struct gm_error *prove_number(
        struct proof *proof, const char *name, uint64_t address, unsigned bytes, uint64_t wanted)
{
	uint64_t found = 0;
	struct gm_error *error;
	if (bytes > sizeof(found))
		return half(name);
	proof->said++;
	error = gm_image_read(proof->image, address, &found, bytes);
	gm_error_destroy(error);
	if (error || found != wanted)
		return gm_error_create(GM_TARGET,
		        "learn: the layout failed verification: what is at 0x%" PRIx64
		        " is not that of %s: nothing was learned",
		        address, name);
	return NULL;
}

/* An object for which PyTorch reports the value of a field. */
static struct gm_error *prove_word(struct proof *proof, const char *line)
{
	char name[64];
	unsigned bytes;
	uint64_t object, wanted;
	if (sscanf(line, "word %63s %u %" SCNu64 " %" SCNu64, name, &bytes, &object, &wanted) != 4)
		return half(line);
	const struct gm_torch_field *field = gm_torch_field_find(name);
	if (!field) /* this gpumem does not read it */
		return NULL;
	uint32_t at = gm_torch_field_get(gm_torch_layout_of(proof->torch), field);
	return prove_number(proof, name, object + at, bytes, wanted);
}

/* A number in PyTorch's own code: the size of an object. */
static struct gm_error *prove_code(struct proof *proof, const char *line)
{
	char name[64];
	uint64_t address;
	if (sscanf(line, "code %63s %" SCNu64, name, &address) != 2)
		return half(line);
	const struct gm_torch_field *field = gm_torch_field_find(name);
	if (!field)
		return NULL;
	return prove_number(proof, name, address, 4,
	        gm_torch_field_get(gm_torch_layout_of(proof->torch), field));
}

/* Two objects in one array, one after the other. */
static struct gm_error *prove_apart(struct proof *proof, const char *line)
{
	char name[64];
	uint64_t first, second;
	if (sscanf(line, "apart %63s %" SCNu64 " %" SCNu64, name, &first, &second) != 3)
		return half(line);
	const struct gm_torch_field *field = gm_torch_field_find(name);
	proof->said++;
	if (!field || second - first == gm_torch_field_get(gm_torch_layout_of(proof->torch), field))
		return NULL;
	return differs("object", first, name);
}

/* --- holders ---------------------------------------------------------------------------------- */

static struct gm_error *prove_held(struct proof *proof, const char *line)
{
	uint64_t address;
	char name[64];
	struct gm_holders_answer answer;
	if (sscanf(line, "held %" SCNu64 " %63s", &address, name) != 2)
		return half(line);
	if (!proof->python)
		return NULL;
	if (!proof->holders)
		gm_try(gm_holders_create(proof->image, proof->symbols, proof->python, proof->torch,
		        &proof->holders));
	proof->held++;
	gm_try(gm_holders_find(proof->holders, address, &answer));
	bool found = false;
	for (size_t i = 0; i < answer.holder_count; i++) {
		const struct gm_holder *holder = &answer.holders[i];
		if (holder->rooted && holder->step_count && holder->steps[0].name &&
		        holder->class == GM_PROVEN && strcmp(holder->steps[0].name, name) == 0)
			found = true;
	}
	bool complete = answer.complete && answer.storage_count > 0;
	gm_holders_answer_deinit(&answer);
	if (found && complete)
		return NULL;
	return gm_error_create(GM_TARGET,
	        "learn: the layout failed verification: the holders of 0x%" PRIx64
	        " (%s): %s: nothing was learned",
	        address, name,
	        found ? "not all references are found" : "the variable that keeps it is not found");
}

/* --- the whole proof -------------------------------------------------------------------------- */

static const struct {
	const char *word;
	struct gm_error *(*prove)(struct proof *proof, const char *line);
} kinds[] = {
        {"tensor ", prove_tensor},
        {"node ", prove_node},
        {"block ", prove_block},
        {"sum ", prove_sums},
        {"trace ", prove_trace},
        {"word ", prove_word},
        {"code ", prove_code},
        {"apart ", prove_apart},
        {"held ", prove_held},
};

static struct gm_error *prove_lines(struct proof *proof, const char *text)
{
	for (const char *line = text; *line; line = strchr(line, '\n') + 1)
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			if (strncmp(line, kinds[i].word, strlen(kinds[i].word)) == 0)
				gm_try(kinds[i].prove(proof, line));
	size_t mapped = 0;
	for (size_t i = 0; i < proof->block_count; i++)
		mapped += proof->blocks[i].mapped;
	if (mapped != proof->blocks_seen)
		return differs("block", 0, "their number");
	const struct gm_torch_layout *layout = gm_torch_layout_of(proof->torch);
	if (proof->tensors < LEAST_TENSORS || proof->nodes < LEAST_NODES ||
	        proof->blocks_seen < LEAST_BLOCKS || proof->sums == 0 || proof->said < LEAST_SAID ||
	        (proof->python && proof->held < LEAST_HELD) ||
	        (layout->allocator.trace_entries && proof->traced < LEAST_TRACE))
		return gm_error_create(GM_TARGET,
		        "learn: the layout failed verification: the "
		        "probe named too few objects: nothing was learned");
	return NULL;
}

struct gm_error *gm_answer_prove(const struct gm_probe *probe, struct gm_image *image,
        struct gm_symbols *symbols, const struct gm_torch_layout *layout)
{
	struct proof proof = {.image = image, .symbols = symbols};
	/* an unknown CPython: everything that does not need Python is proved all the same */
	gm_error_destroy(gm_python_open(image, symbols, &proof.python));
	struct gm_error *error =
	        gm_torch_open_row(image, symbols, proof.python, layout, &proof.torch);
	if (!error)
		error = gm_torch_blocks(proof.torch, &proof.blocks, &proof.block_count);
	if (!error)
		error = prove_lines(&proof, probe->text);
	for (size_t i = 0; i < MAX_DEVICES; i++)
		free(proof.trace[i]);
	gm_holders_destroy(proof.holders);
	free(proof.blocks);
	gm_torch_close(proof.torch);
	gm_python_close(proof.python);
	return error;
}
