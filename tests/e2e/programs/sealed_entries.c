/*
 * sealed_entries AGENT SETTINGS LIBRARY TIMES OTHER: a program whose agent cannot write into
 * protected import tables: no page may be made writable, and nothing may be written through a file.
 * LIBRARY, which has such a table, is loaded and unloaded again and again; then OTHER, whose table
 * is not protected, takes memory.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifdef LIBRARY
int cudaMallocManaged(void **pointer, size_t size, unsigned flags);
int cudaMallocAsync(void), cudaMallocFromPoolAsync(void), cudaFreeAsync(void),
        cudaMallocPitch(void), cudaMalloc3D(void), cudaMallocArray(void), cudaMalloc3DArray(void),
        cudaFreeArray(void), cudaMallocHost(void), cudaHostAlloc(void), cudaFreeHost(void),
        cudaHostRegister(void), cudaHostUnregister(void), cuMemMap(void), cuMemUnmap(void);

void *take(int all)
{
	void *pointer = NULL;
	if (all)
		return (void *)(uintptr_t)(cudaMallocAsync() + cudaMallocFromPoolAsync() +
		                           cudaFreeAsync() + cudaMallocPitch() + cudaMalloc3D() +
		                           cudaMallocArray() + cudaMalloc3DArray() +
		                           cudaFreeArray() + cudaMallocHost() + cudaHostAlloc() +
		                           cudaFreeHost() + cudaHostRegister() +
		                           cudaHostUnregister() + cuMemMap() + cuMemUnmap());
	cudaMallocManaged(&pointer, 5 << 20, 1);
	return pointer;
}
#else
static int forbid(void)
{
#define IF(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip)
	struct sock_filter filter[] = {
	        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	        IF(SYS_pwrite64, 1),
	        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	        IF(SYS_mprotect, 3),
	        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
	        IF(PROT_READ | PROT_WRITE, 1),
	        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* The agent examines a library when the program next looks something up. */
static void *load(const char *path, void **ret_take)
{
	void *library = dlopen(path, RTLD_NOW);
	*ret_take = library ? dlsym(library, "take") : NULL;
	if (!*ret_take) {
		puts(dlerror());
		exit(1);
	}
	return library;
}

int main(int argc, char **argv)
{
	void *agent = argc == 6 ? dlopen(argv[1], RTLD_NOW) : NULL, *found;
	if (!agent || !(found = dlsym(agent, "gpumem_agent_start")) ||
	        ((int (*)(const char *))found)(argv[2]) || forbid())
		return 1;
	for (int i = 0; i < atoi(argv[4]); i++)
		dlclose(load(argv[3], &found));
	load(argv[5], &found);
	return ((void *(*)(int))found)(0) == NULL;
}
#endif
