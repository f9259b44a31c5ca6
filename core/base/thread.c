#include "base/thread.h"

#include <signal.h>

int gm_thread_create(pthread_t *ret_thread, void *(*run)(void *context), void *context)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS};
	sigset_t others, before;
	sigfillset(&others);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&others, own[i]);
	pthread_sigmask(SIG_BLOCK, &others, &before);
	int error = pthread_create(ret_thread, NULL, run, context);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}
