/*
 * Marks of the program within the sequence of its events: by gpumem's own calls (gpumem_agent.h),
 * by PyTorch's ranges (torch_marks.c), and by NVTX, which PyTorch's, NVIDIA's and users' code calls
 * (torch.cuda.nvtx, emit_nvtx() ...).
 *
 * NVTX 3 is in headers: its code is in each library that uses it. At its first call it loads the
 * file that NVTX_INJECTION64_PATH names and calls InitializeInjectionNvtx2() there, with a function
 * that returns tables to fill (nvtx3/nvtxDetail/nvtxTypes.h, nvtxInit.h). If another tool is
 * injected (Nsight), the agent is not. Ranges across threads (nvtxRangeStart), names in wchar_t and
 * categories are not recorded.
 */
#include "agent/marks.h"

#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/gpumem_agent.h"
#include "agent/spool.h"
#include "agent/stacks/stacks.h"
#include "agent/put.h"
#include "agent/state.h"
#include "base/varint.h"

enum { NAME_BYTES = 1024 };

/* How much of a UTF-8 text is recorded: no incomplete character at its end. */
static size_t kept_of(const char *text, size_t length)
{
	if (length <= NAME_BYTES)
		return length;
	length = NAME_BYTES;
	while (length > 0 && ((uint8_t)text[length] & 0xc0) == 0x80)
		length--;
	return length;
}

static void mark_text(enum gm_agent_mark kind, const char *name, size_t length)
{
	uint8_t bytes[NAME_BYTES + 32], *at = bytes;

	length = kept_of(name, length);
	if (!gm_agent_enter())
		return;
	if (kind == GM_AGENT_MARK_PUSH)
		gm_stacks_see_task(); /* the step of an optimizer is a mark, and often there is no
		                         other */
	at = gm_put_varint(at, kind);
	at = gm_put_varint(at, length);
	memcpy(at, name, length);
	gm_agent_put(GM_AGENT_MARK, 0, bytes, (size_t)(at - bytes) + length);
	gm_agent_leave();
}

static void mark(enum gm_agent_mark kind, const char *name)
{
	mark_text(kind, name, strnlen(name, NAME_BYTES + 1));
}

void gm_agent_metadata(const char *text, size_t size)
{
	mark_text(GM_AGENT_MARK_METADATA, text, size);
}

GM_AGENT_EXPORT void gpumem_agent_step(void)
{
	mark(GM_AGENT_MARK_STEP, "");
}

GM_AGENT_EXPORT void gpumem_agent_push(const char *name)
{
	mark(GM_AGENT_MARK_PUSH, name ? name : "");
}

GM_AGENT_EXPORT void gpumem_agent_pop(void)
{
	mark(GM_AGENT_MARK_POP, "");
}

/* --- ranges before there is a recording ------------------------------------------------------- */

/* Optimizers and DataLoaders create ranges in programs that never allocate anything that is
 * recorded: these programs get no file. */
enum { KEPT_MAX = 8 };
static _Thread_local struct {
	const char *names[KEPT_MAX];
	unsigned count; /* open ranges; the names of further ones are not known */
} kept;

void gm_agent_range_begin(const char *name)
{
	name = name ? name : "";
	if (gm_agent_waits()) {
		if (kept.count < KEPT_MAX)
			kept.names[kept.count] = name;
		kept.count++;
		return;
	}
	gm_agent_ranges_kept();
	gpumem_agent_push(name);
}

void gm_agent_range_end(void)
{
	if (kept.count > 0 && gm_agent_waits()) {
		kept.count--;
		return;
	}
	gm_agent_ranges_kept();
	gpumem_agent_pop();
}

void gm_agent_ranges_kept(void)
{
	unsigned count = kept.count;
	kept.count = 0;
	for (unsigned i = 0; i < count; i++)
		gpumem_agent_push(i < KEPT_MAX ? kept.names[i] : "");
}

/* --- NVTX ------------------------------------------------------------------------------------- */

/* nvtxEventAttributes_v2 of nvtx3/nvToolsExt.h. */
struct nvtx_attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const void *message;
};
_Static_assert(sizeof(struct nvtx_attributes) == 48, "as NVTX lays it out");
enum { MESSAGE_ASCII = 1, MESSAGE_REGISTERED = 3 };

static _Thread_local int depth;

static const char *text_of(const struct nvtx_attributes *attributes)
{
	const char *text = "";

	/* a registered string is the return value of register_string(): the text itself */
	if (attributes && attributes->size >= sizeof(*attributes) &&
	        (attributes->message_type == MESSAGE_ASCII ||
	                attributes->message_type == MESSAGE_REGISTERED))
		text = attributes->message;
	return text ? text : "";
}

static int range_push(const char *name)
{
	gpumem_agent_push(name);
	return depth++;
}

static int range_push_attributes(const struct nvtx_attributes *attributes)
{
	gpumem_agent_push(text_of(attributes));
	return depth++;
}

static int range_pop(void)
{
	if (depth == 0)
		return -2; /* NVTX_NO_PUSH_POP_TRACKING: there is no range to end */
	gpumem_agent_pop();
	return --depth;
}

/* Domains are not distinguished: their ranges nest in the order of the calls. */
static int domain_push(void *domain, const struct nvtx_attributes *attributes)
{
	return range_push_attributes(attributes);
}

static int domain_pop(void *domain)
{
	return range_pop();
}

static void *register_string(void *domain, const char *text)
{
	return text ? strdup(text) : NULL; /* no call releases one */
}

typedef void (*function)(void);
struct callbacks {
	size_t size;
	int (*table)(int module, function ***ret_table, unsigned *ret_size);
};

static void fill(const struct callbacks *callbacks, int module, unsigned id, function with)
{
	function **table = NULL;
	unsigned size = 0;

	if (callbacks->table(module, &table, &size) && table && id < size && table[id])
		*table[id] = with;
}

/* NVTX_ETID_CALLBACKS, NVTX_CB_MODULE_CORE and _CORE2, NVTX_CBID_CORE*: nvtxTypes.h. */
enum {
	TABLE_CALLBACKS = 1,
	CORE = 1,
	CORE_RANGE_PUSH_EX = 8,
	CORE_RANGE_PUSH_A = 9,
	CORE_RANGE_POP = 11,
	CORE2 = 5,
	CORE2_RANGE_PUSH_EX = 4,
	CORE2_RANGE_POP = 5,
	CORE2_REGISTER_STRING_A = 9,
};

int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t id));
GM_AGENT_EXPORT int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t id))
{
	const struct callbacks *callbacks = export_table ? export_table(TABLE_CALLBACKS) : NULL;

	if (!callbacks || callbacks->size < sizeof(*callbacks))
		return 0;
	fill(callbacks, CORE, CORE_RANGE_PUSH_EX, (function)range_push_attributes);
	fill(callbacks, CORE, CORE_RANGE_PUSH_A, (function)range_push);
	fill(callbacks, CORE, CORE_RANGE_POP, (function)range_pop);
	fill(callbacks, CORE2, CORE2_RANGE_PUSH_EX, (function)domain_push);
	fill(callbacks, CORE2, CORE2_RANGE_POP, (function)domain_pop);
	fill(callbacks, CORE2, CORE2_REGISTER_STRING_A, (function)register_string);
	return 1;
}
