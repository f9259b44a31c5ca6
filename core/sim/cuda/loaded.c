/*
 * Programs that go past what is put in front of them, and what is said of it.
 *
 * A library that a program opens by its SONAME is ours, since ours are loaded already. One that it
 * opens by a path, or by the linker's name (libcuda.so), would be the real one: dlopen() is
 * therefore looked at, and the names of the driver, NVML and the runtimes of CUDA 12 and 13 lead to
 * ours, which is said once. What cannot be stood in for is told with its file: a runtime that is
 * linked in statically (it asks the driver for tables that are not public), one of another CUDA, a
 * PyTorch that has no CUDA.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cuda/sim.h"

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static bool begins(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/* True for `start` alone or with a version after it: libcuda.so, libcuda.so.1,
 * libcuda.so.580.65.06. */
static bool is_library(const char *name, const char *start)
{
	size_t length = strlen(start);
	return begins(name, start) && (!name[length] || name[length] == '.');
}

/* The name under which ours is loaded, for a file that is stood in for; NULL: not such a one. */
static const char *ours(const char *name)
{
	if (is_library(name, "libcuda.so"))
		return "libcuda.so.1";
	if (is_library(name, "libnvidia-ml.so"))
		return "libnvidia-ml.so.1";
	if (is_library(name, "libcudart.so.12"))
		return "libcudart.so.12";
	if (is_library(name, "libcudart.so.13"))
		return "libcudart.so.13";
	return NULL;
}

typedef void *dlopen_function(const char *, int);
/* For the assembler below. */
dlopen_function *gm_sim_real_dlopen;
const char *gm_sim_dlopen_name(const char *name);

__attribute__((visibility("hidden"))) dlopen_function *gm_sim_real_dlopen;

__attribute__((visibility("hidden"))) const char *gm_sim_dlopen_name(const char *name)
{
	if (!gm_sim_real_dlopen)
		*(void **)&gm_sim_real_dlopen = dlsym(RTLD_NEXT, "dlopen");
	if (!name || !*name)
		return name;
	const char *base = base_of(name);
	/* Cheap for all other libraries. */
	if (!begins(base, "libcud") && !begins(base, "libnvidia-ml.so"))
		return name;
	char *real = NULL;
	if (base != name) {
		/* A path where nothing is fails as it would; a link's name may lack the version. */
		real = realpath(name, NULL);
		if (!real)
			return name;
		if (!ours(base))
			base = base_of(real);
	}
	const char *instead = ours(base);
	/* Ours by its path is already what it should be (Triton links with it). */
	if (instead && real && !begins(base_of(real), "libgpumem-sim")) {
		static _Atomic bool said;
		if (!atomic_exchange(&said, true))
			gm_sim_say("%s: opened by its path: the simulated device answers in its "
			           "place",
			        name);
	}
	free(real);
	return instead ? instead : name;
}

/*
 * dlopen() looks at who calls it (that object's search path holds), so the call continues as a
 * jump, with the caller's return address in its place.
 */
void *dlopen(const char *name, int flags);

GM_SIM_EXPORT __attribute__((naked)) void *dlopen(const char *name, int flags)
{
	__asm__("pushq %rdi\n\t"
	        "pushq %rsi\n\t"
	        "subq $8, %rsp\n\t"
	        "call gm_sim_dlopen_name\n\t"
	        "addq $8, %rsp\n\t"
	        "popq %rsi\n\t"
	        "popq %rdi\n\t"
	        "movq %rax, %rdi\n\t"
	        "jmp *gm_sim_real_dlopen(%rip)");
}

/* The object that holds `code`; "?" where none does. */
static const char *object_of(const void *code)
{
	Dl_info info;
	return dladdr(code, &info) && info.dli_fname ? info.dli_fname : "?";
}

bool gm_sim_own_runtime(const void *caller, bool first)
{
	/* One is remembered: what it asks for next is told no more. */
	static const char *_Atomic found;
	const char *known = found, *object = known || first ? object_of(caller) : NULL;
	if (!first || known == object)
		return object && known == object;
	found = object;
	const char *base = base_of(object);
	GM_SIM_COUNT(gpumem_sim_account.not_simulated, 1);
	if (begins(base, "libcudart.so"))
		gm_sim_say(
		        "%s: this CUDA runtime is not simulated: its calls fail: the runtimes of "
		        "CUDA 12 and 13 are",
		        object);
	else
		gm_sim_say("%s: the CUDA runtime is linked into it statically, which cannot be "
		           "simulated: its calls fail: link it with the shared one (nvcc -cudart "
		           "shared)",
		        object);
	return true;
}

/* --- PyTorch without CUDA --------------------------------------------------------------------- */

struct seen {
	char torch[512]; /* where libtorch_cpu.so lies; "" */
	bool cuda;
};

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
	struct seen *seen = data;
	const char *name = base_of(info->dlpi_name);
	if (strcmp(name, "libtorch_cpu.so") == 0)
		snprintf(seen->torch, sizeof(seen->torch), "%.*s",
		        (int)(name > info->dlpi_name ? name - info->dlpi_name - 1 : 0),
		        info->dlpi_name);
	seen->cuda |= strcmp(name, "libc10_cuda.so") == 0;
	return 0;
}

void gm_sim_say_no_cuda(void)
{
	const char *profile = getenv("GPUMEM_SIM");
	struct seen seen = {.torch = ""};
	if (!profile || !*profile)
		return;
	dl_iterate_phdr(look, &seen);
	if (seen.torch[0] && !seen.cuda && gm_sim_share_first())
		gm_sim_say(
		        "%s: this PyTorch is built without CUDA, so nothing ran on the simulated "
		        "device: install one with CUDA (on x86-64 Linux: pip install torch)",
		        seen.torch);
}
