/*
 * The machine code that runs in the program: it creates a thread, and this is what that thread
 * executes. It is written by hand, because it must work at any address and may refer only to its
 * block.
 *
 * rbx is the block in both parts. The first part runs in the stopped thread, on our own stack. It
 * ends with rt_sigreturn and a frame that holds the thread's previous state. gpumem checks that
 * state at this point; if gpumem does not exist any more, the thread continues by itself. Every
 * signal is blocked in between, and so in the new thread permanently: signals are left to the
 * program's own threads. Except one: setuid() and the like, in another thread, wait until each
 * thread has handled the C library's signal for it.
 */
#include <cpuid.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "inject/internal.h"

#define CREATE 0
#define DETACH 8
#define DLOPEN 16
#define DLSYM 24
#define DLERROR 32
#define ERRNO 40
#define FUNCTION 48
#define THREAD 56
#define MASK 64
#define CREATED 72
#define RESULT 76
#define PROGRESS 80
#define DESCRIPTOR 84
#define ERRNO_BEFORE 88
#define NAME 96
#define TEXT 160
#define PATH 672
#define SETTINGS 1184
#define FRAME 9408
#define FRAME_STACK 9424 /* uc_stack in it */

#define PLACED(place, member)                                               \
	_Static_assert((place) == offsetof(struct gm_inject_block, member), \
	        #member ": the code has it elsewhere")
PLACED(CREATE, pthread_create);
PLACED(DETACH, pthread_detach);
PLACED(DLOPEN, dlopen);
PLACED(DLSYM, dlsym);
PLACED(DLERROR, dlerror);
PLACED(ERRNO, errno_location);
PLACED(FUNCTION, function);
PLACED(THREAD, thread);
PLACED(MASK, mask);
PLACED(CREATED, created);
PLACED(RESULT, result);
PLACED(PROGRESS, progress);
PLACED(DESCRIPTOR, descriptor);
PLACED(ERRNO_BEFORE, errno_before);
PLACED(NAME, name);
PLACED(TEXT, text);
PLACED(PATH, path);
PLACED(SETTINGS, settings);
PLACED(FRAME, frame);

#define NUMBER_(number) #number
#define AT(number) NUMBER_(number) "(%rbx)"

/* One instruction a line. */
/* clang-format off */
__asm__(
	".pushsection .rodata\n"
	".balign 16\n"
	"gm_inject_code_start:\n"
	/* --- in the stopped thread: rbx is the block, rsp the end of our stack (aligned to 16)  */
	"	cld\n"
	"	movl $14, %eax\n" /* rt_sigprocmask(SIG_SETMASK, &mask, NULL, 8) */
	"	movl $2, %edi\n"
	"	leaq " AT(MASK) ", %rsi\n"
	"	xorl %edx, %edx\n"
	"	movl $8, %r10d\n"
	"	syscall\n"
	"	call *" AT(ERRNO) "\n"
	"	movl (%rax), %ecx\n"
	"	movl %ecx, " AT(ERRNO_BEFORE) "\n"
	"	leaq " AT(THREAD) ", %rdi\n"
	"	xorl %esi, %esi\n"
	"	leaq 1f(%rip), %rdx\n"
	"	movq %rbx, %rcx\n"
	"	call *" AT(CREATE) "\n"
	"	movl %eax, " AT(CREATED) "\n"
	"	call *" AT(ERRNO) "\n"
	"	movl " AT(ERRNO_BEFORE) ", %ecx\n"
	"	movl %ecx, (%rax)\n"
	"	movl $131, %eax\n" /* sigaltstack(NULL, &frame.stack): rt_sigreturn sets it */
	"	xorl %edi, %edi\n"
	"	leaq " AT(FRAME_STACK) ", %rsi\n"
	"	syscall\n"
	"	leaq " AT(FRAME) ", %rsp\n"
	"	movl $15, %eax\n" /* rt_sigreturn */
	"	syscall\n"
	"	hlt\n"
	/* --- in the new thread: rdi is the block --- */
	"1:	endbr64\n"
	"	pushq %rbx\n"
	"	movq %rdi, %rbx\n"
	"	movq %fs:16, %rdi\n" /* pthread_self() */
	"	call *" AT(DETACH) "\n"
	"	movq " AT(FUNCTION) ", %rax\n"
	"	testq %rax, %rax\n"
	"	jnz 2f\n"
	"	leaq " AT(PATH) ", %rdi\n"
	"	movl $2, %esi\n" /* RTLD_NOW */
	"	call *" AT(DLOPEN) "\n"
	"	testq %rax, %rax\n"
	"	jz 3f\n"
	"	movq %rax, %rdi\n"
	"	leaq " AT(NAME) ", %rsi\n"
	"	call *" AT(DLSYM) "\n"
	"	testq %rax, %rax\n"
	"	jz 3f\n"
	"2:	leaq " AT(SETTINGS) ", %rdi\n"
	"	call *%rax\n"
	"	movl %eax, " AT(RESULT) "\n"
	"	movl $1, " AT(PROGRESS) "\n"
	"	jmp 6f\n"
	"3:	call *" AT(DLERROR) "\n"
	"	leaq " AT(TEXT) ", %rdi\n"
	"	movl $511, %ecx\n"
	"	testq %rax, %rax\n"
	"	jz 5f\n"
	"4:	movb (%rax), %dl\n"
	"	movb %dl, (%rdi)\n"
	"	testb %dl, %dl\n"
	"	jz 5f\n"
	"	incq %rax\n"
	"	incq %rdi\n"
	"	decl %ecx\n"
	"	jnz 4b\n"
	"5:	movl $2, " AT(PROGRESS) "\n"
	"6:	movl " AT(DESCRIPTOR) ", %edi\n"
	"	testl %edi, %edi\n"
	"	js 7f\n"
	"	movl $3, %eax\n" /* close */
	"	syscall\n"
	"7:	xorl %eax, %eax\n"
	"	popq %rbx\n"
	"	ret\n"
	"gm_inject_code_end:\n"
	".popsection\n");
/* clang-format on */

extern const uint8_t gm_inject_code_start[], gm_inject_code_end[];

const void *gm_inject_code(size_t *ret_size)
{
	*ret_size = (size_t)(gm_inject_code_end - gm_inject_code_start);
	return gm_inject_code_start;
}

/* ---- the frame of rt_sigreturn --------------------------------------------------------------- */

enum {
	/* arch/x86/include/uapi/asm/sigcontext.h and ucontext.h */
	FRAME_MAGIC1 = 0x46505853,
	FRAME_MAGIC2 = 0x46505845,
	EXTENDED_AT = 512,    /* the XSAVE area, in the frame's bytes */
	SOFTWARE_BYTES = 464, /* struct _fpx_sw_bytes in the 512 bytes of FXSAVE */
	UC_EXTENDED = 1,
	UC_SIGCONTEXT_SS = 2,
	TILES = 17,   /* the first feature of AMX: the frame of a thread without it has no space for
	                 it */
	NO_STACK = 3, /* of no mode of sigaltstack(): rt_sigreturn leaves the thread's as it is
	                 (kernel/signal.c, restore_altstack()) */
	ERESTARTSYS = 512,
	ERESTARTNOINTR = 513,
	ERESTARTNOHAND = 514,
	ERESTART_RESTARTBLOCK = 516,
};

/* In the kernel's layout: glibc's ucontext_t is longer. */
struct frame {
	uint64_t flags, link;
	stack_t stack;
	struct {
		uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx,
		        rsp, rip, eflags;
		uint16_t cs, gs, fs, ss;
		uint64_t error, trap, old_mask, cr2, fpstate, reserved[8];
	} context;
	uint64_t mask;
};

/* Bytes of an XSAVE area in its standard form with these features (Intel's manual, volume 1,
 * 13.5). */
static size_t extended_size(uint64_t features, size_t most)
{
	size_t size = 512 + 64;
	for (unsigned i = 2; i < TILES; i++) {
		unsigned length, offset, c, d;
		if (!(features >> i & 1) || !__get_cpuid_count(0xd, i, &length, &offset, &c, &d))
			continue;
		if (offset + length > size && offset + length <= most)
			size = offset + length;
	}
	return size;
}

/* Not by restart_syscall: rt_sigreturn makes the kernel forget what it would continue. */
void gm_inject_restart(const struct gm_inject_thread *thread, struct user_regs_struct *registers)
{
	int64_t result = (int64_t)registers->rax;
	if ((int64_t)registers->orig_rax < 0 ||
	        (result != -ERESTARTSYS && result != -ERESTARTNOINTR && result != -ERESTARTNOHAND &&
	                result != -ERESTART_RESTARTBLOCK))
		return;
	registers->rax = thread->call;
	registers->rip -= 2;
}

size_t gm_inject_fill_frame(
        uint8_t bytes[GM_INJECT_FRAME], uint64_t address, const struct gm_inject_thread *thread)
{
	struct user_regs_struct r = thread->registers;
	gm_inject_restart(thread, &r);
	struct frame frame = {
	        .flags = UC_SIGCONTEXT_SS,
	        .stack.ss_flags = NO_STACK,
	        .context = {.r8 = r.r8,
	                .r9 = r.r9,
	                .r10 = r.r10,
	                .r11 = r.r11,
	                .r12 = r.r12,
	                .r13 = r.r13,
	                .r14 = r.r14,
	                .r15 = r.r15,
	                .rdi = r.rdi,
	                .rsi = r.rsi,
	                .rbp = r.rbp,
	                .rbx = r.rbx,
	                .rdx = r.rdx,
	                .rax = r.rax,
	                .rcx = r.rcx,
	                .rsp = r.rsp,
	                .rip = r.rip,
	                .eflags = r.eflags,
	                .cs = (uint16_t)r.cs,
	                .ss = (uint16_t)r.ss},
	        .mask = thread->mask,
	};
	size_t used = sizeof(frame);
	if (thread->extended_size >= 512 + 64) {
		uint8_t *extended = bytes + EXTENDED_AT;
		memcpy(extended, thread->extended, thread->extended_size);
		uint64_t features;
		memcpy(&features, extended + SOFTWARE_BYTES, sizeof(features));
		size_t size = extended_size(features, thread->extended_size);
		struct {
			uint32_t magic1, extended_size;
			uint64_t features;
			uint32_t size, padding[7];
		} software = {FRAME_MAGIC1, (uint32_t)size + 4,
		        features & ((UINT64_C(1) << TILES) - 1), (uint32_t)size, {0}};
		_Static_assert(sizeof(software) == 48, "struct _fpx_sw_bytes");
		memcpy(extended + SOFTWARE_BYTES, &software, sizeof(software));
		uint32_t magic2 = FRAME_MAGIC2;
		memcpy(extended + size, &magic2, sizeof(magic2));
		frame.flags |= UC_EXTENDED;
		frame.context.fpstate = address + EXTENDED_AT;
		used = EXTENDED_AT + size + sizeof(magic2);
	}
	memcpy(bytes, &frame, sizeof(frame));
	_Static_assert(
	        FRAME_STACK - FRAME == offsetof(struct frame, stack), "sigaltstack fills it");
	_Static_assert(sizeof(frame) <= EXTENDED_AT, "the frame stands before the XSAVE area");
	return used;
}

void gm_inject_way_back(
        const struct gm_inject_thread *thread, uint64_t restore, struct gm_inject_way_back *ret_way)
{
	enum { RED_ZONE = 128, FRAME_END = 64 };
	*ret_way = (struct gm_inject_way_back){0};
	uint64_t used = EXTENDED_AT + thread->extended_size + FRAME_END,
	         stack = thread->registers.rsp;
	if (!restore || stack < 2 * (RED_ZONE + used))
		return;
	/* little, as the kernel extends a stack only where its thread itself uses it */
	uint64_t frame = (stack - RED_ZONE - used) & ~UINT64_C(63);
	memcpy(ret_way->bytes, &restore, sizeof(restore)); /* right below the frame */
	ret_way->size = sizeof(restore) +
	                gm_inject_fill_frame(ret_way->bytes + sizeof(restore), frame, thread);
	ret_way->top = frame - sizeof(restore);
}
