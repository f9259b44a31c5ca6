/* What of one process, or of a core dump, was recognised. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask/target/doctor_process.h"
#include "ask/context.h"
#include "ask/target/doctor_checks.h"
#include "base/cleanup.h"
#include "image/remote.h"
#include "torch/torch.h"

/* What the commands depend on. Each reason is an error's message, NULL: all is well. */
/* Why PyTorch's objects are not read. */
enum torch_state {
	TORCH_READ,
	TORCH_ABSENT,     /* Python is not read either, and no library of PyTorch is there */
	TORCH_TO_COME,    /* a Python that has not loaded it yet */
	TORCH_UNREADABLE, /* it is there */
};

struct findings {
	char *image, *python; /* why they are not read; owned; NULL: they are */
	enum torch_state torch;
	bool native_allocator, cuda_used;
};

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/* Keeps an error's message as a reason, less the process that it begins with; the error is
 * destroyed. */
static void keep_reason(struct gm_error *error, char **ret_reason)
{
	const char *message = error->message;
	const char *colon = starts_with(message, "process ") ? strstr(message, ": ") : NULL;
	*ret_reason = strdup(colon ? colon + 2 : message);
	gm_error_destroy(error);
}

/* --- /proc ------------------------------------------------------------------------------------ */

static void read_command_line(int pid, char **ret_line)
{
	char path[32], line[4096];
	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	_cleanup_fclose_ FILE *stream = fopen(path, "re");
	size_t length = stream ? fread(line, 1, sizeof(line) - 1, stream) : 0;
	while (length > 0 && line[length - 1] == '\0')
		length--;
	for (size_t i = 0; i < length; i++) {
		if (!isprint((unsigned char)line[i]))
			line[i] = ' ';
	}
	line[length] = '\0';
	*ret_line = strdup(line);
}

/* The process that traces this one; 0: none. */
static int tracer_of(int pid)
{
	char path[32], line[256];
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	_cleanup_fclose_ FILE *stream = fopen(path, "re");
	while (stream && fgets(line, sizeof(line), stream)) {
		if (starts_with(line, "TracerPid:"))
			return atoi(line + strlen("TracerPid:"));
	}
	return 0;
}

static struct gm_error *check_debugger(struct gm_context *context, struct gm_doctor *doctor)
{
	int tracer = tracer_of(context->pid);
	if (tracer == 0)
		return gm_doctor_add(&doctor->process, "debugger", GM_DOCTOR_ABSENT, NULL,
		        "none attached: to record, `gpumem gdb -p %d`", context->pid);
	char path[32], name[64] = "?";
	snprintf(path, sizeof(path), "/proc/%d/comm", tracer);
	_cleanup_fclose_ FILE *stream = fopen(path, "re");
	if (stream && fgets(name, sizeof(name), stream))
		name[strcspn(name, "\n")] = '\0';
	return gm_doctor_add(&doctor->process, "debugger", GM_DOCTOR_OK, NULL, "%s (process %d)%s",
	        name, tracer, context->shell ? ": a second debugger cannot attach" : "");
}

/* --- what the rooms recognise ----------------------------------------------------------------- */

static struct gm_error *check_memory(
        struct gm_context *context, struct gm_doctor *doctor, struct findings *findings)
{
	struct gm_symbols *symbols;
	struct gm_error *error = gm_context_symbols(context, &symbols);
	if (error) {
		keep_reason(error, &findings->image);
		return gm_doctor_add(&doctor->process, "memory", GM_DOCTOR_PROBLEM, NULL, "%s",
		        findings->image ? findings->image : "cannot be read");
	}
	size_t modules, mappings;
	gm_symbols_modules(symbols, &modules);
	gm_image_mappings(context->image, &mappings);
	return gm_doctor_add(&doctor->process, "memory", GM_DOCTOR_OK, NULL,
	        "readable, %zu libraries in %zu mappings", modules, mappings);
}

