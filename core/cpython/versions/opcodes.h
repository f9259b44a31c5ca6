/*
 * What each opcode of a version does, as far as the questions need it. The tables (opcodes_3xx.c)
 * are made by tables/make_tables from each interpreter's own `opcode` and `dis` modules,
 * specialised, instrumented and combined opcodes included.
 */
#ifndef GM_CPYTHON_OPCODES_H
#define GM_CPYTHON_OPCODES_H

#include <stdint.h>

#include "cpython/cpython.h"

enum gm_opcode_argument {
	GM_ARGUMENT_NONE = 0,
	GM_ARGUMENT_NAME,             /* index into co_names */
	GM_ARGUMENT_LOCAL,            /* index into localsplus */
	GM_ARGUMENT_DEREF,            /* index into cellvars + freevars (3.9, 3.10) */
	GM_ARGUMENT_LOCAL_PAIR_FIRST, /* 3.13: two indices of four bits, the high one is stored to
	                               */
	GM_ARGUMENT_LOCAL_PAIR_BOTH,  /* 3.13: both are stored to, the high one first */
};

enum gm_opcode_flags {
	GM_OPCODE_JUMP_BACK = 1,     /* argument: code units back from the next instruction */
	GM_OPCODE_JUMP_ABSOLUTE = 2, /* argument: the target (3.9 bytes, 3.10 code units) */
	GM_OPCODE_THEN_STORE = 4,    /* 3.11, 3.12: runs the STORE_FAST after it in the same step */
	GM_OPCODE_EXTENDED = 8,      /* EXTENDED_ARG */
	GM_OPCODE_JUMP_FORWARD = 32, /* argument: code units on from the next instruction */
	GM_OPCODE_NO_NEXT = 64,      /* never goes on to the next instruction */
	GM_OPCODE_SEND = 16,         /* head of the inner loop of an await or yield from */
};

/* How many values an instruction pushes less how many it pops: constant + slope * (a function of
 * the argument). */
enum gm_effect_form {
	GM_EFFECT_UNKNOWN = 0,
	GM_EFFECT_CONSTANT,
	GM_EFFECT_ARGUMENT,
	GM_EFFECT_BIT_0,
	GM_EFFECT_BIT_2,
	GM_EFFECT_IS_3,
	GM_EFFECT_BITS,  /* number of ones in the low four bits */
	GM_EFFECT_BYTES, /* low byte + the rest */
};

struct gm_effect {
	uint8_t form; /* enum gm_effect_form */
	int8_t constant;
	int8_t slope;
};

struct gm_opcode {
	const char *name; /* NULL: no such opcode */
	uint8_t op;       /* enum gm_op: while it runs */
	uint8_t returned; /* enum gm_op: when the interpreter stands at its caches, so a callee is
	                     or was in */
	uint8_t argument; /* enum gm_opcode_argument */
	uint8_t base;     /* the opcode it was before specialisation */
	uint8_t caches;   /* code units of inline cache that follow */
	uint8_t flags;
	struct gm_effect next; /* of going on */
	struct gm_effect jump; /* of jumping */
};

extern const struct gm_opcode gm_opcodes_309[256], gm_opcodes_310[256], gm_opcodes_311[256],
        gm_opcodes_312[256], gm_opcodes_313[256], gm_opcodes_314[256], gm_opcodes_315[256];

#endif
