/*
 * Stands in for a dynamic linker of another C library, where none is installed: a program that
 * names it by PT_INTERP ends with 7 where LD_PRELOAD has nothing of gpumem's, with 8 where it has.
 * Built without libc (x86-64).
 */
__asm__(".globl _start\n_start: mov %rsp, %rdi\n\tandq $-16, %rsp\n\tcall begin\n");

static int begins(const char *text, const char *with)
{
	while (*with)
		if (*text++ != *with++)
			return 0;
	return 1;
}

static int has(const char *text, const char *part)
{
	for (; *text; text++)
		if (begins(text, part))
			return 1;
	return 0;
}

__attribute__((noreturn, used)) void begin(long *stack)
{
	char **environment = (char **)(stack + 1 + stack[0] + 1);
	long status = 7;
	for (; *environment; environment++)
		if (begins(*environment, "LD_PRELOAD=") && has(*environment, "libgpumem-"))
			status = 8;
	for (;;)
		__asm__ volatile("syscall" : : "a"(231L), "D"(status) : "rcx", "r11", "memory");
}
