/* What was recognized of one process or core dump. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask/target/doctor_process.h"
#include "ask/context.h"
#include "ask/target/command_line.h"
#include "ask/target/doctor_checks.h"
#include "ask/target/recording.h"
#include "base/cleanup.h"
#include "image/remote.h"
#include "torch/torch.h"

enum { COMMAND_MAX = 4096 };

/* What the commands depend on. Each reason is an error's message; NULL: no problem. */
/* Why PyTorch's objects cannot be read. */
enum torch_state {
	TORCH_READ,
	TORCH_ABSENT,     /* Python cannot be read either, and no library of PyTorch is loaded */
	TORCH_TO_COME,    /* a Python that has not loaded it yet */
	TORCH_UNREADABLE, /* it is there */
};

struct findings {
	char *image, *python; /* why they cannot be read; owned; NULL: they can */
	enum torch_state torch;
	bool native_allocator, cuda_used;
};

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/* Stores an error's message as a reason, without the process at its beginning, and destroys the
 * error. */
static void keep_reason(struct gm_error *error, char **ret_reason)
{
	const char *message = error->message;
	const char *colon = starts_with(message, "process ") ? strstr(message, ": ") : NULL;
	*ret_reason = strdup(colon ? colon + 2 : message);
	gm_error_destroy(error);
}

/* --- /proc ------------------------------------------------------------------------------------ */

/* The process that traces this one; 0 if none. */
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
		return gm_doctor_add(&doctor->process, "debugger", GM_DOCTOR_ABSENT,
		        (struct gm_doctor_fact){
		                GM_FOUND_NO_DEBUGGER, .number = (uint64_t)context->pid});
	char path[32], name[64] = "?";
	snprintf(path, sizeof(path), "/proc/%d/comm", tracer);
	_cleanup_fclose_ FILE *stream = fopen(path, "re");
	if (stream && fgets(name, sizeof(name), stream))
		name[strcspn(name, "\n")] = '\0';
	return gm_doctor_add(&doctor->process, "debugger", GM_DOCTOR_OK,
	        (struct gm_doctor_fact){GM_FOUND_DEBUGGER, .text = name, .number = (uint64_t)tracer,
	                .other = context->shell});
}

/* --- what was recognized ---------------------------------------------------------------------- */

static struct gm_error *check_memory(
        struct gm_context *context, struct gm_doctor *doctor, struct findings *findings)
{
	struct gm_symbols *symbols;
	struct gm_error *error = gm_context_symbols(context, &symbols);
	if (error) {
		keep_reason(error, &findings->image);
		return gm_doctor_add(&doctor->process, "memory", GM_DOCTOR_PROBLEM,
		        (struct gm_doctor_fact){GM_FOUND_NO_MEMORY, .text = findings->image});
	}
	size_t modules, mappings;
	gm_symbols_modules(symbols, &modules);
	gm_image_mappings(context->image, &mappings);
	return gm_doctor_add(&doctor->process, "memory", GM_DOCTOR_OK,
	        (struct gm_doctor_fact){GM_FOUND_MEMORY, .number = modules, .other = mappings});
}

