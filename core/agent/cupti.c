/*
 * CUPTI's callbacks at the driver's memory calls: for libraries that link the CUDA runtime
 * statically (NCCL, cuDNN, cuSOLVER) or call the driver themselves. The runtime's own functions
 * make these calls too; if a hook in an import table has already recorded one, the thread is inside
 * the agent, and the callback is ignored.
 *
 * CUPTI accepts one subscriber. If another one is first (a profiler, cuda-gdb, Nsight), recording
 * continues without CUPTI; if one comes later, the agent makes way for it. Both are reported as
 * gaps. CUPTI's headers are not needed: only the structure fields below are used, which have not
 * changed since CUDA 10 (cupti_callbacks.h, generated_cuda_meta.h).
 */
#include "agent/cupti.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/patch.h"
#include "agent/gap.h"
#include "agent/runtime_more.h"
#include "agent/stacks/libraries.h"
#include "agent/state.h"

#define NOT_RECORDED \
	"what libraries with a runtime of their own (NCCL, cuDNN) allocate is not recorded"

enum { DOMAIN_DRIVER = 1, SITE_ENTER = 0, SITE_EXIT = 1, SUCCESS = 0 };

/* CUpti_CallbackData */
struct callback_data {
	int site;
	const char *function_name;
	const void *parameters;
	const void *result;
	const char *symbol_name;
	void *context;
	uint32_t context_id;
	uint64_t *correlation_data;
	uint32_t correlation_id;
};

typedef void callback_function(
        void *user, int domain, uint32_t id, const struct callback_data *data);
typedef int subscribe_function(void **subscriber, callback_function *callback, void *user);
typedef int enable_function(uint32_t enable, void *subscriber, int domain, uint32_t id);
typedef int unsubscribe_function(void *subscriber);

static struct {
	_Atomic bool tried;
	void *_Atomic subscriber;
	subscribe_function *subscribe;
	enable_function *enable;
	unsubscribe_function *unsubscribe;
} cupti;

/* ---- the calls ------------------------------------------------------------------------------- */

/* Where the needed values are in the parameters. The first one of every call is the address, or
 * where it will be stored. */
enum shape {
	TAKE_SIZE,  /* {address *, size} */
	TAKE_PITCH, /* {address *, pitch *, width, height} */
	TAKE_2D,    /* {array *, descriptor *}: width, height, format, channels */
	TAKE_3D,    /* {array *, descriptor *}: width, height, depth, format, channels */
	TAKE_IPC,   /* {address *, handle} */
	GIVEN,      /* {address, size}: the caller's own address */
	GIVE_BACK,  /* {address} */
};

