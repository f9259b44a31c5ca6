/* A program without a C library, which no function can be called of. */
static long call(long number, long a, long b, long c)
{
	long result;
	__asm__ volatile("syscall"
	                 : "=a"(result)
	                 : "a"(number), "D"(a), "S"(b), "d"(c)
	                 : "rcx", "r11", "memory");
	return result;
}

__attribute__((noreturn, used)) void begin(void)
{
	static char line[32] = "begun ";
	char digits[16], byte;
	long length = 6, count = 0, number = call(39, 0, 0, 0);
	for (; number; number /= 10)
		digits[count++] = (char)('0' + number % 10);
	while (count)
		line[length++] = digits[--count];
	line[length++] = '\n';
	call(1, 1, (long)line, length);
	long got = call(0, 0, (long)&byte, 1);
	call(1, 1, (long)(got == 1 ? "right\n" : "wrong\n"), 6);
	for (;;)
		call(231, got != 1, 0, 0);
}

__asm__(".globl _start\n_start:\n\tand $-16, %rsp\n\tcall begin\n");