/* Of a core, which libraries are not here as they were: the first few by name. */
static struct gm_error *check_libraries(struct gm_context *context, struct gm_doctor *doctor)
{
	enum { NAMED = 6 };
	static const char *const whats[] = {[GM_FILE_MISSING] = "not on this disk",
	        [GM_FILE_DIFFERENT] = "another build on this disk",
	        [GM_FILE_UNKNOWN] = "may be another build: the core lacks its first page"};
	_cleanup_free_ struct gm_image_file *files = NULL;
	size_t count = 0, bad = 0;
	gm_try(gm_image_files(context->image, &files, &count));
	_cleanup_free_ char *names = NULL;
	size_t size = 0;
	_cleanup_fclose_ FILE *text = open_memstream(&names, &size);
	for (size_t i = 0; text && i < count; i++) {
		if (files[i].state != GM_FILE_SAME && bad++ < NAMED)
			fprintf(text, "%s%s (%s)", bad > 1 ? ", " : "", files[i].path,
			        whats[files[i].state]);
	}
	if (!text || fflush(text) != 0)
		return &gm_error_no_memory;
	if (bad == 0)
		return gm_doctor_add(&doctor->process, "libraries", GM_DOCTOR_OK, NULL,
		        "%zu files were mapped, all are unchanged on this disk", count);
	return gm_doctor_add(&doctor->process, "libraries", GM_DOCTOR_PROBLEM,
	        "name the folder that contains them with --sysroot DIR",
	        "%zu of %zu mapped files are missing or changed on this disk: %s%s", bad, count,
	        names, bad > NAMED ? ", ..." : "");
}

static struct gm_error *check_python(
        struct gm_context *context, struct gm_doctor *doctor, struct findings *findings)
{
	struct gm_python *python;
	struct gm_error *error = gm_context_python(context, &python);
	if (error) {
		keep_reason(error, &findings->python);
		return gm_doctor_add(&doctor->process, "Python", GM_DOCTOR_PROBLEM, NULL, "%s",
		        findings->python ? findings->python : "not recognised");
	}
	struct gm_python_thread threads[1024];
	size_t count = 0;
	gm_error_destroy(gm_python_threads(python, threads, 1024, &count));
	return gm_doctor_add(&doctor->process, "Python", GM_DOCTOR_OK, NULL,
	        "CPython %s, %zu thread%s, found by %s", gm_python_version(python), count,
	        count == 1 ? "" : "s", gm_python_found_by(python));
}

static struct gm_error *check_torch(
        struct gm_context *context, struct gm_doctor *doctor, struct findings *findings)
{
	/* Without Python's objects it cannot be read, but whether it is there can be told. */
	if (findings->python) {
		bool loaded = gm_symbols_find_module(context->symbols, "libc10.so") != NULL;
		findings->torch = loaded ? TORCH_UNREADABLE : TORCH_ABSENT;
		return gm_doctor_add(&doctor->process, "PyTorch",
		        loaded ? GM_DOCTOR_PROBLEM : GM_DOCTOR_ABSENT, NULL, "%s",
		        loaded ? "loaded, but its objects cannot be read without Python's"
		               : "not loaded");
	}
	struct gm_torch *torch;
	struct gm_error *error = gm_context_torch(context, &torch);
	if (error) {
		_cleanup_free_ char *reason = NULL;
		keep_reason(error, &reason);
		findings->torch = gm_symbols_find_module(context->symbols, "libc10.so")
		                          ? TORCH_UNREADABLE
		                          : TORCH_TO_COME;
		return gm_doctor_add(&doctor->process, "PyTorch", GM_DOCTOR_PROBLEM, NULL, "%s",
		        reason ? reason : "not recognised");
	}
	gm_try(gm_doctor_add(&doctor->process, "PyTorch", GM_DOCTOR_OK, NULL,
	        "%s, object layouts known", gm_torch_version(torch)));
	const char *kind = gm_torch_allocator_kind(torch);
	findings->native_allocator = strcmp(kind, "native") == 0;
	findings->cuda_used = strcmp(kind, "none") != 0;
	if (findings->native_allocator)
		return gm_doctor_add(&doctor->process, "allocator", GM_DOCTOR_OK, NULL,
		        "PyTorch's own caching allocator");
	if (!findings->cuda_used)
		return gm_doctor_add(&doctor->process, "allocator", GM_DOCTOR_ABSENT, NULL,
		        "none yet: no CUDA memory was used");
	return gm_doctor_add(&doctor->process, "allocator", GM_DOCTOR_PROBLEM,
	        "run with PyTorch's own: unset `backend:` in PYTORCH_CUDA_ALLOC_CONF",
	        "%s: blocks of an allocator other than PyTorch's caching one are not read", kind);
}

