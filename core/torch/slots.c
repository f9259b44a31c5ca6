/*
 * The names of a node's saved variables. PyTorch gives each generated node Python attributes for
 * them ("_saved_self"): a table X_properties of PyGetSetDef
 * (torch/csrc/autograd/generated/python_functions_*.cpp, made by
 * tools/autograd/gen_python_functions.py; the same from 2.4 to 2.11). All getters come from one
 * template, `self->cdata.get()->self_.unpack(self->cdata)`, so the offset of the saved variable in
 * its node is in the getter's code: a load from the field `cdata`, then an addition to the loaded
 * value, or, for a vector, a load from it. This gives the names for every version without a table
 * of ours, and for hidden classes too. A saved tensor has a second attribute, "_raw_saved_self";
 * other saved values, such as numbers, do not.
 */
#include "torch/slots.h"

#include <stdio.h>
#include <string.h>

#include "torch/internal.h"
#include "torch/readers.h"
#include "torch/torch.h"

enum {
	MAX_SLOTS = 128,
	MAX_NAME = 64,
	CODE_BYTES = 256,
	MAX_JUMPS = 4,
	LOOK_AHEAD = 64,   /* bytes between the two instructions */
	GETSET_BYTES = 40, /* PyGetSetDef: name, get, set, doc, closure (Include/descrobject.h) */
};

struct slot {
	uint32_t offset;
	bool vector;
	bool tensor; /* a saved variable, or a vector of them */
	char name[MAX_NAME];
};

struct gm_slots {
	size_t count;
	bool whole; /* every saved variable of the class is in the list */
	struct slot items[MAX_SLOTS];
};

/* An instruction with a 64-bit operand: REX.W, opcode, ModRM (Intel SDM, vol. 2, 2.1.3 and
 * 2.2.1). */
struct operation {
	uint8_t opcode;
	unsigned mode, reg, base; /* ModRM's fields with REX's bits */
	size_t operand;           /* offset of the displacement or immediate */
};

static bool decode(const uint8_t *code, size_t size, size_t at, struct operation *ret)
{
	if (at + 4 > size || (code[at] & 0xf8) != 0x48)
		return false;
	uint8_t rex = code[at], modrm = code[at + 2];
	*ret = (struct operation){.opcode = code[at + 1],
	        .mode = modrm >> 6,
	        .reg = (modrm >> 3 & 7u) | (rex & 4 ? 8u : 0),
	        .base = (modrm & 7u) | (rex & 1 ? 8u : 0),
	        .operand = at + 3};
	if (ret->mode != 3 && (modrm & 7) == 4)
		ret->operand++; /* a SIB byte that names the base only */
	return ret->operand + 4 <= size;
}

static uint32_t operand32(const uint8_t *code, const struct operation *operation)
{
	uint32_t value;
	memcpy(&value, code + operation->operand, sizeof(value));
	return value;
}

/* The offset that is added to, or read from, the value loaded from [any register + cdata]. */
static bool find_offset(const uint8_t *code, size_t size, uint8_t cdata, struct slot *slot)
{
	struct operation load, use;
	for (size_t at = 0; at < size; at++) {
		if (!decode(code, size, at, &load) || load.opcode != 0x8b || load.mode != 1 ||
		        code[load.operand] != cdata)
			continue;
		for (size_t next = load.operand + 1; next < load.operand + LOOK_AHEAD; next++) {
			if (load.reg == 0 && next + 6 <= size && code[next] == 0x48 &&
			        code[next + 1] == 0x05) { /* add rax, imm32 */
				memcpy(&slot->offset, code + next + 2, 4);
				return true;
			}
			if (!decode(code, size, next, &use) || use.base != load.reg)
				continue;
			bool add = use.opcode == 0x81 && use.mode == 3 && (use.reg & 7) == 0;
			bool lea = use.opcode == 0x8d && use.mode == 2;
			slot->vector = use.opcode == 0x8b && use.mode == 2;
			if (add || lea || slot->vector) {
				slot->offset = operand32(code, &use);
				return true;
			}
		}
	}
	return false;
}

/* Getters with the same code are merged into one function, to which the others jump. */
static size_t read_code(struct gm_torch *torch, uint64_t address, uint8_t *code)
{
	for (unsigned jumps = 0;; jumps++) {
		size_t got = gm_image_read_some(torch->image, address, code, CODE_BYTES);
		int32_t distance;
		if (jumps == MAX_JUMPS || got < 5 || (code[0] != 0xe9 && code[0] != 0xeb))
			return got;
		if (code[0] == 0xe9)
			memcpy(&distance, code + 1, sizeof(distance));
		else
			distance = (int8_t)code[1];
		address += (code[0] == 0xe9 ? 5u : 2u) + (uint64_t)(int64_t)distance;
	}
}

