/*
 * cuDNN's backend API, which convolutions and attention use (cudnn_frontend): descriptors with
 * stored attributes, one engine for every operation graph, an execution that computes nothing.
 *
 * The caller set the values that it reads back, except cuDNN's own answers: the heuristics' engine
 * configurations, an engine's notes and knobs, a plan's workspace. A caller may destroy descriptors
 * from which it has built others, so the workspace is computed when an operation graph is
 * finalized, and passed on as a number.
 *
 * There are two configurations. The first uses tensor cores and says so in a numerical note: a
 * caller that does not allow TF32 leaves such ones out, and takes the second (PyTorch:
 * filterEngineConfigs() in aten/src/ATen/native/cudnn/Conv_v8.cpp).
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/cudnn.h"
#include "sim/cuda/sim.h"

/* cudnnBackendDescriptorType_t */
enum {
	ENGINE = 2,
	ENGINE_CONFIG = 3,
	HEURISTICS = 4,
	PLAN = 5,
	CONVOLUTION_FORWARD = 10,
	CONVOLUTION_FILTER = 11,
	CONVOLUTION_DATA = 12,
	GRAPH = 15,
	VARIANT_PACK = 16,
	TENSOR = 17,
};

/* cudnnBackendAttributeName_t */
enum {
	HEURISTICS_GRAPH = 201,
	HEURISTICS_RESULTS = 202,
	CONFIG_ENGINE = 300,
	CONFIG_INTERMEDIATE_INFO = 301,
	CONFIG_KNOB_CHOICES = 302,
	CONFIG_WORKSPACE = 303,
	CONFIG_SHARED_MEMORY = 304,
	PLAN_CONFIG = 401,
	PLAN_WORKSPACE = 402,
	PLAN_COMPUTED_UIDS = 403,
	PLAN_RUN_ONLY_UIDS = 404,
	GRAPH_OPERATIONS = 801,
	GRAPH_ENGINES = 802,
	CONVOLUTION_STEPS = 103,
	TENSOR_TYPE = 901,
	TENSOR_DIMENSIONS = 902,
	TENSOR_STRIDES = 903,
	ENGINE_GRAPH = 1300,
	ENGINE_INDEX = 1301,
	ENGINE_FIRST_NOTE = 1302, /* knobs, layouts, behaviour notes: none */
	ENGINE_NUMERICAL_NOTE = 1303,
	ENGINE_LAST_NOTE = 1305,
};

/* cudnnBackendAttributeType_t */
enum {
	TYPE_BOOLEAN = 2,
	TYPE_INT64 = 3,
	TYPE_DESCRIPTOR = 15,
	TYPE_NUMERICAL_NOTE = 11,
	TYPE_INT32 = 23
};

/* cudnnBackendNumericalNote_t */
enum { NOTE_TENSOR_CORE = 0 };

/* The configurations, by index. */
enum { WITH_TENSOR_CORES, WITHOUT_TENSOR_CORES, CHOICES };

enum {
	MAGIC = 0x6e64756e,
	ATTRIBUTE_BYTES =
	        1 << 20, /* no attribute is nearly as large: an operation graph has some dozens */
};

struct attribute {
	struct attribute *next;
	int name, type;
	int64_t count;
	unsigned char data[];
};

struct backend {
	unsigned magic;
	int kind;
	int choice;
	bool finalized;
	uint64_t workspace[CHOICES];
	struct attribute *attributes;
};

static size_t size_of(int type)
{
	switch (type) {
	case TYPE_BOOLEAN:
	case 24: /* char */
		return 1;
	case 0: /* handle */
	case TYPE_INT64:
	case 5: /* double */
	case 6: /* pointer */
	case TYPE_DESCRIPTOR:
		return 8;
	case 26: /* fraction: two int64 */
		return 16;
	default: /* float, int32 and enumerations */
		return type >= 0 && type <= 64 ? 4 : 0;
	}
}

static bool valid(const struct backend *backend)
{
	return backend && backend->magic == MAGIC;
}

static const struct attribute *find(const struct backend *backend, int name)
{
	const struct attribute *at = backend->attributes;
	while (at && at->name != name)
		at = at->next;
	return at;
}

static int store(struct backend *backend, int name, int type, int64_t count, const void *data)
{
	size_t each = size_of(type);
	if (!each || count < 0 || (uint64_t)count > ATTRIBUTE_BYTES / each || (count && !data))
		return CUDNN_BAD_PARAM;
	struct attribute *new = malloc(sizeof(*new) + (size_t)count * each);
	if (!new)
		return CUDNN_NO_HOST_MEMORY;
	new->name = name;
	new->type = type;
	new->count = count;
	if (count)
		memcpy(new->data, data, (size_t)count * each);
	struct attribute **at = &backend->attributes;
	while (*at && (*at)->name != name)
		at = &(*at)->next;
	new->next = *at ? (*at)->next : NULL;
	free(*at);
	*at = new;
	return CUDNN_SUCCESS;
}

