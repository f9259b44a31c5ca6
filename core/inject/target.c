/* The target process: what it is, whether the agent can be loaded into it, and the addresses of the
 * functions for that. */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "inject/internal.h"

/* The number after "NAME:" in /proc/PID/status, or the letter if it is not a number. */
static long status_field(pid_t pid, const char *name)
{
	char path[64], line[256];
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	size_t length = strlen(name);
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, length) != 0 || line[length] != ':')
			continue;
		const char *value = line + length + 1 + strspn(line + length + 1, "\t ");
		return value[0] >= '0' && value[0] <= '9' ? strtol(value, NULL, 10) : value[0];
	}
	return 0;
}

struct gm_error *gm_inject_check_runs(pid_t pid)
{
	long state = status_field(pid, "State");
	if (state == 'T')
		return gm_error_create(GM_TARGET,
		        "process %d: it is stopped (SIGSTOP or Ctrl-Z), and the agent starts and "
		        "ends a recording only while it runs: `kill -CONT %d` first",
		        pid, pid);
	if (state == 't')
		return gm_error_create(GM_TARGET,
		        "process %d: process %ld has stopped it, probably a debugger: type `gpumem "
		        "record` in that debugger, or detach it",
		        pid, status_field(pid, "TracerPid"));
	return gm_inject_frozen_check(pid);
}

static struct gm_error *check_program(pid_t pid)
{
	char path[64];
	unsigned char ident[EI_NIDENT] = {0};
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, ident, sizeof(ident)) == sizeof(ident) &&
	        ident[EI_CLASS] == ELFCLASS32)
		return gm_error_create(GM_TARGET,
		        "process %d: it is a 32-bit program, and the agent is for 64-bit programs: "
		        "CUDA does not support it either",
		        pid);
	if (status_field(pid, "Seccomp") == 1)
		return gm_error_create(GM_TARGET,
		        "process %d: seccomp's strict mode would kill it at the agent's first "
		        "system call: start it "
		        "with `gpumem run`",
		        pid);
	return gm_inject_check_runs(pid);
}

struct gm_error *gm_inject_check(struct gm_image *image, struct gm_symbols *symbols)
{
	pid_t pid = gm_image_pid(image);
	gm_try(check_program(pid));
	size_t count;
	const struct gm_module *modules = gm_symbols_modules(symbols, &count);
	for (size_t i = 0; i < count; i++)
		if (strncmp(modules[i].name, "ld-musl", 7) == 0 ||
		        strncmp(modules[i].name, "libc.musl", 9) == 0 ||
		        strcmp(modules[i].name, "libc.so") == 0) /* Debian's musl */
			return gm_error_create(GM_TARGET,
			        "process %d: its C library is musl, and the agent needs glibc "
			        "(PyTorch does, too): run "
			        "it on a system with glibc",
			        pid);
	if (!gm_symbols_find_module(symbols, "libc.so.6") &&
	        !gm_symbols_find_module(symbols, "libc-2."))
		return gm_error_create(GM_TARGET,
		        "process %d: it has no C library that could load the agent: it is "
		        "statically linked, or has only just started: use a dynamically linked "
		        "program, or try again",
		        pid);
	return NULL;
}

static const struct gm_module *agent_module(struct gm_symbols *symbols)
{
	size_t count;
	const struct gm_module *modules = gm_symbols_modules(symbols, &count);
	for (size_t i = 0; i < count; i++)
		if (strstr(modules[i].name, "libgpumem-agent.so"))
			return &modules[i];
	return NULL;
}

bool gm_inject_agent_there(struct gm_symbols *symbols)
{
	return agent_module(symbols) != NULL;
}

uint64_t gm_inject_variable(struct gm_symbols *symbols, const char *name)
{
	uint64_t address = 0, size;
	const struct gm_module *agent = agent_module(symbols);
	return agent && gm_symbols_lookup(symbols, agent, name, &address, &size) ? address : 0;
}

static uint64_t look_up(struct gm_symbols *symbols, const char *prefix, const char *name)
{
	uint64_t address = 0, size;
	const struct gm_module *module = gm_symbols_find_module(symbols, prefix);
	return module && gm_symbols_lookup(symbols, module, name, &address, &size) ? address : 0;
}

/* Since glibc 2.34 everything is in libc.so.6; before, it was in separate libraries. */
static uint64_t look_up_libc(struct gm_symbols *symbols, const char *name)
{
	static const char *const files[] = {
	        "libc.so.6", "libpthread", "libdl.so.2", "libdl-2.", "libc-2."};
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		uint64_t address = look_up(symbols, files[i], name);
		if (address)
			return address;
	}
	return 0;
}

