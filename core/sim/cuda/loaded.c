/*
 * Programs that bypass the simulated libraries, and the reports about it.
 *
 * If a program opens a library by its SONAME, it gets ours, because ours are loaded already. If it
 * opens one by a path, or by the linker's name (libcuda.so), it would get the real one. So dlopen()
 * is hooked, and the names of the driver, NVML, NCCL and the runtimes of CUDA 12 and 13 lead to
 * ours; the first time this is reported. Libraries that cannot be replaced are reported with their
 * file: a runtime that is linked statically (it asks the driver for tables that are not public),
 * one of another CUDA, a PyTorch without CUDA.
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

typedef void *dlopen_function(const char *, int);
/* The assembly below refers to these. */
const char *gm_sim_dlopen_name(const char *name);
extern __attribute__((visibility("hidden"))) dlopen_function *gm_sim_real_dlopen;
dlopen_function *gm_sim_real_dlopen;

/* The name under which our replacement of a file is loaded; NULL if it has none. */
static const char *ours(const char *name)
{
	if (is_library(name, "libcuda.so"))
		return "libcuda.so.1";
	if (is_library(name, "libnvidia-ml.so"))
		return "libnvidia-ml.so.1";
	if (is_library(name, "libcudart.so.12"))
		return "libcudart.so.12";
	/* NCCL's functions are in the library that has the runtime's name. */
	if (is_library(name, "libcudart.so.13") || is_library(name, "libnccl.so"))
		return "libcudart.so.13";
	return NULL;
}

/*
 * NCCL is opened by its name too (vLLM does), as ours has another one. The real library is loaded
 * nevertheless: PyTorch opens it before its own libraries, which are linked with it. Where there is
 * none, the program's own call fails.
 */
static bool nccl_is_there(const char *name)
{
	return gm_sim_dlopen_real(name, RTLD_LAZY | RTLD_LOCAL) != NULL;
}

void *gm_sim_dlopen_real(const char *name, int flags)
{
	if (!gm_sim_real_dlopen)
		*(void **)&gm_sim_real_dlopen = dlsym(RTLD_NEXT, "dlopen");
	return gm_sim_real_dlopen(name, flags);
}

__attribute__((visibility("hidden"))) const char *gm_sim_dlopen_name(const char *name)
{
	if (!gm_sim_real_dlopen)
		*(void **)&gm_sim_real_dlopen = dlsym(RTLD_NEXT, "dlopen");
	if (!name || !*name)
		return name;
	const char *base = base_of(name);
	/* Fast for all other libraries. */
	bool nccl = is_library(base, "libnccl.so");
	if (!begins(base, "libcud") && !begins(base, "libnvidia-ml.so") && !nccl)
		return name;
	if (nccl && !nccl_is_there(name))
		return name;
	char *real = NULL;
	if (base != name) {
		/* A path without a file fails as usual; the name of a link may lack the version. */
		real = realpath(name, NULL);
		if (!real)
			return name;
		if (!ours(base))
			base = base_of(real);
	}
	const char *instead = ours(base);
	/* Our own library by its path is already the right one (Triton links with it). */
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
 * dlopen() looks at its caller (that object's search path applies), so the hook jumps to it, with
 * the caller's return address in place.
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

/* The object that contains `code`; "?" if none does. */
static const char *object_of(const void *code)
{
	Dl_info info;
	return dladdr(code, &info) && info.dli_fname ? info.dli_fname : "?";
}

bool gm_sim_own_runtime(const void *caller, bool first)
{
	/* One is stored: its later look-ups are not reported again. */
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
	char torch[512]; /* the folder of libtorch_cpu.so; "" */
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
