#include "cli/target.h"

#include <sys/stat.h>

#include "ask/context.h"
#include "base/cleanup.h"

struct gm_error *gm_target_option(void *input, int key, const char *argument)
{
	struct gm_context *context = input;
	uint64_t number;
	if (key == GM_TARGET_CORE) {
		/* gdb's process is the one that its user looks at; an answer about another would mislead. */
		if (!context->shell)
			return gm_error_create(GM_USAGE,
			        "--core %s: not possible in gdb: a core is asked about in a shell",
			        argument);
		return gm_context_set_core(context, argument);
	}
	if (key == GM_TARGET_SYSROOT) {
		struct stat status;
		if (stat(argument, &status) != 0 || !S_ISDIR(status.st_mode))
			return gm_error_create(GM_USAGE,
			        "--sysroot %s: there is no such folder: name the one that has the "
			        "target's libraries",
			        argument);
		return gm_context_set_sysroot(context, argument);
	}
	gm_try(gm_error_prefix(gm_parse_number(argument, 1, 1 << 30, &number),
	        key == GM_TARGET_THREAD ? "--thread" : "--pid"));
	if (key == GM_TARGET_THREAD)
		context->thread = (int)number;
	else
		context->pid = (int)number;
	return NULL;
}

struct gm_error *gm_target_check(const struct gm_context *context)
{
	if (context->core_path && context->pid > 0)
		return gm_error_create(GM_USAGE,
		        "--core %s --pid %d: a core and a process: one question is about one of "
		        "them",
		        context->core_path, context->pid);
	return NULL;
}