uint64_t gm_inject_function(struct gm_symbols *symbols, const char *name)
{
	uint64_t address = gm_inject_variable(symbols, name);
	if (!address)
		address = look_up_libc(symbols, name);
	return address ? address : look_up(symbols, "ld-linux-x86-64.so", name);
}

/* __rseq_size of ld.so, since glibc 2.35: 0 if the kernel, a filter or a setting prevented it for
 * the first thread. */
static bool has_rseq(struct gm_image *image, struct gm_symbols *symbols)
{
	uint64_t address = look_up(symbols, "ld-linux-x86-64.so", "__rseq_size");
	uint32_t size = 1;
	if (address)
		gm_error_destroy(gm_image_read(image, address, &size, sizeof(size)));
	return address && size > 0;
}

/* Where the C library's code has these bytes; 0: nowhere. */
static uint64_t find_code(
        struct gm_image *image, struct gm_symbols *symbols, const void *code, size_t size)
{
	const struct gm_module *libc = gm_symbols_find_module(symbols, "libc.so.6");
	if (!libc)
		libc = gm_symbols_find_module(symbols, "libc-2.");
	size_t count;
	const struct gm_mapping *mappings = gm_image_mappings(image, &count);
	uint8_t bytes[65536];
	for (size_t i = 0; libc && i < count; i++) {
		if (mappings[i].start < libc->start || mappings[i].end > libc->end ||
		        !(mappings[i].flags & GM_MAPPING_EXEC))
			continue;
		/* pieces that overlap */
		for (uint64_t at = mappings[i].start; at < mappings[i].end;
		        at += sizeof(bytes) - size + 1) {
			size_t got = gm_image_read_some(image, at, bytes, sizeof(bytes));
			const uint8_t *found = got ? memmem(bytes, got, code, size) : NULL;
			if (found)
				return at + (uint64_t)(found - bytes);
		}
	}
	return 0;
}

/* `syscall`; `ret` as in getpid(); and the end of signal handlers (__restore_rt): mov $15, %rax;
 * syscall. */
static void find_syscall(
        struct gm_image *image, struct gm_symbols *symbols, struct gm_inject_functions *functions)
{
	static const uint8_t call[] = {0x0f, 0x05, 0xc3},
	                     restore[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	functions->syscall = find_code(image, symbols, call, sizeof(call));
	if (functions->syscall)
		functions->restore = find_code(image, symbols, restore, sizeof(restore));
	else /* any will do */
		functions->syscall = find_code(image, symbols, call, 2);
}

struct gm_error *gm_inject_find_functions(struct gm_image *image, struct gm_symbols *symbols,
        struct gm_inject_functions *ret_functions)
{
	struct gm_inject_functions functions = {
	        .pthread_create = look_up_libc(symbols, "pthread_create"),
	        .pthread_detach = look_up_libc(symbols, "pthread_detach"),
	        .dlopen = look_up_libc(symbols, "dlopen"),
	        .dlsym = look_up_libc(symbols, "dlsym"),
	        .dlerror = look_up_libc(symbols, "dlerror"),
	        .errno_location = look_up_libc(symbols, "__errno_location"),
	        .has_rseq = has_rseq(image, symbols),
	};
	find_syscall(image, symbols, &functions);
	if (!functions.pthread_create || !functions.pthread_detach || !functions.dlopen ||
	        !functions.dlsym || !functions.dlerror || !functions.errno_location ||
	        !functions.syscall)
		return gm_error_create(GM_TARGET,
		        "process %d: its C library has no pthread_create() or dlopen() loaded "
		        "(glibc before 2.34), or "
		        "its file cannot be read: start it with `gpumem run`",
		        gm_image_pid(image));
	const struct gm_module *agent = agent_module(symbols);
	uint64_t size;
	if (agent) {
		if (!gm_symbols_lookup(
		            symbols, agent, "gpumem_agent_start", &functions.agent_start, &size) ||
		        !gm_symbols_lookup(
		                symbols, agent, "gpumem_agent_stop", &functions.agent_stop, &size))
			return gm_error_create(GM_TARGET,
			        "process %d: this gpumem does not know the agent %s in it: start "
			        "the program again with this version",
			        gm_image_pid(image), agent->path);
		gm_symbols_lookup(
		        symbols, agent, "gpumem_agent_mapping", &functions.mapping, &size);
	}
	*ret_functions = functions;
	return NULL;
}