static const struct call {
	uint16_t id; /* CUpti_driver_api_trace_cbid */
	uint8_t shape, source, action;
} calls[] = {
        {243, TAKE_SIZE, GM_AGENT_DRIVER, GM_AGENT_SEGMENT_ALLOC},  /* cuMemAlloc_v2 */
        {244, TAKE_PITCH, GM_AGENT_DRIVER, GM_AGENT_SEGMENT_ALLOC}, /* cuMemAllocPitch_v2 */
        {245, GIVE_BACK, GM_AGENT_DRIVER, GM_AGENT_SEGMENT_FREE},   /* cuMemFree_v2 */
        {371, TAKE_SIZE, GM_AGENT_MANAGED, GM_AGENT_SEGMENT_ALLOC}, /* cuMemAllocManaged */
        {294, TAKE_SIZE, GM_AGENT_HOST, GM_AGENT_SEGMENT_ALLOC},    /* cuMemAllocHost_v2 */
        {39, TAKE_SIZE, GM_AGENT_HOST, GM_AGENT_SEGMENT_ALLOC},     /* cuMemHostAlloc */
        {38, GIVE_BACK, GM_AGENT_HOST, GM_AGENT_SEGMENT_FREE},      /* cuMemFreeHost */
        {379, GIVEN, GM_AGENT_HOST, GM_AGENT_SEGMENT_ALLOC},        /* cuMemHostRegister_v2 */
        {302, GIVE_BACK, GM_AGENT_HOST, GM_AGENT_SEGMENT_FREE},     /* cuMemHostUnregister */
        {598, TAKE_SIZE, GM_AGENT_DRIVER, GM_AGENT_SEGMENT_ALLOC},  /* cuMemAllocAsync */
        {599, TAKE_SIZE, GM_AGENT_DRIVER, GM_AGENT_SEGMENT_ALLOC},  /* cuMemAllocAsync_ptsz */
        {611, TAKE_SIZE, GM_AGENT_POOL, GM_AGENT_SEGMENT_ALLOC},    /* cuMemAllocFromPoolAsync */
        {612, TAKE_SIZE, GM_AGENT_POOL, GM_AGENT_SEGMENT_ALLOC},  /* cuMemAllocFromPoolAsync_ptsz */
        {600, GIVE_BACK, GM_AGENT_DRIVER, GM_AGENT_SEGMENT_FREE}, /* cuMemFreeAsync */
        {601, GIVE_BACK, GM_AGENT_DRIVER, GM_AGENT_SEGMENT_FREE}, /* cuMemFreeAsync_ptsz */
        {551, GIVEN, GM_AGENT_DRIVER, GM_AGENT_SEGMENT_MAP},      /* cuMemMap */
        {552, GIVE_BACK, GM_AGENT_DRIVER, GM_AGENT_SEGMENT_UNMAP}, /* cuMemUnmap */
        {272, TAKE_2D, GM_AGENT_ARRAY, GM_AGENT_SEGMENT_ALLOC},    /* cuArrayCreate_v2 */
        {274, TAKE_3D, GM_AGENT_ARRAY, GM_AGENT_SEGMENT_ALLOC},    /* cuArray3DCreate_v2 */
        {89, GIVE_BACK, GM_AGENT_ARRAY, GM_AGENT_SEGMENT_FREE},    /* cuArrayDestroy */
        {567, TAKE_IPC, GM_AGENT_IPC, GM_AGENT_SEGMENT_ALLOC},     /* cuIpcOpenMemHandle_v2 */
        {330, GIVE_BACK, GM_AGENT_IPC, GM_AGENT_SEGMENT_FREE},     /* cuIpcCloseMemHandle */
};
enum { CALLS = sizeof(calls) / sizeof(*calls) };

static const struct call *find_call(uint32_t id)
{
	for (size_t i = 0; i < CALLS; i++)
		if (calls[i].id == id)
			return &calls[i];
	return NULL;
}

/* CUarray_format: bytes of an element */
static uint64_t format_size(uint32_t format)
{
	return format == 0x02 || format == 0x09 || format == 0x10   ? 2
	       : format == 0x03 || format == 0x0a || format == 0x20 ? 4
	                                                            : 1;
}

static uint64_t array_size(const uint64_t *descriptor, bool deep)
{
	const uint32_t *format = (const uint32_t *)(descriptor + (deep ? 3 : 2));
	uint64_t height = descriptor[1] ? descriptor[1] : 1,
	         depth = deep && descriptor[2] ? descriptor[2] : 1;
	return descriptor[0] * height * depth * format_size(format[0]) * format[1];
}

static void record_call(
        const struct call *call, const uint64_t *parameters, const struct gm_agent_registers *at)
{
	uint64_t address = parameters[0], size = 0;
	const void *second = (const void *)(uintptr_t)parameters[1];
	if (call->shape <= TAKE_IPC) {
		if (!address)
			return;
		address = *(const uint64_t *)(uintptr_t)address;
	}
	if (call->shape == TAKE_SIZE || call->shape == GIVEN)
		size = parameters[1];
	else if (call->shape == TAKE_PITCH)
		size = second ? *(const uint64_t *)second * parameters[3] : 0;
	else if (call->shape == TAKE_2D || call->shape == TAKE_3D)
		size = second ? array_size(second, call->shape == TAKE_3D) : 0;
	if (address)
		gm_agent_memory((enum gm_agent_action)call->action,
		        (enum gm_agent_source)call->source, address, size, 0, at);
}

static void callback(void *user, int domain, uint32_t id, const struct callback_data *data)
{
	const struct call *call = domain == DOMAIN_DRIVER ? find_call(id) : NULL;
	if (!call || !data || !data->parameters || !data->correlation_data)
		return;
	const struct gm_agent_registers at = gm_agent_caller();
	bool gives = call->shape == GIVE_BACK;
	if (data->site == SITE_ENTER) {
		bool mine = gm_agent_may_record(GM_AGENT_CUDA) && gm_agent_enter();
		*data->correlation_data = mine;
		if (mine && gives) /* after the call another thread may get the address */
			record_call(call, data->parameters, &at);
	} else if (*data->correlation_data) {
		*data->correlation_data = 0;
		if (!gives && data->result && *(const int *)data->result == SUCCESS)
			record_call(call, data->parameters, &at);
		gm_agent_leave();
	}
}