/* The descriptor that an attribute refers to; NULL if there is none. */
static struct backend *named(const struct backend *backend, int name)
{
	const struct attribute *at = find(backend, name);
	struct backend *value = NULL;
	if (at && at->type == TYPE_DESCRIPTOR && at->count > 0)
		memcpy(&value, at->data, sizeof(value));
	return valid(value) ? value : NULL;
}

CUDNN_API(cudnnBackendCreateDescriptor, int kind, struct backend **ret)
{
	if (!ret || kind < 0)
		return CUDNN_BAD_PARAM;
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return CUDNN_NO_HOST_MEMORY;
	(*ret)->magic = MAGIC;
	(*ret)->kind = kind;
	return CUDNN_SUCCESS;
}

CUDNN_API(cudnnBackendInitialize, struct backend *backend)
{
	return valid(backend) ? CUDNN_SUCCESS : CUDNN_BAD_PARAM;
}

CUDNN_API(cudnnBackendDestroyDescriptor, struct backend *backend)
{
	if (!valid(backend))
		return backend ? CUDNN_BAD_PARAM : CUDNN_SUCCESS;
	while (backend->attributes) {
		struct attribute *next = backend->attributes->next;
		free(backend->attributes);
		backend->attributes = next;
	}
	backend->magic = 0;
	free(backend);
	return CUDNN_SUCCESS;
}

CUDNN_API(cudnnBackendSetAttribute, struct backend *backend, int name, int type, int64_t count,
        const void *data)
{
	if (!valid(backend) || backend->finalized)
		return CUDNN_BAD_PARAM;
	return store(backend, name, type, count, data);
}

static bool numbers(const struct backend *tensor, int name, int64_t *ret, int *ret_count)
{
	const struct attribute *at = find(tensor, name);
	if (!at || at->type != TYPE_INT64 || at->count < 1 || at->count > CUDNN_DIMENSIONS)
		return false;
	memcpy(ret, at->data, (size_t)at->count * sizeof(*ret));
	*ret_count = (int)at->count;
	return true;
}

static bool tensor(const struct backend *operation, int name, struct gm_sim_cudnn_tensor *ret)
{
	const struct backend *at = named(operation, name);
	const struct attribute *type = at ? find(at, TENSOR_TYPE) : NULL;
	int strides;
	*ret = (struct gm_sim_cudnn_tensor){0};
	if (!type || size_of(type->type) != 4 || type->count != 1)
		return false;
	memcpy(&ret->type, type->data, sizeof(ret->type));
	return numbers(at, TENSOR_DIMENSIONS, ret->dimension, &ret->count) &&
	       numbers(at, TENSOR_STRIDES, ret->stride, &strides) && strides == ret->count;
}

/* Adds the needs of one operation; nothing for operations other than convolutions. */
static void add_workspace(const struct backend *operation, uint64_t *bytes)
{
	static const struct {
		int kind, how, filter, x, y;
		enum gm_sim_cudnn_pass pass;
	} convolutions[] = {
	        {CONVOLUTION_FORWARD, 702, 703, 704, 705, CUDNN_FORWARD},
	        {CONVOLUTION_DATA, 708, 709, 710, 711, CUDNN_BACKWARD_DATA},
	        {CONVOLUTION_FILTER, 714, 715, 716, 717, CUDNN_BACKWARD_FILTER},
	};
	for (size_t i = 0; i < sizeof(convolutions) / sizeof(convolutions[0]); i++) {
		struct gm_sim_cudnn_convolution it = {.pass = convolutions[i].pass};
		if (convolutions[i].kind != operation->kind ||
		        !tensor(operation, convolutions[i].x, &it.x) ||
		        !tensor(operation, convolutions[i].filter, &it.filter) ||
		        !tensor(operation, convolutions[i].y, &it.y))
			continue;
		const struct backend *how = named(operation, convolutions[i].how);
		int count;
		if (how && !numbers(how, CONVOLUTION_STEPS, it.step, &count))
			it.step[0] = 1;
		for (int choice = 0; choice < CHOICES; choice++)
			bytes[choice] += gm_sim_cudnn_workspace(&it, choice == WITH_TENSOR_CORES);
	}
}

CUDNN_API(cudnnBackendFinalize, struct backend *backend)
{
	if (!valid(backend))
		return CUDNN_BAD_PARAM;
	const struct backend *from = NULL;
	const struct attribute *operations;
	switch (backend->kind) {
	case GRAPH:
		operations = find(backend, GRAPH_OPERATIONS);
		if (!operations || operations->type != TYPE_DESCRIPTOR)
			return CUDNN_BAD_PARAM;
		for (int64_t i = 0; i < operations->count; i++) {
			struct backend *operation;
			memcpy(&operation, operations->data + (size_t)i * sizeof(operation),
			        sizeof(operation));
			if (!valid(operation))
				return CUDNN_BAD_PARAM;
			add_workspace(operation, backend->workspace);
		}
		break;
	case HEURISTICS:
		from = named(backend, HEURISTICS_GRAPH);
		break;
	case ENGINE:
		from = named(backend, ENGINE_GRAPH);
		break;
	case ENGINE_CONFIG:
		from = named(backend, CONFIG_ENGINE);
		break;
	case PLAN:
		from = named(backend, PLAN_CONFIG);
		if (!from)
			return CUDNN_BAD_PARAM;
		break;
	default:
		break;
	}
	if (from) {
		memcpy(backend->workspace, from->workspace, sizeof(backend->workspace));
		backend->choice = from->choice;
	}
	backend->finalized = true;
	return CUDNN_SUCCESS;
}

