#include "cli/attach_way.h"

#include "base/cleanup.h"
#include "base/nearest_word.h"
#include "cpython/cpython.h"
#include "ask/context.h"

struct gm_error *gm_attach_way_parse(const char *text, enum gm_inject_way *ret_way)
{
	static const char *const names[] = {[GM_INJECT_ANY] = "auto",
	        [GM_INJECT_BY_PYTHON] = "python",
	        [GM_INJECT_BY_THREAD] = "thread",
	        NULL};
	size_t index;
	gm_try(gm_word_choose("--way", text, names, &index));
	*ret_way = (enum gm_inject_way)index;
	return NULL;
}

/* Names and sentences for enum gm_python_takes. */
static const struct {
	const char *word, *sentence;
} reasons[] = {
        [GM_TAKES_SCRIPTS] = {NULL, NULL},
        [GM_TAKES_NONE] = {"older_python", "its Python is older than 3.14"},
        [GM_TAKES_NONE_OFF] = {"switched_off",
                "its Python forbids it (PYTHON_DISABLE_REMOTE_DEBUG, -X disable-remote-debug, or a "
                "build option)"},
        [GM_TAKES_UNKNOWN] = {"unknown_python",
                "the layout of its Python differs from the known releases"},
};

static struct gm_error *look(struct gm_attach_way *way, struct gm_context *context)
{
	struct gm_python *python;
	struct gm_python_script_place place;
	way->refused = "no_python";
	gm_try(gm_context_python(context, &python));
	enum gm_python_takes takes = gm_python_takes_script(python, &place);
	way->refused = reasons[takes].word;
	if (takes != GM_TAKES_SCRIPTS)
		return gm_error_create(GM_TARGET,
		        "process %d: its Python cannot be asked to load the agent: %s",
		        context->pid, reasons[takes].sentence);
	way->python = (struct gm_inject_python){.pending = place.pending,
	        .path = place.path,
	        .path_size = place.path_size,
	        .breaker = place.breaker,
	        .stop = place.stop,
	        .harmless = place.harmless};
	return NULL;
}

struct gm_error *gm_attach_way_prepare(
        struct gm_attach_way *way, struct gm_context *context, struct gm_inject_options *options)
{
	options->way = way->wanted;
	if (way->wanted == GM_INJECT_BY_THREAD)
		return NULL;
	struct gm_error *error = look(way, context);
	if (error && way->wanted == GM_INJECT_BY_PYTHON)
		return error;
	gm_error_destroy(error);
	options->python = way->refused ? NULL : &way->python;
	return NULL;
}

const char *gm_attach_way_name(const struct gm_injected *injected)
{
	return injected->way == GM_INJECT_BY_PYTHON ? "python" : "thread";
}

const char *gm_attach_way_refused(
        const struct gm_attach_way *way, const struct gm_injected *injected)
{
	static const char *const words[] = {
	        [GM_INJECT_NOT_REFUSED] = NULL,
	        [GM_INJECT_OTHER_USER] = "other_user",
	        [GM_INJECT_OTHER_FILES] = "other_files",
	        [GM_INJECT_OTHER_AGENT] = "other_agent",
	        [GM_INJECT_NO_FOLDER] = "no_folder",
	        [GM_INJECT_NO_ACCESS] = "no_access",
	        [GM_INJECT_TAKEN] = "other_debugger",
	        [GM_INJECT_BLOCKED] = "blocked",
	        [GM_INJECT_FAILED] = "failed",
	        [GM_INJECT_GONE] = "gone",
	};
	if (injected->way == GM_INJECT_BY_PYTHON)
		return NULL;
	return way->refused ? way->refused : words[injected->refusal];
}