/* --- whether to use CUPTI --------------------------------------------------------------------- */

static int find_driver(struct dl_phdr_info *info, size_t size, void *context)
{
	const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
	bool real = slash && strncmp(slash + 1, "libcuda.so", 10) == 0 &&
	            !strstr(info->dlpi_name, "gpumem-sim");
	*(bool *)context |= real;
	return real;
}

static bool find_functions(void *library)
{
	static const char *const names[] = {
	        "cuptiSubscribe", "cuptiEnableCallback", "cuptiUnsubscribe"};
	void *found[3];
	for (int i = 0; i < 3; i++)
		found[i] = library ? dlsym(library, names[i]) : gm_agent_find(names[i]);
	memcpy(&cupti.subscribe, &found[0], sizeof(found[0]));
	memcpy(&cupti.enable, &found[1], sizeof(found[1]));
	memcpy(&cupti.unsubscribe, &found[2], sizeof(found[2]));
	return found[0] && found[1] && found[2];
}

static bool load(const char *named)
{
	static const char *const files[] = {
	        "libcupti.so.13", "libcupti.so.12", "libcupti.so.11.2", "libcupti.so"};
	if (*named)
		return find_functions(dlopen(named, RTLD_NOW | RTLD_LOCAL));
	/* PyTorch brings its own */
	if (find_functions(NULL))
		return true;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		void *library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
		if (library)
			return find_functions(library);
	}
	return false;
}

static void subscribe(const char *named)
{
	void *subscriber = NULL;
	char text[256];
	if (!load(named)) {
		gm_agent_gap("CUPTI was not found: what libraries with a runtime of their own "
		             "(NCCL, cuDNN) allocate is not recorded: install cuda-cupti, or add "
		             "it to LD_LIBRARY_PATH");
		return;
	}
	int result = cupti.subscribe(&subscriber, callback, NULL);
	if (result != SUCCESS) {
		snprintf(text, sizeof(text),
		        "CUPTI is in use (error %d: by a profiler, cuda-gdb or "
		        "Nsight): " NOT_RECORDED,
		        result);
		gm_agent_gap(text);
		return;
	}
	for (size_t i = 0; i < CALLS; i++)
		cupti.enable(1, subscriber, DOMAIN_DRIVER, calls[i].id);
	atomic_store(&cupti.subscriber, subscriber);
}

void gm_agent_cupti_look(void)
{
	char named[512];
	bool driver = false;
	if (atomic_load_explicit(&cupti.tried, memory_order_relaxed) ||
	        !gm_agent_may_record(GM_AGENT_CUDA))
		return;
	gm_agent_setting("cupti", named, sizeof(named));
	const char *variable = getenv("GPUMEM_CUPTI");
	if (!*named && variable)
		snprintf(named, sizeof(named), "%s", variable);
	if (strcmp(named, "off") == 0)
		return;
	if (strcmp(named, "taken") == 0) {
		if (!atomic_exchange(&cupti.tried, true))
			gm_agent_gap("CUPTI is left to Nsight or Compute Sanitizer: " NOT_RECORDED);
		return;
	}
	gm_libraries_each(find_driver, &driver);
	if (!driver && !*named)
		return;
	if (!atomic_exchange(&cupti.tried, true))
		subscribe(named);
}

void gm_agent_cupti_end(void)
{
	void *subscriber = atomic_exchange(&cupti.subscriber, NULL);
	if (subscriber)
		cupti.unsubscribe(subscriber);
	atomic_store(&cupti.tried, false);
}

/* --- another subscriber ----------------------------------------------------------------------- */

static void *_Atomic before_cuptiSubscribe;

static int hook_cuptiSubscribe(void **subscriber, callback_function *given, void *user)
{
	void *found = before_cuptiSubscribe;
	subscribe_function *function;
	memcpy(&function, &found, sizeof(found));
	void *own = atomic_exchange(&cupti.subscriber, NULL);
	if (own) {
		cupti.unsubscribe(own);
		gm_agent_gap("the program's own profiler took over CUPTI: what libraries with a "
		             "runtime of their own (NCCL, cuDNN) allocate from then on is not "
		             "recorded");
	}
	return function ? function(subscriber, given, user) : 1;
}

const struct gm_agent_hook gm_agent_cupti_hooks[] = {
        {"cuptiSubscribe", (void *)hook_cuptiSubscribe, &before_cuptiSubscribe},
        {NULL, NULL, NULL},
};