static struct gm_error *check_cuda(struct gm_context *context, struct gm_doctor *doctor)
{
	struct gm_symbols *symbols;
	gm_try(gm_context_symbols(context, &symbols));
	const struct gm_module *simulated = gm_symbols_find_module(symbols, "libgpumem-sim.so");
	const struct gm_module *runtime = gm_symbols_find_module(symbols, "libcudart.so");
	if (simulated)
		return gm_doctor_add(&doctor->process, "CUDA runtime", GM_DOCTOR_OK, NULL,
		        "simulated: sizes and events are real, values computed by kernels are not");
	if (!runtime)
		return gm_doctor_add(&doctor->process, "CUDA runtime", GM_DOCTOR_ABSENT, NULL,
		        "not loaded: CPU tensors only (record --devices cpu)");
	bool driver = gm_symbols_find_module(symbols, "libcuda.so") != NULL;
	return gm_doctor_add(&doctor->process, "CUDA runtime",
	        driver ? GM_DOCTOR_OK : GM_DOCTOR_ABSENT, NULL, "%s%s", runtime->name,
	        driver ? ", with NVIDIA's driver" : ", no NVIDIA driver loaded: CPU tensors only");
}

/* --- what works ------------------------------------------------------------------------------- */

static const char *why_not_record(
        struct gm_context *context, const struct findings *findings, char *room, size_t size)
{
	if (context->core_path)
		return "a core dump does not run";
	if (context->remote)
		return "only in gdb on the program's own machine";
	if (findings->torch == TORCH_ABSENT)
		return "there is no PyTorch in it";
	/* A torch that is still to come is waited for. */
	if (findings->torch == TORCH_UNREADABLE)
		return "PyTorch's objects cannot be read, see above";
	if (findings->cuda_used && !findings->native_allocator)
		return "the allocator is not PyTorch's caching one (--devices cpu works)";
	if (context->shell && tracer_of(context->pid) == 0) {
		snprintf(room, size, "only in gdb: gpumem gdb -p %d", context->pid);
		return room;
	}
	return NULL;
}

static struct gm_error *tell_commands(
        struct gm_context *context, struct gm_doctor *doctor, const struct findings *findings)
{
	char room[64];
	if (findings->image) {
		const char *reason = context->core_path ? "the core cannot be read, see above"
		                                        : "the process cannot be read";
		gm_try(gm_doctor_command(doctor, "record", reason));
		gm_try(gm_doctor_command(doctor, "who-holds", reason));
	} else {
		gm_try(gm_doctor_command(
		        doctor, "record", why_not_record(context, findings, room, sizeof(room))));
		gm_try(gm_doctor_command(doctor, "who-holds",
		        findings->python  ? "needs Python's objects, see above"
		        : findings->torch ? "needs PyTorch's objects, see above"
		        : !findings->cuda_used || findings->native_allocator
		                ? NULL /* without CUDA, about CPU tensors */
		                : "the allocator is not PyTorch's caching one"));
	}
	return gm_doctor_command(doctor, "info, events, blocks, peak, why (on a recording)",
	        context->log_path || context->shell ? NULL : "nothing recorded yet: gpumem record");
}

static struct gm_error *check_all(
        struct gm_context *context, struct gm_doctor *doctor, struct findings *findings)
{
	gm_try(check_memory(context, doctor, findings));
	if (!context->core_path && !context->remote)
		gm_try(check_debugger(context, doctor));
	if (!findings->image) {
		if (context->core_path)
			gm_try(check_libraries(context, doctor));
		gm_try(check_python(context, doctor, findings));
		gm_try(check_torch(context, doctor, findings));
		gm_try(check_cuda(context, doctor));
	}
	return tell_commands(context, doctor, findings);
}

static struct gm_error *check_exists(int pid)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (access(path, F_OK) == 0)
		return NULL;
	return gm_error_create(
	        GM_TARGET, "process %d: no such process: give the id of a running process", pid);
}

struct gm_error *gm_doctor_process(struct gm_context *context, struct gm_doctor *doctor)
{
	if (context->core_path) {
		struct gm_image *image;
		if (!(doctor->core = strdup(context->core_path)))
			return &gm_error_no_memory;
		gm_try(gm_context_image(context, &image));
	} else if (context->remote) {
		struct gm_image *image;
		doctor->pid = context->remote->main_thread;
		if (!(doctor->command = strdup("read through the debugger")))
			return &gm_error_no_memory;
		gm_try(gm_context_image(context, &image));
	} else {
		gm_try(check_exists(context->pid));
		read_command_line(context->pid, &doctor->command);
	}
	struct findings findings = {0};
	struct gm_error *error = check_all(context, doctor, &findings);
	free(findings.image);
	free(findings.python);
	return error;
}
