/*
 * Registers as the kernel lays them out, for ptrace and for a core's notes alike (struct
 * user_regs_struct, sys/user.h), in the order that the rooms above use. It does not read them from
 * anywhere.
 */
#ifndef GM_IMAGE_REGISTERS_H
#define GM_IMAGE_REGISTERS_H

#include <sys/user.h>

#include "image/types.h"

static inline struct gm_registers gm_registers_from_kernel(const struct user_regs_struct *user)
{
	return (struct gm_registers){
	        .thread_pointer = user->fs_base,
	        .value =
	                {
	                        [GM_RAX] = user->rax,
	                        [GM_RDX] = user->rdx,
	                        [GM_RCX] = user->rcx,
	                        [GM_RBX] = user->rbx,
	                        [GM_RSI] = user->rsi,
	                        [GM_RDI] = user->rdi,
	                        [GM_RBP] = user->rbp,
	                        [GM_RSP] = user->rsp,
	                        [GM_R8] = user->r8,
	                        [GM_R9] = user->r9,
	                        [GM_R10] = user->r10,
	                        [GM_R11] = user->r11,
	                        [GM_R12] = user->r12,
	                        [GM_R13] = user->r13,
	                        [GM_R14] = user->r14,
	                        [GM_R15] = user->r15,
	                        [GM_RIP] = user->rip,
	                },
	};
}

#endif
