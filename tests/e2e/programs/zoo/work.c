/* What the program does all the time. Each result is checked. */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "zoo.h"

enum { THREADS = 3, SMALL = 16384, ROUNDS = 20000 };

static uint64_t expected;
static atomic_bool begun, ended;
static atomic_int idle;
static pthread_t threads[THREADS];
static pthread_t first;
static size_t thread_count;
static int raw_threads;
static void (*once)(void);
static void (*finish)(void);
static unsigned milliseconds;

/* Many registers at once, and vectors. */
uint64_t sum_of(unsigned rounds)
{
	uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8;
	double x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	long double old = 1;
	for (unsigned i = 0; i < rounds; i++) {
		a = a * 6364136223846793005u + b;
		b = (b ^ a >> 7) + c;
		c = c * 3 + d;
		d = (d << 5 | d >> 59) ^ e;
		e += f * 7;
		f ^= g + i;
		g = g * 5 + h;
		h = (h >> 3 | h << 61) + a;
		for (int j = 0; j < 8; j++)
			x[j] = x[j] * 0.999 + (double)j;
		old = old * 0.5L + 1.0L;
	}
	for (int j = 0; j < 8; j++) {
		uint64_t bits;
		memcpy(&bits, &x[j], sizeof(bits));
		a ^= bits;
	}
	return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ (uint64_t)(old * 1000);
}

static void compute(void)
{
	if (sum_of(ROUNDS) != expected)
		wrong("a sum");
}

static void *compute_on(void *argument)
{
	while (!ended)
		compute();
	return argument;
}

static void start_threads(size_t stack)
{
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	if (stack)
		pthread_attr_setstacksize(&attributes, stack);
	for (; thread_count < THREADS; thread_count++)
		if (pthread_create(&threads[thread_count], &attributes, compute_on, NULL))
			wrong("pthread_create");
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void sleep_exactly(void)
{
	struct timespec time = {.tv_nsec = 5000000}, start, end;
	clock_gettime(CLOCK_MONOTONIC, &start);
	if (nanosleep(&time, NULL) != 0)
		wrong("a sleep was interrupted");
	clock_gettime(CLOCK_MONOTONIC, &end);
	if ((end.tv_sec - start.tv_sec) * 1000000000L + end.tv_nsec - start.tv_nsec < 5000000)
		wrong("a sleep ended early");
}

/* Its input ends it: until then it is in one system call. */
static void wait_for_input(void)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};
	if (poll(&input, 1, -1) != 1)
		wrong("a wait was interrupted (%d)", errno);
}

/* ---- processes and threads that come and go -------------------------------------------------- */

static void spawn(bool by_vfork)
{
	pid_t child = by_vfork ? vfork() : fork();
	if (child == 0)
		_exit(7);
	int status;
	if (child < 0 || waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7)
		wrong("a child");
}

static void vfork_once(void)
{
	spawn(true);
}

static void fork_once(void)
{
	spawn(false);
}

/* A thread that has no more to do: the program's end ends it. */
static void stay(void)
{
	idle++;
	for (;;)
		poll(NULL, 0, -1);
}

static void *end_at_once(void *argument)
{
	return argument;
}

static void *make_threads(void *argument)
{
	while (!ended) {
		pthread_t thread;
		void *result;
		if (pthread_create(&thread, NULL, end_at_once, &ended) ||
		        pthread_join(thread, &result) || result != &ended)
			wrong("a thread");
	}
	stay();
	return argument;
}

static void load_once(void)
{
	void *library = dlopen("libutil.so.1", RTLD_NOW);
	if (library)
		dlclose(library);
}

static void allocate(void)
{
	static unsigned char *blocks[64];
	for (unsigned i = 0; i < 2000; i++) {
		unsigned at = i * 7 & 63;
		if (blocks[at] && *blocks[at] != (unsigned char)at)
			wrong("a block");
		free(blocks[at]);
		blocks[at] = malloc(1 + i * 37 % 4000);
		*blocks[at] = (unsigned char)at;
	}
}

/* ---- signals --------------------------------------------------------------------------------- */

static volatile unsigned long ticks, next, sent, faults;

static void tick(int number)
{
	(void)number;
	ticks++;
}

static void tick_long(int number)
{
	ticks++;
	compute();
}

static void number_came(int number, siginfo_t *about, void *context)
{
	(void)number;
	(void)context;
	if ((unsigned long)about->si_value.sival_int != next)
		wrong("a queued signal came at another's place");
	next++;
}

static void *send_signals(void *argument)
{
	const struct timespec pause = {.tv_nsec = 200000};
	while (!ended) {
		pthread_kill(first, SIGUSR1);
		if (!pthread_sigqueue(first, SIGRTMIN + 1, (union sigval){.sival_int = (int)sent}))
			sent++;
		nanosleep(&pause, NULL);
	}
	stay();
	return argument;
}

static void end_timer(long microseconds)
{
	const struct itimerval none = {{0}};
	struct itimerval had;
	setitimer(ITIMER_REAL, &none, &had);
	if (had.it_interval.tv_usec != microseconds)
		wrong("a timer");
}

static void end_of_storm(void)
{
	end_timer(700);
	ended = true;
	while (!idle || next != sent)
		sched_yield();
}