/* For a core: which libraries are missing or different on this machine; the first few by name. */
static struct gm_error *check_libraries(struct gm_context *context, struct gm_doctor *doctor)
{
	enum { NAMED = 6 };
	_cleanup_free_ struct gm_image_file *files = NULL;
	size_t count = 0, bad = 0;
	gm_try(gm_image_files(context->image, &files, &count));
	/* the recording that it was writing has grown, or was packed since: it is no library */
	size_t kept = 0;
	for (size_t i = 0; i < count; i++)
		if (files[i].state == GM_FILE_SAME ||
		        !gm_recording_is_mapped_from(context->image, files[i].path))
			files[kept++] = files[i];
	count = kept;
	for (size_t i = 0; i < count; i++)
		bad += files[i].state != GM_FILE_SAME;
	if (bad == 0)
		return gm_doctor_add(&doctor->process, "libraries", GM_DOCTOR_OK,
		        (struct gm_doctor_fact){GM_FOUND_LIBRARIES, .number = count});
	gm_try(gm_doctor_add(&doctor->process, "libraries", GM_DOCTOR_PROBLEM,
	        (struct gm_doctor_fact){
	                GM_FOUND_LIBRARIES_CHANGED, .number = bad, .other = count}));
	struct gm_doctor_check *check = &doctor->process.items[doctor->process.count - 1];
	check->files = calloc(NAMED, sizeof(*check->files));
	if (!check->files)
		return &gm_error_no_memory;
	for (size_t i = 0; i < count && check->file_count < NAMED; i++) {
		struct gm_doctor_file *file = &check->files[check->file_count];
		if (files[i].state == GM_FILE_SAME)
			continue;
		*file = (struct gm_doctor_file){strdup(files[i].path), files[i].state};
		if (!file->path)
			return &gm_error_no_memory;
		check->file_count++;
	}
	return NULL;
}

static struct gm_error *check_python(
        struct gm_context *context, struct gm_doctor *doctor, struct findings *findings)
{
	struct gm_python *python;
	struct gm_error *error = gm_context_python(context, &python);
	if (error) {
		keep_reason(error, &findings->python);
		return gm_doctor_add(&doctor->process, "Python", GM_DOCTOR_PROBLEM,
		        (struct gm_doctor_fact){GM_FOUND_NO_PYTHON, .text = findings->python});
	}
	struct gm_python_thread threads[1024];
	size_t count = 0;
	gm_error_destroy(gm_python_threads(python, threads, 1024, &count));
	return gm_doctor_add(&doctor->process, "Python", GM_DOCTOR_OK,
	        (struct gm_doctor_fact){GM_FOUND_PYTHON, .text = gm_python_version(python),
	                .of = gm_python_found_by(python), .number = count});
}

static struct gm_error *check_torch(
        struct gm_context *context, struct gm_doctor *doctor, struct findings *findings)
{
	/* Without Python's objects it cannot be read, but whether it exists can be determined. */
	if (findings->python) {
		bool loaded = gm_symbols_find_module(context->symbols, "libc10.so") != NULL;
		findings->torch = loaded ? TORCH_UNREADABLE : TORCH_ABSENT;
		return gm_doctor_add(&doctor->process, "PyTorch",
		        loaded ? GM_DOCTOR_PROBLEM : GM_DOCTOR_ABSENT,
		        (struct gm_doctor_fact){
		                loaded ? GM_FOUND_TORCH_UNREADABLE : GM_FOUND_TORCH_ABSENT});
	}
	struct gm_torch *torch;
	struct gm_error *error = gm_context_torch(context, &torch);
	if (error) {
		_cleanup_free_ char *reason = NULL;
		keep_reason(error, &reason);
		findings->torch = gm_symbols_find_module(context->symbols, "libc10.so")
		                          ? TORCH_UNREADABLE
		                          : TORCH_TO_COME;
		return gm_doctor_add(&doctor->process, "PyTorch", GM_DOCTOR_PROBLEM,
		        (struct gm_doctor_fact){GM_FOUND_NO_TORCH, .text = reason});
	}
	gm_try(gm_doctor_add(&doctor->process, "PyTorch", GM_DOCTOR_OK,
	        (struct gm_doctor_fact){GM_FOUND_TORCH, .text = gm_torch_version(torch)}));
	const char *kind = gm_torch_allocator_kind(torch);
	findings->native_allocator = strcmp(kind, "native") == 0;
	findings->cuda_used = strcmp(kind, "none") != 0;
	if (findings->native_allocator)
		return gm_doctor_add(&doctor->process, "allocator", GM_DOCTOR_OK,
		        (struct gm_doctor_fact){GM_FOUND_ALLOCATOR});
	if (!findings->cuda_used)
		return gm_doctor_add(&doctor->process, "allocator", GM_DOCTOR_ABSENT,
		        (struct gm_doctor_fact){GM_FOUND_ALLOCATOR_UNUSED});
	return gm_doctor_add(&doctor->process, "allocator", GM_DOCTOR_PROBLEM,
	        (struct gm_doctor_fact){GM_FOUND_ALLOCATOR_OTHER, .text = kind});
}

