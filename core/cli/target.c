#include "cli/target.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "ask/context.h"
#include "base/cleanup.h"

struct gm_error *gm_target_option(void *input, int key, const char *argument)
{
	struct gm_context *context = input;
	uint64_t number;
	if (key == GM_TARGET_CORE) {
		/* gdb's process is the one that its user debugs; an answer about another would
		 * mislead. */
		if (!context->shell)
			return gm_error_create(GM_USAGE,
			        "--core %s: not possible in gdb: ask about a core in a shell",
			        argument);
		return gm_context_set_core(context, argument);
	}
	if (key == GM_TARGET_SYSROOT) {
		struct stat status;
		if (stat(argument, &status) != 0 || !S_ISDIR(status.st_mode))
			return gm_error_create(GM_USAGE,
			        "--sysroot %s: no such folder: name the one with the target's "
			        "libraries",
			        argument);
		return gm_context_set_sysroot(context, argument);
	}
	if (key == GM_TARGET_NO_PAUSE) {
		context->no_pause = true;
		return NULL;
	}
	if (key == GM_TARGET_LOOP)
		return gm_context_set_loop(context, argument);
	if (key == GM_TARGET_LAYOUTS)
		return gm_context_set_layouts(context, argument);
	if (key == GM_TARGET_NO_LEARN) {
		context->no_learn = true;
		return NULL;
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
		        "--core %s --pid %d: both a core and a process were given: leave one out",
		        context->core_path, context->pid);
	return NULL;
}

/* An ELF file; a compressed core is recognized by the end of its name, as in the image room. */
static bool is_core(const char *path)
{
	_cleanup_close_ int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	struct stat status;
	unsigned char first[4];
	if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
	        pread(fd, first, sizeof(first), 0) != sizeof(first))
		return false;
	static const struct {
		unsigned char bytes[4];
		size_t size;
	} magics[] = {
	        {{0x7f, 'E', 'L', 'F'}, 4},    /* ELF */
	        {{0x28, 0xb5, 0x2f, 0xfd}, 4}, /* zstd */
	        {{0x1f, 0x8b, 0x08}, 3},       /* gzip; flags follow */
	        {{0xfd, '7', 'z', 'X'}, 4},    /* xz */
	};
	for (size_t i = 0; i < sizeof(magics) / sizeof(*magics); i++)
		if (memcmp(first, magics[i].bytes, magics[i].size) == 0)
			return true;
	return false;
}

struct gm_error *gm_target_take_core(
        struct gm_arguments *arguments, struct gm_context *context, int others)
{
	if (context->shell && !gm_context_has_target(context) &&
	        arguments->positional_count > others && is_core(arguments->positional[0])) {
		gm_try(gm_context_set_core(context, arguments->positional[0]));
		arguments->positional_count--;
		memmove(arguments->positional, arguments->positional + 1,
		        sizeof(arguments->positional[0]) * (size_t)arguments->positional_count);
	}
	return gm_target_check(context);
}

struct gm_error *gm_target_take_core_only(struct gm_arguments *arguments,
        struct gm_context *context, const char *command, const char *what)
{
	gm_try(gm_target_take_core(arguments, context, 0));
	if (arguments->positional_count == 0)
		return NULL;
	return gm_error_create(GM_USAGE,
	        "%s: %s is not a core dump: %s a process or a core: name one with --pid PID or "
	        "--core CORE",
	        command, arguments->positional[0], what);
}

struct gm_error *gm_target_take_file(
        struct gm_arguments *arguments, struct gm_context *context, int others, bool *ret_target)
{
	const char *file = arguments->positional_count > others ? arguments->positional[0] : NULL;
	/* in gdb the user does not name it */
	bool here = gm_context_has_target(context);
	bool named = context->shell && here;
	gm_try(gm_target_check(context));
	if (file && named)
		return gm_error_create(GM_USAGE,
		        "%s: both a FILE and a process or core were given: leave one out", file);
	gm_try(gm_target_take_core(arguments, context, others));
	if (context->shell && context->core_path) {
		named = true;
	} else if (!named) {
		gm_try(gm_arguments_take_file(arguments, context, others));
		if (!file && context->shell)
			return gm_error_create(GM_USAGE, "no recording, process or core given: "
			                                 "name a FILE, --pid PID or --core CORE");
	}
	*ret_target = named || (!context->log_path && here);
	return NULL;
}