/* Does the other attribute of that name lead to the same place? */
static bool agrees(const struct gm_slots *slots, const struct slot *slot)
{
	for (size_t i = 0; i < slots->count; i++)
		if (strcmp(slots->items[i].name, slot->name) == 0)
			return slots->items[i].offset == slot->offset;
	return true;
}

/* False: the table has an attribute that cannot be read or that contradicts the other one, or too
 * many attributes. */
static bool read_slots(struct gm_torch *torch, uint64_t table, struct gm_slots *slots)
{
	static const char prefix[] = "_saved_", raw[] = "_raw_saved_";
	bool whole = true;
	uint64_t entry[2];
	char name[MAX_NAME + sizeof(raw)];
	uint8_t code[CODE_BYTES];
	for (; slots->count < MAX_SLOTS; table += GETSET_BYTES) {
		if (!gm_image_try_read(torch->image, table, entry, sizeof(entry)))
			return false;
		if (!entry[0])
			return whole;
		size_t got = gm_image_read_some(torch->image, entry[0], name, sizeof(name));
		if (got == 0 || !memchr(name, 0, got))
			return false;
		bool is_raw = strncmp(name, raw, sizeof(raw) - 1) == 0;
		size_t skipped = is_raw ? sizeof(raw) - 1 : sizeof(prefix) - 1;
		if ((!is_raw && strncmp(name, prefix, skipped) != 0) || !name[skipped] ||
		        strlen(name + skipped) >= MAX_NAME)
			continue;
		struct slot *slot = &slots->items[slots->count];
		*slot = (struct slot){.tensor = is_raw};
		got = read_code(torch, entry[1], code);
		if (!find_offset(code, got, (uint8_t)torch->layout->python.function_cdata, slot)) {
			whole &= !is_raw;
			continue;
		}
		memcpy(slot->name, name + skipped, strlen(name + skipped) + 1);
		whole &= !is_raw || agrees(slots, slot);
		slots->count++;
	}
	return false;
}

/* "N5torch8autograd9generated12MulBackward0E" -> the symbol of its table. */
static struct gm_slots *slots_create(struct gm_torch *torch, const struct gm_class *class)
{
	static const char scope[] = "N5torch8autograd9generated";
	struct gm_slots *slots = calloc(1, sizeof(*slots));
	const char *name = class->linkage_name + sizeof(scope) - 1;
	if (!slots || strncmp(class->linkage_name, scope, sizeof(scope) - 1) != 0)
		return slots;
	char symbol[512], *end;
	unsigned long length = strtoul(name, &end, 10);
	const struct gm_module *module =
	        gm_symbols_find_module(torch->symbols, "libtorch_python.so");
	uint64_t table;
	if (length == 0 || length > 256 || strlen(end) < length || !module)
		return slots;
	snprintf(symbol, sizeof(symbol), "_Z%sL%lu%.*s_propertiesE", scope, length + 11,
	        (int)length, end);
	if (gm_symbols_lookup(torch->symbols, module, symbol, &table, NULL))
		slots->whole = read_slots(torch, table, slots);
	return slots;
}

static const struct gm_slots *slots_of(struct gm_torch *torch, const struct gm_class *class)
{
	struct gm_class *known = (struct gm_class *)(uintptr_t) class;
	if (!known->slots)
		known->slots = slots_create(torch, class);
	return known->slots;
}

bool gm_torch_may_save_at(struct gm_torch *torch, const struct gm_class *class, uint32_t offset)
{
	const struct gm_slots *slots = slots_of(torch, class);
	if (!slots || !slots->whole)
		return true;
	for (size_t i = 0; i < slots->count; i++)
		if (slots->items[i].tensor && slots->items[i].offset == offset)
			return true;
	return false;
}

const char *gm_torch_slot_name(
        struct gm_torch *torch, const struct gm_class *class, uint32_t offset, bool of_vector)
{
	const struct gm_slots *known = slots_of(torch, class);
	if (!known)
		return NULL;
	for (size_t i = 0; i < known->count; i++) {
		const struct slot *slot = &known->items[i];
		/* for a vector the begin or the end is read first */
		if (slot->vector == of_vector &&
		        (slot->offset == offset || (of_vector && slot->offset == offset + 8)))
			return slot->name;
	}
	return NULL;
}