static struct gm_error *check_cuda(struct gm_context *context, struct gm_doctor *doctor)
{
	struct gm_symbols *symbols;
	gm_try(gm_context_symbols(context, &symbols));
	const struct gm_module *simulated = gm_symbols_find_module(symbols, "libgpumem-sim.so");
	const struct gm_module *runtime = gm_symbols_find_module(symbols, "libcudart.so");
	if (simulated)
		return gm_doctor_add(&doctor->process, "CUDA runtime", GM_DOCTOR_OK,
		        (struct gm_doctor_fact){GM_FOUND_CUDA_SIMULATED});
	if (!runtime)
		return gm_doctor_add(&doctor->process, "CUDA runtime", GM_DOCTOR_ABSENT,
		        (struct gm_doctor_fact){GM_FOUND_CUDA_ABSENT});
	bool driver = gm_symbols_find_module(symbols, "libcuda.so") != NULL;
	return gm_doctor_add(&doctor->process, "CUDA runtime",
	        driver ? GM_DOCTOR_OK : GM_DOCTOR_ABSENT,
	        (struct gm_doctor_fact){GM_FOUND_CUDA, .text = runtime->name, .number = driver});
}

/* --- what works ------------------------------------------------------------------------------- */

static enum gm_doctor_reason why_not_record(
        struct gm_context *context, const struct findings *findings)
{
	if (context->core_path)
		return GM_DOCTOR_IS_CORE;
	if (context->remote)
		return GM_DOCTOR_IS_REMOTE;
	if (findings->torch == TORCH_ABSENT)
		return GM_DOCTOR_HAS_NO_TORCH;
	/* A torch that will be loaded later: recording waits for it. */
	if (findings->torch == TORCH_UNREADABLE)
		return GM_DOCTOR_TORCH_UNREADABLE;
	if (findings->cuda_used && !findings->native_allocator)
		return GM_DOCTOR_OTHER_ALLOCATOR;
	if (context->shell && tracer_of(context->pid) == 0)
		return GM_DOCTOR_ONLY_IN_GDB;
	return GM_DOCTOR_WORKS;
}

static enum gm_doctor_reason why_not_ask(const struct findings *findings)
{
	if (findings->python)
		return GM_DOCTOR_NEEDS_PYTHON;
	if (findings->torch)
		return GM_DOCTOR_NEEDS_TORCH;
	/* without CUDA, about CPU tensors */
	return !findings->cuda_used || findings->native_allocator ? GM_DOCTOR_WORKS
	                                                          : GM_DOCTOR_NEEDS_ALLOCATOR;
}

static struct gm_error *judge_commands(
        struct gm_context *context, struct gm_doctor *doctor, const struct findings *findings)
{
	enum gm_doctor_reason unreadable =
	        context->core_path ? GM_DOCTOR_CORE_UNREADABLE : GM_DOCTOR_PROCESS_UNREADABLE;
	gm_try(gm_doctor_command(doctor, GM_DOCTOR_RECORD,
	        findings->image ? unreadable : why_not_record(context, findings)));
	gm_try(gm_doctor_command(
	        doctor, GM_DOCTOR_WHO_HOLDS, findings->image ? unreadable : why_not_ask(findings)));
	return gm_doctor_command(doctor, GM_DOCTOR_RECORDING,
	        context->log_path || context->shell ? GM_DOCTOR_WORKS : GM_DOCTOR_NOT_RECORDED);
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
	return judge_commands(context, doctor, findings);
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
		gm_try(gm_context_image(context, &image));
	} else {
		gm_try(check_exists(context->pid));
		doctor->command = gm_command_line(context->pid, COMMAND_MAX);
	}
	struct findings findings = {0};
	struct gm_error *error = check_all(context, doctor, &findings);
	free(findings.image);
	free(findings.python);
	return error;
}
