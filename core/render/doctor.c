#include "render/doctor.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "render/json.h"
#include "render/say.h"

static const char *const marks[] = {"ok", "-", "!!"};
static const char *const states[] = {"ok", "absent", "problem"};

/* --- words ------------------------------------------------------------------------------------ */

static const char *s_of(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static char *libraries_text(const struct gm_doctor_check *check)
{
	static const char *const states_of[] = {[GM_FILE_MISSING] = "not on this disk",
	        [GM_FILE_DIFFERENT] = "another build on this disk",
	        [GM_FILE_UNKNOWN] = "may be another build: the core lacks its first page"};
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	fprintf(out,
	        "%" PRIu64 " of %" PRIu64 " mapped files are missing or changed on this disk: ",
	        check->fact.number, check->fact.other);
	for (size_t i = 0; i < check->file_count; i++)
		fprintf(out, "%s%s (%s)", i ? ", " : "", check->files[i].path,
		        states_of[check->files[i].state]);
	fputs(check->fact.number > check->file_count ? ", ..." : "", out);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* The findings about the machine. */
static char *machine_text(const struct gm_doctor_fact *fact)
{
	const char *text = fact->text ? fact->text : "";
	switch (fact->found) {
	case GM_FOUND_GDB_INSIDE:
		return gm_say("this session runs inside gdb");
	case GM_FOUND_GDB_NAMED_ABSENT:
		return gm_say("%s, which GPUMEM_GDB names, does not exist", text);
	case GM_FOUND_GDB_ABSENT:
		return gm_say("not found on the PATH");
	case GM_FOUND_GDB_WITHOUT_PYTHON:
	case GM_FOUND_GDB_WITHOUT_LIBPYTHON:
		return gm_say("%s: cannot run Python%s%s", text, fact->of && *fact->of ? ": " : "",
		        fact->of ? fact->of : "");
	case GM_FOUND_GDB:
		return gm_say("%s: %s%s", text, fact->of, fact->number ? " (GPUMEM_GDB)" : "");
	case GM_FOUND_CUDA_GDB_ABSENT:
		return gm_say("not found on the PATH: only needed to debug kernels");
	case GM_FOUND_PTRACE_ALLOWED:
		return gm_say("you may read your own processes and attach to them");
	case GM_FOUND_PTRACE_ROOT:
		return gm_say("kernel.yama.ptrace_scope is %" PRIu64
		              ", which does not restrict root",
		        fact->number);
	case GM_FOUND_PTRACE_REFUSED:
		return gm_say("kernel.yama.ptrace_scope is %" PRIu64
		              ": running processes cannot be read",
		        fact->number);
	case GM_FOUND_NO_DEVICES:
		return gm_say("no NVIDIA device (/dev/nvidia0): programs run on the simulated "
		              "one, with --sim");
	case GM_FOUND_DEVICES:
		return gm_say("%" PRIu64 " NVIDIA device%s%s%s", fact->number, s_of(fact->number),
		        fact->text ? ": " : "", text);
	case GM_FOUND_SIMULATED_ABSENT:
		return gm_say("libgpumem-sim.so is not next to this program: --sim does not work");
	case GM_FOUND_LINES:
		return gm_say("of native code built with -g, by libdw");
	case GM_FOUND_OTHER_GPUMEM:
		return gm_say("another project's package `gpumem` is installed beside this one: "
		              "both have a "
		              "command of this name (%s)",
		        text);
	default: /* a path */
		return gm_say("%s", text);
	}
}

/* The findings about a process or core. */
static char *process_text(const struct gm_doctor_fact *fact)
{
	const char *text = fact->text ? fact->text : "";
	switch (fact->found) {
	case GM_FOUND_NO_DEBUGGER:
		return gm_say(
		        "none attached: to record, `gpumem gdb -p %" PRIu64 "`", fact->number);
	case GM_FOUND_DEBUGGER:
		return gm_say("%s (process %" PRIu64 ")%s", text, fact->number,
		        fact->other ? ": a second debugger cannot attach" : "");
	case GM_FOUND_NO_MEMORY:
		return gm_say("%s", fact->text ? text : "cannot be read");
	case GM_FOUND_MEMORY:
		return gm_say("readable, %" PRIu64 " libraries in %" PRIu64 " mappings",
		        fact->number, fact->other);
	case GM_FOUND_LIBRARIES:
		return gm_say("%" PRIu64 " files were mapped, all are unchanged on this disk",
		        fact->number);
	case GM_FOUND_PYTHON:
		return gm_say("CPython %s, %" PRIu64 " thread%s, found by %s", text, fact->number,
		        s_of(fact->number), fact->of);
	case GM_FOUND_TORCH_UNREADABLE:
		return gm_say("loaded, but its objects cannot be read without Python's");
	case GM_FOUND_TORCH_ABSENT:
		return gm_say("not loaded");
	case GM_FOUND_NO_PYTHON:
	case GM_FOUND_NO_TORCH:
		return gm_say("%s", fact->text ? text : "not recognised");
	case GM_FOUND_TORCH:
		return gm_say("%s, object layouts known", text);
	case GM_FOUND_ALLOCATOR:
		return gm_say("PyTorch's own caching allocator");
	case GM_FOUND_ALLOCATOR_UNUSED:
		return gm_say("none yet: no CUDA memory was used");
	case GM_FOUND_ALLOCATOR_OTHER:
		return gm_say(
		        "%s: blocks of an allocator other than PyTorch's caching one are not read",
		        text);
	case GM_FOUND_CUDA_SIMULATED:
		return gm_say(
		        "simulated: sizes and events are real, values computed by kernels are not");
	case GM_FOUND_CUDA_ABSENT:
		return gm_say("not loaded: CPU tensors only (record --devices cpu)");
	case GM_FOUND_CUDA:
		return gm_say(fact->number ? "%s, with NVIDIA's driver"
		                           : "%s, no NVIDIA driver loaded: CPU tensors only",
		        text);
	default:
		return machine_text(fact);
	}
}

static char *value_text(const struct gm_doctor_check *check)
{
	return check->fact.found == GM_FOUND_LIBRARIES_CHANGED ? libraries_text(check)
	                                                       : process_text(&check->fact);
}

static char *ptrace_advice(uint64_t scope)
{
	if (scope == 3)
		return gm_say("start programs with `gpumem run`, or restart the machine with "
		              "kernel.yama.ptrace_scope=0");
	return gm_say(scope == 1 ? "run as root, or start programs with `gpumem run` or `gpumem "
	                           "gdb`, or sysctl kernel.yama.ptrace_scope=0"
	                         : "run as root, or start programs with `gpumem run`, or sysctl "
	                           "kernel.yama.ptrace_scope=0");
}

/* What to do; NULL: nothing, or no memory. */
static char *advice_text(const struct gm_doctor_fact *fact)
{
	switch (fact->found) {
	case GM_FOUND_GDB_NAMED_ABSENT:
		return gm_say("set GPUMEM_GDB to a gdb, or leave it out");
	case GM_FOUND_GDB_ABSENT:
		return gm_say("install it (Debian: apt-get install gdb)");
	case GM_FOUND_GDB_WITHOUT_PYTHON:
		return gm_say("install a gdb with Python (Debian: apt-get install gdb)");
	case GM_FOUND_GDB_WITHOUT_LIBPYTHON:
		return gm_say(
		        "install the shared library of this Python (Debian: apt-get install "
		        "libpython3.N, where `python3 --version` is 3.N), or the system's gdb "
		        "(apt-get install gdb)");
	case GM_FOUND_PTRACE_REFUSED:
		return ptrace_advice(fact->number);
	case GM_FOUND_SIMULATED_ABSENT:
		return gm_say("build it: it needs CUDA's headers (./scripts/setup brings them)");
	case GM_FOUND_OTHER_GPUMEM:
		return gm_say("type `python -m gpumem_debugger`, which is always this one, or "
		              "uninstall gpumem "
		              "and install gpumem-debugger again");
	case GM_FOUND_LIBRARIES_CHANGED:
		return gm_say("name the folder that contains them with --sysroot DIR");
	case GM_FOUND_ALLOCATOR_OTHER:
		return gm_say(
		        "run with PyTorch's own: unset `backend:` in PYTORCH_CUDA_ALLOC_CONF");
	default:
		return NULL;
	}
}

/* NULL: it works, or no memory. */
static char *reason_text(enum gm_doctor_reason reason, int pid)
{
	switch (reason) {
	case GM_DOCTOR_WORKS:
		return NULL;
	case GM_DOCTOR_NO_GDB:
		return gm_say("needs a gdb with Python");
	case GM_DOCTOR_NO_TARGET:
		return gm_say("needs a program: name it with --pid PID or --core CORE");
	case GM_DOCTOR_NOT_RUNNING:
		return gm_say("needs a running program: start it, or attach to it");
	case GM_DOCTOR_CORE_UNREADABLE:
		return gm_say("the core cannot be read, see above");
	case GM_DOCTOR_PROCESS_UNREADABLE:
		return gm_say("the process cannot be read");
	case GM_DOCTOR_IS_CORE:
		return gm_say("a core dump does not run");
	case GM_DOCTOR_IS_REMOTE:
		return gm_say("only in gdb on the program's own machine");
	case GM_DOCTOR_HAS_NO_TORCH:
		return gm_say("there is no PyTorch in it");
	case GM_DOCTOR_TORCH_UNREADABLE:
		return gm_say("PyTorch's objects cannot be read, see above");
	case GM_DOCTOR_OTHER_ALLOCATOR:
		return gm_say("the allocator is not PyTorch's caching one (--devices cpu works)");
	case GM_DOCTOR_ONLY_IN_GDB:
		return gm_say("only in gdb: gpumem gdb -p %d", pid);
	case GM_DOCTOR_NEEDS_PYTHON:
		return gm_say("needs Python's objects, see above");
	case GM_DOCTOR_NEEDS_TORCH:
		return gm_say("needs PyTorch's objects, see above");
	case GM_DOCTOR_NEEDS_ALLOCATOR:
		return gm_say("the allocator is not PyTorch's caching one");
	case GM_DOCTOR_NOT_RECORDED:
		return gm_say("nothing recorded yet: gpumem record");
	}
	return NULL;
}

static const char *const subjects[] = {[GM_DOCTOR_RECORD] = "record",
        [GM_DOCTOR_WHO_HOLDS] = "who-holds",
        [GM_DOCTOR_RECORDING] = "info, events, blocks, peak, why (on a recording)"};

/* --- text ------------------------------------------------------------------------------------- */

static void text_checks(const struct gm_doctor_checks *checks, FILE *out)
{
	for (size_t i = 0; i < checks->count; i++) {
		const struct gm_doctor_check *check = &checks->items[i];
		_cleanup_free_ char *value = value_text(check), *advice = advice_text(&check->fact);
		gm_put(out, "  %-2s  %-17s %s\n", marks[check->state], check->name,
		        value ? value : "");
		if (advice)
			gm_put(out, "      %-17s to do: %s\n", "", advice);
	}
}

static const char *command_line(const struct gm_doctor *doctor)
{
	if (!doctor->command)
		return "read through the debugger";
	return doctor->command[0] ? doctor->command : "?";
}

void gm_render_doctor_text(const struct gm_doctor *doctor, FILE *out)
{
	gm_put(out, "this machine\n");
	text_checks(&doctor->machine, out);
	if (doctor->core) {
		gm_put(out, "\ncore %s\n", doctor->core);
		text_checks(&doctor->process, out);
	} else if (doctor->pid > 0) {
		gm_put(out, "\nprocess %d: %.100s\n", doctor->pid, command_line(doctor));
		text_checks(&doctor->process, out);
	}
	gm_put(out, "\nwhat works%s\n", doctor->core || doctor->pid > 0 ? " on it" : "");
	for (size_t i = 0; i < doctor->command_count; i++) {
		const struct gm_doctor_command *command = &doctor->commands[i];
		_cleanup_free_ char *reason = reason_text(command->reason, doctor->pid);
		gm_put(out, "  %-3s %s%s%s\n", command->reason == GM_DOCTOR_WORKS ? "yes" : "no",
		        subjects[command->subject], reason ? ": " : "", reason ? reason : "");
	}
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *string_or_null(const char *text)
{
	return text ? gm_json_string(text) : json_null();
}

/* Frees the text. */
static json_t *taken_or_null(char *text)
{
	return text ? gm_json_take(text) : json_null();
}

static json_t *json_checks(const struct gm_doctor_checks *checks)
{
	json_t *list = json_array();
	for (size_t i = 0; list && i < checks->count; i++) {
		const struct gm_doctor_check *check = &checks->items[i];
		json_array_append_new(list,
		        json_pack("{s:s,s:s,s:o,s:o}", "name", check->name, "state",
		                states[check->state], "value", taken_or_null(value_text(check)),
		                "advice", taken_or_null(advice_text(&check->fact))));
	}
	return list;
}

struct gm_error *gm_render_doctor_json(const struct gm_doctor *doctor, FILE *out)
{
	json_t *commands = json_array();
	for (size_t i = 0; commands && i < doctor->command_count; i++) {
		const struct gm_doctor_command *command = &doctor->commands[i];
		json_array_append_new(commands,
		        json_pack("{s:s,s:b,s:o}", "name", subjects[command->subject], "works",
		                command->reason == GM_DOCTOR_WORKS, "reason",
		                taken_or_null(reason_text(command->reason, doctor->pid))));
	}
	json_t *process = json_null();
	if (doctor->core)
		process = json_pack("{s:o,s:o}", "core", string_or_null(doctor->core), "checks",
		        json_checks(&doctor->process));
	else if (doctor->pid > 0)
		process = json_pack("{s:i,s:o,s:o}", "pid", doctor->pid, "command",
		        string_or_null(command_line(doctor)), "checks",
		        json_checks(&doctor->process));
	json_t *root = json_pack("{s:o,s:o,s:o}", "machine", json_checks(&doctor->machine),
	        "process", process, "commands", commands);
	return gm_json_write(root, false, out);
}
