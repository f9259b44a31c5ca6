/*
 * A program to which SIGTRAP means something. It allocates, traps and looks at its own signals,
 * over and over, and ends when a byte comes on its standard input.
 *
 *     trap_program handled    a handler of its own, which every int3 has to reach
 *     trap_program ignored    SIG_IGN
 *     trap_program blocked    blocked, with a handler, and one is pending for the thread all the
 *                             time
 */
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile unsigned long reached;

static void reach(int signal)
{
	(void)signal;
	reached++;
}

static void wrong(const char *what)
{
	printf("wrong: %s\n", what);
	fflush(stdout);
	_exit(1);
}

static void work(void)
{
	static void *blocks[64];
	for (int i = 0; i < 5000; i++) {
		free(blocks[i & 63]);
		blocks[i & 63] = malloc((size_t)(1 + i * 37 % 4000));
	}
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";
	if (argc > 9) /* `attach` refuses a program that can load nothing */
		dlopen(argv[9], RTLD_NOW);
	bool handled = strcmp(kind, "handled") == 0, blocked = strcmp(kind, "blocked") == 0;
	sigset_t set, now;
	sigemptyset(&set);
	if (blocked)
		sigaddset(&set, SIGTRAP);
	signal(SIGTRAP, handled || blocked ? reach : SIG_IGN);
	sigprocmask(SIG_SETMASK, &set, NULL);
	if (blocked)
		raise(SIGTRAP);
	puts("begun");
	fflush(stdout);
	unsigned long rounds = 0;
	for (struct pollfd input = {.fd = 0, .events = POLLIN}; poll(&input, 1, 0) == 0; rounds++) {
		struct sigaction action;
		work();
		if (handled)
			__asm__ volatile("int3");
		if (handled && reached != rounds + 1)
			wrong("the handler was not reached");
		sigaction(SIGTRAP, NULL, &action);
		if (action.sa_handler != (handled || blocked ? reach : SIG_IGN))
			wrong("the handler is another one");
		sigprocmask(SIG_SETMASK, NULL, &now);
		if (sigismember(&now, SIGTRAP) != blocked)
			wrong("the mask is another one");
		sigpending(&now);
		if (sigismember(&now, SIGTRAP) != blocked)
			wrong("what was pending is not any more");
	}
	if (blocked) {
		sigemptyset(&set);
		sigprocmask(SIG_SETMASK, &set, NULL);
		if (reached != 1)
			wrong("the pending signal was lost, or came twice");
	}
	puts("right");
	return 0;
}
