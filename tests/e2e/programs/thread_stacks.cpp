// Threads that keep a tensor's address in a known frame of a known stack, and stand there: for thread_stacks.py. The address
// itself is in no other word: elsewhere each of its bits is turned.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>

namespace holder {

// Where the thread stands: on its stack, on a fiber's stack, or on a handler's; with the last two its own stack keeps the address.
// IN_A_REGISTER: a function keeps the address in a register, which the functions that it calls may save.
enum Where { ITS_STACK, A_FIBER, LEFT_FOR_A_FIBER, LEFT_FOR_A_HANDLER, IN_A_REGISTER };

struct Beginning {
	volatile uint64_t turned;
	volatile long thread;
	int depth;
	bool ends;
	Where where;
	bool from_heap;
	uint64_t last; // or what lay in its piece of the heap before would be behind it
};

__attribute__((noinline)) void descend(int depth)
{
	volatile uint64_t words[100] = {};
	if (depth > 0)
		descend(depth - 1);
	else
		for (;;)
			sleep(words[0] ? 1 : 1000);
	words[1] = 1;
}

void handle(int) { descend(0); }

void stand_in_fiber(int low, int high)
{
	volatile uint64_t words[4] = {1, 2, static_cast<uint32_t>(low) | static_cast<uint64_t>(high) << 32, 4};
	words[2] = ~words[2];
	descend(words[0] ? 1 : 2);
}

__attribute__((noinline)) void leave(const Beginning *from)
{
	const size_t size = 256 << 10;
	static thread_local ucontext_t here, there;
	uint64_t turned = from->where == A_FIBER ? from->turned : 0;
	void *memory = from->from_heap ? malloc(size)
	                               : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (from->where == LEFT_FOR_A_HANDLER) {
		stack_t other = {memory, 0, size};
		struct sigaction action = {};
		action.sa_handler = handle;
		action.sa_flags = SA_ONSTACK;
		sigaction(SIGUSR2, &action, nullptr);
		sigaltstack(&other, nullptr);
		pthread_kill(pthread_self(), SIGUSR2);
	}
	getcontext(&there);
	there.uc_stack.ss_sp = memory;
	there.uc_stack.ss_size = size;
	makecontext(&there, reinterpret_cast<void (*)()>(stand_in_fiber), 2, static_cast<int>(turned), static_cast<int>(turned >> 32));
	swapcontext(&here, &there);
}

__attribute__((noinline)) void keep_in_register(const Beginning *from)
{
	uint64_t kept = ~from->turned;
	int depth = from->depth;
	asm volatile("" : "+r"(kept) : : "memory");
	descend(depth);
	asm volatile("" : : "r"(kept) : "memory");
}

__attribute__((noinline)) void *stand_on(Beginning *from)
{
	volatile uint64_t words[4] = {1, 2, from->turned, 4};
	if (from->where != A_FIBER && from->where != IN_A_REGISTER)
		words[2] = ~words[2];
	from->thread = syscall(SYS_gettid);
	if (from->where == IN_A_REGISTER)
		keep_in_register(from);
	else if (from->where != ITS_STACK)
		leave(from);
	else if (!from->ends)
		descend(from->depth);
	return reinterpret_cast<void *>(words[0]);
}

}  // namespace holder

using namespace holder;

/* Starts a thread on `stack` (NULL: on one that the C library chooses, with that guard area), and waits until it has begun; with
 * `ends`, until it has ended. Its id; -1: the C library refused. */
extern "C" long start_thread_on(uint64_t *tensor, void *stack, size_t size, size_t guard, int depth, int ends, int where, int from_heap)
{
	pthread_attr_t attributes;
	pthread_t thread;
	Beginning *from = new Beginning{~reinterpret_cast<uint64_t>(tensor), 0, depth, ends != 0, static_cast<Where>(where), from_heap != 0, 0};
	pthread_attr_init(&attributes);
	if (stack)
		pthread_attr_setstack(&attributes, stack, size);
	else {
		pthread_attr_setstacksize(&attributes, size);
		pthread_attr_setguardsize(&attributes, guard);
	}
	if (!ends)
		__atomic_add_fetch(&tensor[1], 1, __ATOMIC_SEQ_CST);
	if (pthread_create(&thread, &attributes, reinterpret_cast<void *(*)(void *)>(stand_on), from))
		return -1;
	while (!from->thread)
		usleep(100);
	if (ends)
		pthread_join(thread, nullptr);
	return from->thread;
}
