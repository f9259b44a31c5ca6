#include "cli/attach_common.h"

#include <unistd.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "render/json.h"

struct gm_error *gm_attach_take_pid(
        struct gm_context *context, const char *name, const struct gm_arguments *arguments)
{
	if (arguments->positional_count == 0)
		return gm_error_create(GM_USAGE,
		        "%s: no process given: name one, as in `gpumem %s 4711`", name, name);
	uint64_t pid;
	gm_try(gm_error_prefix(
	        gm_parse_number(arguments->positional[0], 1, 1 << 30, &pid), "%s: PID", name));
	if ((pid_t)pid == getpid())
		return gm_error_create(GM_USAGE,
		        "%s: %d: this is gpumem itself: name another process", name, (int)pid);
	context->pid = (int)pid;
	return NULL;
}

struct gm_error *gm_attach_open(struct gm_context *context, struct gm_inject_identity *identity,
        struct gm_image **ret_image, struct gm_symbols **ret_symbols)
{
	gm_try(gm_inject_identity_init(identity, context->pid));
	gm_try(gm_context_image(context, ret_image));
	return gm_context_symbols(context, ret_symbols);
}

struct gm_error *gm_attach_still_waiting(int pid, const char *what)
{
	return gm_error_create(GM_TARGET,
	        "process %d: the agent is waiting for a lock that the program holds (it is "
	        "probably loading libraries), and will %s after that: check again later",
	        pid, what);
}

void gm_attach_put_wait(void *context, enum gm_inject_wait what)
{
	const struct gm_attach_waiting *waiting = context;
	static const char *const texts[] = {
	        [GM_WAITS_FOR_THREAD] =
	                "for a moment in which one of its threads neither allocates "
	                "memory nor loads libraries",
	        [GM_WAITS_FOR_RUN] = "until it goes on: a signal or a debugger has stopped it",
	        [GM_WAITS_FOR_LOCK] = "for a lock that it holds, most likely while it loads "
	                              "libraries"};
	gm_put(waiting->err, "gpumem: process %d: waiting %s (at most %ju s)\n", waiting->pid,
	        texts[what], (uintmax_t)waiting->seconds);
	fflush(waiting->err);
}

struct gm_error *gm_attach_put_json(FILE *out, int pid, double stopped,
        const struct gm_attach_way *way, const struct gm_injected *injected)
{
	const char *refused = gm_attach_way_refused(way, injected);
	json_t *value = json_pack("{s:i, s:f, s:i, s:s}", "pid", pid, "stopped", stopped, "tries",
	        (int)injected->tries, "way", gm_attach_way_name(injected));
	if (refused)
		json_object_set_new(value, "python_refused", gm_json_string(refused));
	return gm_json_write(value, false, out);
}
