/*
 * The entry of a hook that stands in front of a C++ function: it notes the call's registers and
 * arguments, lets C code look at them, and then jumps to the function itself with everything as it
 * was. The hook has no frame while that function runs, so exceptions and unwinders pass as if it
 * were not there.
 */
#ifndef GM_AGENT_HOOK_ENTRY_H
#define GM_AGENT_HOOK_ENTRY_H

#include "agent/agent.h"
#include "agent/stacks/memory.h"
#include "torch/new_tensor.h"

/* What a hook's entry saves: the caller's registers, then the arguments. Laid out by the assembly
 * below. */
struct call {
	struct gm_agent_registers at;
	uint64_t argument[6];
};

/*
 * A hook's entry. It makes a struct call on the stack and gives it to NAME_see, which returns the
 * function that was meant; 0: none is there, and the call returns at once. rbp is kept as frame
 * pointer, so that unwinders pass.
 */
#define HOOK(symbol, see)                                    \
	__asm__(".text\n"                                    \
	        ".p2align 4\n"                               \
	        ".globl " symbol "\n"                        \
	        ".type " symbol ", @function\n" symbol ":\n" \
	        ".cfi_startproc\n"                           \
	        "endbr64\n"                                  \
	        "push %rbp\n"                                \
	        ".cfi_def_cfa_offset 16\n"                   \
	        ".cfi_offset rbp, -16\n"                     \
	        "mov %rsp, %rbp\n"                           \
	        ".cfi_def_cfa_register rbp\n"                \
	        "push %r9\n"                                 \
	        "push %r8\n"                                 \
	        "push %rcx\n"                                \
	        "push %rdx\n"                                \
	        "push %rsi\n"                                \
	        "push %rdi\n"                                \
	        "push %r15\n"                                \
	        "push %r14\n"                                \
	        "push %r13\n"                                \
	        "push %r12\n"                                \
	        "push %rbx\n"                                \
	        "push (%rbp)\n"                              \
	        "lea 16(%rbp), %rax\n"                       \
	        "push %rax\n"                                \
	        "push 8(%rbp)\n"                             \
	        "mov %rsp, %rdi\n"                           \
	        "call " see "\n"                             \
	        "add $64, %rsp\n"                            \
	        "pop %rdi\n"                                 \
	        "pop %rsi\n"                                 \
	        "pop %rdx\n"                                 \
	        "pop %rcx\n"                                 \
	        "pop %r8\n"                                  \
	        "pop %r9\n"                                  \
	        "pop %rbp\n"                                 \
	        ".cfi_def_cfa rsp, 8\n"                      \
	        "test %rax, %rax\n"                          \
	        "jz 1f\n"                                    \
	        "jmp *%rax\n"                                \
	        "1: ret\n"                                   \
	        ".cfi_endproc\n"                             \
	        ".size " symbol ", .-" symbol "\n")

#define SEE __attribute__((used, visibility("hidden")))

/* Is a call, with its caller's stack pointer and return address, still in progress at `sp`? Its
 * return address stands where the call has put it, a little above. */
static inline bool gm_call_is_under_way(uint64_t call_sp, uint64_t return_address, uint64_t sp)
{
	return gm_new_tensor_is_near(call_sp, sp) &&
	       gm_load(call_sp - sizeof(uint64_t)) == return_address;
}

#endif
