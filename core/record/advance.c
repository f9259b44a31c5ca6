/*
 * Continues after a breakpoint without the debugger's single step.
 *
 * A debugger resumes from a breakpoint by executing the replaced instruction elsewhere, as one
 * step, with a second stop of the thread: half the cost of a stop that is only recorded. A
 * function's first instruction is usually a push, or the marker endbr64, and a library's call of
 * another one is a jump through a word. Their complete effect is to write a register, a word of the
 * stack and the program counter. If gpumem does that, the debugger finds the thread elsewhere and
 * continues it directly.
 *
 * This is the only place where gpumem changes anything in the target, and the effect is that of the
 * target's own instruction.
 */
#include "record/advance.h"

#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "record/recorder.h"
#include "record/record.h"

/* The value of a register by its number in an instruction's encoding (Intel SDM volume 2, table
 * 2-2). */
static uint64_t encoded_register(const struct user_regs_struct *registers, unsigned number)
{
	const unsigned long long values[16] = {
	        registers->rax,
	        registers->rcx,
	        registers->rdx,
	        registers->rbx,
	        registers->rsp,
	        registers->rbp,
	        registers->rsi,
	        registers->rdi,
	        registers->r8,
	        registers->r9,
	        registers->r10,
	        registers->r11,
	        registers->r12,
	        registers->r13,
	        registers->r14,
	        registers->r15,
	};
	return values[number & 15];
}

enum { DECODED_BYTES = 6 }; /* size of the longest of these instructions */

static struct gm_site_instruction decode(const uint8_t bytes[DECODED_BYTES], uint64_t address)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	struct gm_site_instruction instruction = {.pushed = -1};
	if (bytes[0] >= 0x50 && bytes[0] <= 0x57) {
		instruction.pushed = (int8_t)(bytes[0] - 0x50);
		instruction.length = 1;
	} else if (bytes[0] == 0x41 && bytes[1] >= 0x50 && bytes[1] <= 0x57) {
		instruction.pushed = (int8_t)(8 + bytes[1] - 0x50);
		instruction.length = 2;
	} else if (bytes[0] == 0xff && bytes[1] == 0x25) { /* jmp *offset(%rip) */
		int32_t offset;
		memcpy(&offset, bytes + 2, sizeof(offset));
		instruction.length = 6;
		instruction.jump = address + 6 + (uint64_t)(int64_t)offset;
	} else if (memcmp(bytes, endbr64, sizeof(endbr64)) == 0) {
		instruction.length = sizeof(endbr64);
	}
	return instruction;
}

static bool read_word(pid_t thread, uint64_t address, uint64_t *ret_word)
{
	struct iovec from = {(void *)(uintptr_t)address, sizeof(*ret_word)};
	struct iovec to = {ret_word, sizeof(*ret_word)};
	return process_vm_readv(thread, &to, 1, &from, 1, 0) == sizeof(*ret_word);
}

/* Called before a breakpoint is inserted: if one is there already, the original byte is not known,
 * and nothing is done. */
void gm_record_note_instruction(struct gm_recorder *recorder, size_t site)
{
	uint8_t bytes[DECODED_BYTES] = {0};
	uint64_t address = recorder->sites[site].address;
	if (gm_image_try_read(recorder->image, address, bytes, sizeof(bytes)))
		recorder->instructions[site] = decode(bytes, address);
}

bool gm_recorder_advance(struct gm_recorder *recorder, uint64_t address, pid_t thread)
{
	for (size_t i = 0; i < recorder->site_count; i++) {
		if (recorder->sites[i].address != address)
			continue;
		struct user_regs_struct registers;
		const struct gm_site_instruction *instruction = &recorder->instructions[i];
		if (instruction->length == 0 ||
		        ptrace(PTRACE_GETREGS, thread, NULL, &registers) != 0 ||
		        registers.rip != address)
			return false;
		if (instruction->pushed >= 0) {
			uint64_t value =
			        encoded_register(&registers, (unsigned)instruction->pushed);
			uint64_t top = registers.rsp - 8;
			struct iovec from = {&value, sizeof(value)};
			struct iovec to = {(void *)(uintptr_t)top, sizeof(value)};
			if (process_vm_writev(thread, &from, 1, &to, 1, 0) != sizeof(value))
				return false;
			registers.rsp = top;
		}
		uint64_t next = registers.rip + instruction->length;
		if (instruction->jump && !read_word(thread, instruction->jump, &next))
			return false;
		registers.rip = next;
		return ptrace(PTRACE_SETREGS, thread, NULL, &registers) == 0;
	}
	return false;
}
