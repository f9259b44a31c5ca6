/*
 * A program that is hard to attach to: it does one thing, over and over, and checks every result.
 * It ends when a byte comes on its standard input, and prints "right" and how many rounds it made,
 * or what was wrong.
 *
 *     busy_program malloc|threads|strdup|setgid|dlopen|fork|signals|vector|sleep|pause
 */
#include <dlfcn.h>
#include <errno.h>
#include <immintrin.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_ulong rounds;
static atomic_bool ended;

static void wrong(const char *what)
{
	printf("wrong: %s (errno %d)\n", what, errno);
	fflush(stdout);
	_exit(1);
}

static bool asked_to_end(void)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};
	return poll(&input, 1, 0) > 0;
}

/* Blocks of changing sizes, each filled, and looked at before it is freed. */
static void allocate(unsigned seed)
{
	enum { LIVE = 64 };
	static _Thread_local unsigned char *blocks[LIVE];
	static _Thread_local size_t sizes[LIVE];
	for (int i = 0; i < 2000; i++) {
		seed = seed * 1103515245 + 12345;
		unsigned at = seed >> 16 & (LIVE - 1);
		if (blocks[at])
			for (size_t j = 0; j < sizes[at]; j += 61)
				if (blocks[at][j] != (unsigned char)(sizes[at] + at))
					wrong("a block was changed");
		free(blocks[at]);
		sizes[at] = 1 + (seed >> 8) % 3000;
		blocks[at] = malloc(sizes[at]);
		memset(blocks[at], (int)(sizes[at] + at), sizes[at]);
	}
	rounds++;
}

static void *allocate_on(void *seed)
{
	while (!ended)
		allocate((unsigned)(size_t)seed + (unsigned)rounds);
	return NULL;
}

/* Most of the time is within a function of the C library that calls malloc(), or in free(). */
static void copy_text(void)
{
	enum { LENGTH = 1500, COPIES = 64 };
	static _Thread_local char text[LENGTH + 1], *copies[COPIES];
	memset(text, 'x', LENGTH);
	for (int i = 0; i < 2000; i++) {
		char **copy = &copies[i * 7 % COPIES];
		if (*copy && strcmp(*copy, text) != 0)
			wrong("a copy was changed");
		free(*copy);
		*copy = i % 2 ? strdup(text) : strndup(text, LENGTH);
	}
	rounds++;
}

static atomic_ulong copied[2];

static void *copy_on(void *number)
{
	while (!ended) {
		copy_text();
		copied[(size_t)number]++;
	}
	return NULL;
}

/* Each thread still works. */
static void wait_for_copies(void)
{
	for (int i = 0; i < 2; i++)
		for (unsigned long before = copied[i]; copied[i] == before;)
			usleep(1000);
}

static void load(void)
{
	void *library = dlopen("libm.so.6", RTLD_NOW);
	void *other = dlopen("libutil.so.1", RTLD_NOW);
	double (*function)(double) = library ? (double (*)(double))dlsym(library, "cos") : NULL;
	if (!function || function(0) != 1)
		wrong("dlopen");
	dlclose(library);
	if (other)
		dlclose(other);
	rounds++;
}

static void fork_once(void)
{
	pid_t child = fork();
	if (child == 0) {
		free(malloc(1000));
		_exit(7);
	}
	int status;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			wrong("waitpid");
	if (WEXITSTATUS(status) != 7)
		wrong("the child's status");
	rounds++;
}

static atomic_ulong handled;
static void handle(int signal)
{
	handled++;
}

/* Each wait is ended by the signal that it waits for: none is lost, none comes twice. */
static void wait_for_signal(void)
{
	const struct itimerval soon = {.it_value.tv_usec = 3000};
	unsigned long before = handled;
	sigset_t blocked, old;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGALRM);
	sigprocmask(SIG_BLOCK, &blocked, &old);
	setitimer(ITIMER_REAL, &soon, NULL);
	sigdelset(&old, SIGALRM);
	if (sigsuspend(&old) != -1 || errno != EINTR)
		wrong("sigsuspend");
	if (handled != before + 1)
		wrong("a signal was lost or came twice");
	rounds++;
}

/* The C library has each thread make the call, and waits for all of them. */
static void set_group(void)
{
	if (setgid(getgid()) != 0)
		wrong("setgid");
	usleep(1000);
	rounds++;
}

static void *only_wait(void *unused)
{
	while (!ended)
		poll(NULL, 0, 10);
	return unused;
}

/* All vector registers hold numbers while little else is done. */
__attribute__((target("avx2"))) static void compute(void)
{
	__m256d sum[12];
	for (int i = 0; i < 12; i++)
		sum[i] = _mm256_set1_pd(i);
	long double old = 1.0L;
	const __m256d one = _mm256_set1_pd(1);
	for (int round = 0; round < 100000; round++) {
		for (int i = 0; i < 12; i++)
			sum[i] = _mm256_add_pd(sum[i], one);
		old = old * 0.5L + 1.0L;
	}
	for (int i = 0; i < 12; i++) {
		double values[4];
		_mm256_storeu_pd(values, sum[i]);
		for (int j = 0; j < 4; j++)
			if (values[j] != i + 100000)
				wrong("a vector register");
	}
	if (old != 2.0L)
		wrong("the x87 stack");
	rounds++;
}

static void sleep_exactly(void)
{
	struct timespec time = {.tv_nsec = 20000000}, start, end;
	clock_gettime(CLOCK_MONOTONIC, &start);
	if (nanosleep(&time, NULL) != 0)
		wrong("nanosleep was interrupted");
	clock_gettime(CLOCK_MONOTONIC, &end);
	if ((end.tv_sec - start.tv_sec) * 1000000000L + end.tv_nsec - start.tv_nsec < 20000000)
		wrong("nanosleep ended early");
	struct pollfd nothing = {.fd = -1};
	if (poll(&nothing, 1, 5) != 0)
		wrong("poll was interrupted");
	if (usleep(1000) != 0)
		wrong("usleep was interrupted");
	rounds++;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	struct sigaction action = {.sa_handler = handle};
	sigaction(SIGALRM, &action, NULL);
	pthread_t threads[8];
	bool copies = strcmp(what, "strdup") == 0;
	size_t many = copies ? 2 : strcmp(what, "threads") == 0 ? 8 : 0;
	printf("begun\n");
	fflush(stdout);
	pthread_t other;
	if (strcmp(what, "setgid") == 0)
		pthread_create(&other, NULL, only_wait, NULL);
	for (size_t i = 0; i < many; i++)
		pthread_create(&threads[i], NULL, copies ? copy_on : allocate_on, (void *)i);
	while (!asked_to_end()) {
		errno = 77;
		if (copies)
			copy_text();
		else if (many || strcmp(what, "malloc") == 0)
			allocate((unsigned)rounds);
		else if (strcmp(what, "setgid") == 0)
			set_group();
		else if (strcmp(what, "dlopen") == 0)
			load();
		else if (strcmp(what, "fork") == 0)
			fork_once();
		else if (strcmp(what, "signals") == 0)
			wait_for_signal();
		else if (strcmp(what, "vector") == 0)
			compute();
		else
			sleep_exactly();
		if (errno != 77 &&
		        (strcmp(what, "vector") == 0 || strcmp(what, "malloc") == 0 || many))
			wrong("errno was changed");
	}
	if (copies)
		wait_for_copies();
	ended = true;
	for (size_t i = 0; i < many; i++)
		pthread_join(threads[i], NULL);
	printf("right after %lu rounds\n", (unsigned long)rounds);
	return 0;
}
