#include "symbols/expression.h"

#include <dwarf.h>

enum { STACK_MAX = 32 };

struct machine {
	const struct gm_registers *registers;
	uint64_t cfa;
	gm_load load;
	void *context;
	uint64_t stack[STACK_MAX];
	size_t depth;
};

static bool push(struct machine *machine, uint64_t value)
{
	if (machine->depth == STACK_MAX)
		return false;
	machine->stack[machine->depth++] = value;
	return true;
}

static bool push_register(struct machine *machine, uint64_t number, uint64_t offset)
{
	return number < GM_REGISTER_COUNT &&
	       push(machine, machine->registers->value[number] + offset);
}

/* Operations on the two topmost values. */
static bool binary(struct machine *machine, uint8_t atom)
{
	if (machine->depth < 2)
		return false;
	uint64_t b = machine->stack[--machine->depth], a = machine->stack[machine->depth - 1],
	         value;
	switch (atom) {
	case DW_OP_plus:
		value = a + b;
		break;
	case DW_OP_minus:
		value = a - b;
		break;
	case DW_OP_and:
		value = a & b;
		break;
	case DW_OP_or:
		value = a | b;
		break;
	case DW_OP_xor:
		value = a ^ b;
		break;
	case DW_OP_mul:
		value = a * b;
		break;
	case DW_OP_shl:
		value = b < 64 ? a << b : 0;
		break;
	case DW_OP_shr:
		value = b < 64 ? a >> b : 0;
		break;
	case DW_OP_shra:
		value = (uint64_t)((int64_t)a >> (b < 64 ? b : 63));
		break;
	case DW_OP_eq:
		value = a == b;
		break;
	case DW_OP_ne:
		value = a != b;
		break;
	case DW_OP_ge:
		value = (int64_t)a >= (int64_t)b;
		break;
	case DW_OP_gt:
		value = (int64_t)a > (int64_t)b;
		break;
	case DW_OP_le:
		value = (int64_t)a <= (int64_t)b;
		break;
	case DW_OP_lt:
		value = (int64_t)a < (int64_t)b;
		break;
	default:
		return false;
	}
	machine->stack[machine->depth - 1] = value;
	return true;
}

/* Operations on the topmost value. */
static bool unary(struct machine *machine, const Dwarf_Op *op)
{
	if (machine->depth < 1)
		return false;
	uint64_t *top = &machine->stack[machine->depth - 1];
	switch (op->atom) {
	case DW_OP_deref:
		return machine->load(machine->context, *top, top);
	case DW_OP_plus_uconst:
		*top += op->number;
		return true;
	case DW_OP_neg:
		*top = -*top;
		return true;
	case DW_OP_not:
		*top = ~*top;
		return true;
	case DW_OP_dup:
		return push(machine, *top);
	case DW_OP_drop:
		machine->depth--;
		return true;
	default:
		return binary(machine, op->atom);
	}
}

static bool run(struct machine *machine, const Dwarf_Op *op)
{
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
		return push(machine, (uint64_t)(op->atom - DW_OP_lit0));
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31)
		return push_register(machine, (uint64_t)(op->atom - DW_OP_breg0), op->number);
	switch (op->atom) {
	case DW_OP_bregx:
		return push_register(machine, op->number, op->number2);
	case DW_OP_call_frame_cfa:
		return push(machine, machine->cfa);
	case DW_OP_const1u:
	case DW_OP_const2u:
	case DW_OP_const4u:
	case DW_OP_const8u:
	case DW_OP_constu:
	case DW_OP_const1s:
	case DW_OP_const2s:
	case DW_OP_const4s:
	case DW_OP_const8s:
	case DW_OP_consts:
		return push(machine, op->number); /* libdw has sign-extended it */
	case DW_OP_nop:
		return true;
	default:
		return unary(machine, op);
	}
}

bool gm_expression_evaluate(const Dwarf_Op *ops, size_t count, const struct gm_registers *registers,
        uint64_t cfa, gm_load load, void *context, uint64_t *ret_value)
{
	struct machine machine = {
	        .registers = registers, .cfa = cfa, .load = load, .context = context};
	for (size_t i = 0; i < count; i++) {
		if (!run(&machine, &ops[i]))
			return false;
	}
	if (machine.depth == 0)
		return false;
	*ret_value = machine.stack[machine.depth - 1];
	return true;
}
