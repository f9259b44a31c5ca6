#include "image/thread_state.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "base/cleanup.h"

/* AVX-512 and AMX make it 11 KiB; the kernel returns the actual size. */
enum { EXTENDED_MAX = 64 << 10 };

/*
 * The XSAVE area up to AVX, whose layout is the same on all processors: the x87 and SSE registers,
 * a header at 512, AVX at 576. After it AMD and Intel differ, and gdb before 14 assumes Intel's
 * layout. The features (XCR0) are in the bytes for software (Linux, arch/x86/include/asm/user.h,
 * struct user_xstateregs), those in use in the header (XSTATE_BV).
 */
enum { FEATURES_AT = 464, IN_USE_AT = 512, UP_TO_AVX = 7, SIZE_UP_TO_AVX = 832 };

static bool cut_to_avx(uint8_t *extended, size_t size)
{
	uint64_t features, in_use;
	if (size < SIZE_UP_TO_AVX)
		return false;
	memcpy(&features, extended + FEATURES_AT, sizeof(features));
	memcpy(&in_use, extended + IN_USE_AT, sizeof(in_use));
	if ((features & UP_TO_AVX) != UP_TO_AVX)
		return false;
	features &= UP_TO_AVX;
	in_use &= UP_TO_AVX;
	memcpy(extended + FEATURES_AT, &features, sizeof(features));
	memcpy(extended + IN_USE_AT, &in_use, sizeof(in_use));
	return true;
}

int gm_thread_state_trace(pid_t thread, struct gm_thread_state *ret_state)
{
	struct gm_thread_state state = {.id = thread};
	if (ptrace(PTRACE_GETREGS, thread, NULL, &state.general) != 0)
		return errno;
	state.has_floating = ptrace(PTRACE_GETFPREGS, thread, NULL, &state.floating) == 0;
	_cleanup_free_ uint8_t *extended = calloc(1, EXTENDED_MAX);
	struct iovec area = {extended, EXTENDED_MAX};
	if (extended && ptrace(PTRACE_GETREGSET, thread, NT_X86_XSTATE, &area) == 0 &&
	        cut_to_avx(extended, area.iov_len)) {
		state.extended = gm_take(extended);
		state.extended_size = SIZE_UP_TO_AVX;
	}
	*ret_state = state;
	return 0;
}

struct gm_error *gm_thread_state_read(
        struct gm_image *image, pid_t thread, struct gm_thread_state *ret_state)
{
	if (gm_image_pid(image) > 0 && gm_thread_state_trace(thread, ret_state) == 0)
		return NULL;
	struct gm_registers registers;
	gm_try(gm_image_registers(image, thread, &registers));
	const uint64_t *value = registers.value;
	*ret_state = (struct gm_thread_state){
	        .id = thread,
	        .general =
	                {
	                        .rax = value[GM_RAX],
	                        .rdx = value[GM_RDX],
	                        .rcx = value[GM_RCX],
	                        .rbx = value[GM_RBX],
	                        .rsi = value[GM_RSI],
	                        .rdi = value[GM_RDI],
	                        .rbp = value[GM_RBP],
	                        .rsp = value[GM_RSP],
	                        .r8 = value[GM_R8],
	                        .r9 = value[GM_R9],
	                        .r10 = value[GM_R10],
	                        .r11 = value[GM_R11],
	                        .r12 = value[GM_R12],
	                        .r13 = value[GM_R13],
	                        .r14 = value[GM_R14],
	                        .r15 = value[GM_R15],
	                        .rip = value[GM_RIP],
	                        .fs_base = registers.thread_pointer,
	                        .orig_rax =
	                                ~UINT64_C(0), /* in no system call, as far as is known */
	                },
	};
	return NULL;
}

void gm_thread_state_deinit(struct gm_thread_state *state)
{
	free(state->extended);
	*state = (struct gm_thread_state){0};
}
