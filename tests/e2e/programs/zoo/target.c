/* target work=NAME [seed=N] [TRAIT=VALUE...] [wrap=NAME]: see zoo.h. Prints "begun PID", and
 * "right" or "wrong: WHAT" at the end. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zoo.h"

static int count;
static char **words;

static void put(const char *before, const char *format, va_list arguments)
{
	char line[6000];
	size_t length = (size_t)snprintf(line, sizeof(line), "%s", before);
	int more = vsnprintf(line + length, sizeof(line) - length - 1, format, arguments);
	length +=
	        (size_t)more < sizeof(line) - length - 2 ? (size_t)more : sizeof(line) - length - 2;
	line[length++] = '\n';
	(void)!write(1, line, length);
}

void say(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	put("", format, arguments);
	va_end(arguments);
}

void wrong(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	put("wrong: ", format, arguments);
	va_end(arguments);
	_exit(1);
}

void handle(int number, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
	sigaction(number, &action, NULL);
}

static const char *value_of(const char *name, const char *otherwise)
{
	size_t length = strlen(name);
	for (int i = 1; i < count; i++)
		if (strncmp(words[i], name, length) == 0 && words[i][length] == '=')
			return words[i] + length + 1;
	return otherwise;
}

static bool asked_to_end(void)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};
	return poll(&input, 1, 0) > 0;
}

static void take_traits(void)
{
	for (int i = 1; i < count; i++) {
		static const char *const others[] = {"work=", "seed=", "wrap=", "quiet="};
		bool other = false;
		for (size_t j = 0; j < sizeof(others) / sizeof(*others); j++)
			other |= strncmp(words[i], others[j], strlen(others[j])) == 0;
		if (!other && strncmp(words[i], "filter=", 7) != 0 && !trait_take(words[i]))
			wrong("%s: no such trait", words[i]);
	}
}

/* A child is told its number, which may be another one for itself. */
static void be(int number)
{
	state_prepare();
	take_traits();
	if (!work_begin(value_of("work", ""), (unsigned)atoi(value_of("seed", "0"))))
		wrong("no such work");
	for (int i = 1; i < count; i++)
		if (strncmp(words[i], "filter=", 7) == 0)
			trait_take(words[i]);
	state_take((strcmp(value_of("wrap", ""), "leader") == 0 ? 2 : 1) + work_threads());
	if (!*value_of("quiet", ""))
		say("begun %d", number);
	while (!asked_to_end())
		work_once();
	work_end();
	state_compare();
	trait_check();
	say("right");
	_exit(0);
}

static void pass_on(int status)
{
	if (WIFSIGNALED(status))
		say("wrong: ended by signal %d", WTERMSIG(status));
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* What it does at its end is its own: libraries are loaded for that, memory is unmapped. */
static void wait_for_end_of_leader(void)
{
	for (char state = 0; state != 'Z'; sched_yield()) {
		char path[64];
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
		FILE *file = fopen(path, "re");
		if (file && fscanf(file, "%*d %*s %c", &state) != 1)
			state = 0;
		if (file)
			fclose(file);
	}
}

static void *live_on(void *argument)
{
	wait_for_end_of_leader();
	be(getpid());
	return argument;
}

/* Its tracer is another one than gpumem: it lets it run. */
static void trace(pid_t child)
{
	int status;
	while (waitpid(child, &status, __WALL) == child && WIFSTOPPED(status)) {
		int number = status >> 16 ? 0 : WSTOPSIG(status);
		ptrace(PTRACE_CONT, child, NULL, (void *)(intptr_t)number);
	}
	pass_on(status);
}

int main(int argc, char **argv)
{
	count = argc;
	words = argv;
	const char *wrap = value_of("wrap", "");
	int pipes[2], number, status;
	pthread_t thread;
	if (!*wrap)
		be(getpid());
	if (strcmp(wrap, "leader") == 0) { /* the first thread has ended */
		if (pthread_create(&thread, NULL, live_on, NULL))
			wrong("pthread_create");
		pthread_exit(NULL);
	}
	if (strcmp(wrap, "namespace") == 0)
		(void)!unshare(CLONE_NEWPID); /* of what is forked */
	if (pipe(pipes))
		wrong("pipe");
	pid_t child = fork();
	if (child == 0) {
		if (read(pipes[0], &number, sizeof(number)) != sizeof(number))
			_exit(1);
		close(pipes[0]);
		close(pipes[1]);
		be(number);
	}
	if (strcmp(wrap, "traced") == 0 && ptrace(PTRACE_SEIZE, child, NULL, NULL))
		wrong("ptrace");
	number = child;
	(void)!write(pipes[1], &number, sizeof(number));
	if (strcmp(wrap, "traced") == 0)
		trace(child);
	while (waitpid(child, &status, 0) != child)
		;
	pass_on(status);
}