/* Fills the caller's own descriptors: this is how cuDNN returns descriptors. */
static int give(const struct backend *from, int kind, int count, int64_t wanted, int64_t *ret_count,
        void *data)
{
	if (ret_count)
		*ret_count = count;
	if (wanted < 1)
		return CUDNN_SUCCESS;
	if (!data)
		return CUDNN_BAD_PARAM;
	for (int i = 0; i < count && i < wanted; i++) {
		struct backend *to;
		memcpy(&to, (char *)data + (size_t)i * sizeof(to), sizeof(to));
		if (!valid(to) || to->kind != kind)
			return CUDNN_BAD_PARAM;
		memcpy(to->workspace, from->workspace, sizeof(to->workspace));
		to->choice = count > 1 ? i : from->choice;
		to->finalized = true;
	}
	if (ret_count && wanted < count)
		*ret_count = wanted;
	return CUDNN_SUCCESS;
}

static int give_note(
        const struct backend *engine, int type, int64_t wanted, int64_t *ret_count, void *data)
{
	int32_t note = NOTE_TENSOR_CORE;
	if (type != TYPE_NUMERICAL_NOTE)
		return CUDNN_BAD_PARAM;
	if (ret_count)
		*ret_count = engine->choice == WITH_TENSOR_CORES;
	if (engine->choice == WITH_TENSOR_CORES && wanted >= 1 && data)
		memcpy(data, &note, sizeof(note));
	return CUDNN_SUCCESS;
}

static int answer(int64_t value, int type, int64_t wanted, int64_t *ret_count, void *data)
{
	if (type != TYPE_INT64)
		return CUDNN_BAD_PARAM;
	if (ret_count)
		*ret_count = 1;
	if (wanted >= 1 && data)
		memcpy(data, &value, sizeof(value));
	return CUDNN_SUCCESS;
}

CUDNN_API(cudnnBackendGetAttribute, const struct backend *backend, int name, int type,
        int64_t wanted, int64_t *ret_count, void *data)
{
	if (!valid(backend) || wanted < 0)
		return CUDNN_BAD_PARAM;
	switch (name) {
	case HEURISTICS_RESULTS:
		return give(backend, ENGINE_CONFIG, CHOICES, wanted, ret_count, data);
	case CONFIG_ENGINE:
		return give(backend, ENGINE, 1, wanted, ret_count, data);
	case ENGINE_NUMERICAL_NOTE:
		return give_note(backend, type, wanted, ret_count, data);
	case GRAPH_ENGINES:
		return answer(CHOICES, type, wanted, ret_count, data);
	case PLAN_WORKSPACE:
	case CONFIG_WORKSPACE:
		return answer((int64_t)backend->workspace[backend->choice], type, wanted, ret_count,
		        data);
	case CONFIG_SHARED_MEMORY: {
		/* A caller excludes plans that need more memory than the device has, so the value
		 * is one that every device has. */
		int32_t bytes = 48 << 10;
		if (type != TYPE_INT32)
			return CUDNN_BAD_PARAM;
		if (ret_count)
			*ret_count = 1;
		if (wanted >= 1 && data)
			memcpy(data, &bytes, sizeof(bytes));
		return CUDNN_SUCCESS;
	}
	case ENGINE_INDEX:
		if (!find(backend, name))
			return answer(backend->choice, type, wanted, ret_count, data);
		break;
	case CONFIG_INTERMEDIATE_INFO:
	case CONFIG_KNOB_CHOICES:
	case PLAN_COMPUTED_UIDS:
	case PLAN_RUN_ONLY_UIDS:
		if (!find(backend, name))
			goto none;
		break;
	default:
		if (name >= ENGINE_FIRST_NOTE && name <= ENGINE_LAST_NOTE)
			goto none;
	}
	const struct attribute *at = find(backend, name);
	if (!at)
		return CUDNN_NOT_SUPPORTED;
	if (at->type != type)
		return CUDNN_BAD_PARAM;
	if (ret_count)
		*ret_count = at->count;
	int64_t n = wanted < at->count ? wanted : at->count;
	if (n && !data)
		return CUDNN_BAD_PARAM;
	if (n)
		memcpy(data, at->data, (size_t)n * size_of(type));
	return CUDNN_SUCCESS;
none:
	if (ret_count)
		*ret_count = 0;
	return CUDNN_SUCCESS;
}

CUDNN_API(cudnnBackendExecute, struct cudnn *handle, const struct backend *plan,
        const struct backend *variant)
{
	if (!handle || !valid(plan) || plan->kind != PLAN || !plan->finalized || !valid(variant) ||
	        variant->kind != VARIANT_PACK)
		return CUDNN_BAD_PARAM;
	if (!gm_sim_captured_library())
		GM_SIM_COUNT(gpumem_sim_account.library_not_computed, 1);
	return CUDNN_SUCCESS;
}