static void begin_storm(void)
{
	const struct itimerval often = {{0, 700}, {0, 700}};
	struct sigaction action = {
	        .sa_sigaction = number_came, .sa_flags = SA_SIGINFO | SA_RESTART};
	handle(SIGALRM, tick);
	handle(SIGUSR1, tick);
	sigaction(SIGRTMIN + 1, &action, NULL);
	first = pthread_self();
	finish = end_of_storm;
	pthread_create(&threads[thread_count++], NULL, send_signals, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
}

static void end_of_timer(void)
{
	end_timer(2000);
	if (ticks == 0)
		wrong("no signal came");
}

static void on_other_stack(void)
{
	static _Alignas(16) char memory[32768];
	const struct itimerval often = {{0, 2000}, {0, 2000}};
	stack_t stack = {.ss_sp = memory, .ss_size = sizeof(memory)};
	struct sigaction action = {.sa_handler = tick_long, .sa_flags = SA_ONSTACK | SA_RESTART};
	sigaltstack(&stack, NULL);
	sigaction(SIGALRM, &action, NULL);
	finish = end_of_timer;
	setitimer(ITIMER_REAL, &often, NULL);
}

/* ud2, int3 and a read of address 1, over and over. */
static void skip_fault(int number, siginfo_t *about, void *context)
{
	ucontext_t *state = context;
	faults++;
	if (number != SIGTRAP)
		state->uc_mcontext.gregs[REG_RIP] += 2;
	if (number == SIGSEGV && about->si_addr != (void *)1)
		wrong("another fault");
}

static void fault(void)
{
	unsigned long had = faults;
	__asm__ volatile("ud2\n\tint3\n\tmovl $1, %%eax\n\tmov (%%rax), %%eax" ::: "rax", "memory");
	if (faults != had + 3)
		wrong("a handler was not reached");
}

static void begin_faults(void)
{
	static const int numbers[] = {SIGILL, SIGTRAP, SIGSEGV};
	struct sigaction action = {.sa_sigaction = skip_fault, .sa_flags = SA_SIGINFO};
	for (size_t i = 0; i < 3; i++)
		sigaction(numbers[i], &action, NULL);
}

/* ---- threads that are no usual ones ---------------------------------------------------------- */

static int turn(void *argument)
{
	/* no base for the C library: registers only */
	syscall(SYS_arch_prctl, 0x1002 /* ARCH_SET_FS */, 0);
	for (volatile atomic_bool *stop = argument; !*stop;)
		__builtin_ia32_pause();
	__asm__ volatile("syscall" ::"a"(SYS_exit), "D"(0) : "rcx", "r11", "memory");
	return 0;
}

static void begin_raw_thread(void)
{
	char *stack = mmap(NULL, SMALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const int flags =
	        CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
	if (clone(turn, stack + SMALL, flags, &ended) < 0)
		wrong("clone");
	raw_threads = 1;
}

static void begin_small_threads(void)
{
	start_threads(SMALL);
}

static void begin_threads(void)
{
	start_threads(0);
}

static void end_of_storm_of_threads(void)
{
	ended = true;
	while (idle != 2)
		sched_yield();
}

static void begin_storm_of_threads(void)
{
	finish = end_of_storm_of_threads;
	for (; thread_count < 2; thread_count++)
		pthread_create(&threads[thread_count], NULL, make_threads, NULL);
}

/* ---- programs that end or become others ------------------------------------------------------ */

static void *end_later(void *argument)
{
	const struct timespec soon = {.tv_nsec = (long)milliseconds * 1000000};
	while (!begun)
		sched_yield();
	nanosleep(&soon, NULL);
	if (argument)
		execl("/proc/thread-self/exe", "zoo", "work=sleep", "quiet=1", NULL);
	_exit(argument ? 126 : 0);
}

static void begin_end(void)
{
	pthread_create(&threads[thread_count++], NULL, end_later, NULL);
}

static void begin_exec(void)
{
	pthread_create(&threads[thread_count++], NULL, end_later, &ended);
}

static const struct {
	const char *name;
	void (*begin)(void), (*once)(void);
} works[] = {
        {"sleep", NULL, sleep_exactly},
        {"spin", NULL, compute},
        {"input", NULL, wait_for_input},
        {"malloc", NULL, allocate},
        {"dlopen", NULL, load_once},
        {"vfork", NULL, vfork_once},
        {"fork", NULL, fork_once},
        {"threads", begin_threads, compute},
        {"small", begin_small_threads, wait_for_input},
        {"comeandgo", begin_storm_of_threads, compute},
        {"signals", begin_storm, compute},
        {"altstack", on_other_stack, compute},
        {"faults", begin_faults, fault},
        {"raw", begin_raw_thread, compute},
        {"dies", begin_end, compute},
        {"execs", begin_exec, compute},
};

bool work_begin(const char *name, unsigned seed)
{
	expected = sum_of(ROUNDS);
	milliseconds = seed % 200;
	for (size_t i = 0; i < sizeof(works) / sizeof(*works); i++) {
		if (strcmp(works[i].name, name) != 0)
			continue;
		once = works[i].once;
		if (works[i].begin)
			works[i].begin();
		return true;
	}
	return false;
}

void work_once(void)
{
	begun = true;
	once();
}

int work_threads(void)
{
	return (int)thread_count + raw_threads;
}

void work_end(void)
{
	if (finish)
		finish();
	compute();
}
