/*
 * Preloaded into gpumem: the machine has as many processors as GPUMEM_TEST_PROCESSORS says, so that
 * as many threads read.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

long sysconf(int name)
{
	static long (*real)(int);
	const char *told = getenv("GPUMEM_TEST_PROCESSORS");
	if (told && (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF))
		return atol(told);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "sysconf");
	return real ? real(name) : -1;
}
