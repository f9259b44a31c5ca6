/* The parts of a context that read a process. They are separate from context_life.c, so that a
 * question about a log alone links none of them. */
#include "ask/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask/target/command_line.h"
#include "ask/target/family.h"
#include "base/cleanup.h"
#include "ask/target/context_learn.h"
#include "holders/holders.h"
#include "image/remote.h"
#include "torch/readers.h"
#include "torch/torch.h"

bool gm_context_has_target(const struct gm_context *context)
{
	return context->pid > 0 || context->core_path || context->remote;
}

static void close_target(struct gm_context *context)
{
	gm_holders_destroy(gm_take(context->holders));
	gm_torch_close(gm_take(context->torch));
	gm_python_close(gm_take(context->python));
	gm_symbols_destroy(gm_take(context->symbols));
	gm_image_close(gm_take(context->image));
	free(gm_take(context->target_core));
	context->target_pid = 0;
	context->target_remote = 0;
}

static struct gm_error *no_target(const struct gm_context *context)
{
	if (context->shell)
		return gm_error_create(GM_USAGE,
		        "no process given: the question needs a live process or a core "
		        "dump: name it with --pid PID or --core CORE");
	return gm_error_create(GM_USAGE,
	        "no process: the program is not running: start it with `run` or attach to it");
}

static bool is_opened(const struct gm_context *context)
{
	if (context->core_path)
		return context->target_core &&
		       strcmp(context->target_core, context->core_path) == 0;
	if (context->remote)
		return context->target_remote == context->remote_number;
	return !context->target_core && !context->target_remote &&
	       context->target_pid == context->pid;
}

static struct gm_error *open_image(struct gm_context *context)
{
	context->close_target = close_target;
	if (context->core_path) {
		if (!(context->target_core = strdup(context->core_path)))
			return &gm_error_no_memory;
		gm_try(gm_error_in_file(gm_image_open_core_showing(context->core_path,
		                                context->progress, &context->image),
		        context->core_path));
	} else if (context->remote) {
		gm_try(gm_image_open_remote(context->remote, context->progress, &context->image));
		context->target_remote = context->remote_number;
	} else {
		gm_try(gm_image_open_pid(context->pid, &context->image));
		context->target_pid = context->pid;
	}
	context->target_stale = false;
	return context->sysroot ? gm_image_set_sysroot(context->image, context->sysroot) : NULL;
}

struct gm_error *gm_context_image(struct gm_context *context, struct gm_image **ret_image)
{
	if (!gm_context_has_target(context))
		return no_target(context);
	if (!context->image || !is_opened(context)) {
		close_target(context);
		gm_try(open_image(context));
	} else if (context->target_stale && !context->core_path && !context->remote) {
		gm_holders_destroy(gm_take(context->holders));
		gm_image_invalidate(context->image);
		gm_try(gm_image_refresh(context->image));
		if (context->symbols)
			gm_try(gm_symbols_refresh(context->symbols));
		context->target_stale = false;
	}
	*ret_image = context->image;
	return NULL;
}

struct gm_error *gm_context_check_there(const struct gm_context *context)
{
	bool asked = context->image && gm_context_has_target(context) && is_opened(context);
	return asked ? gm_image_check_there(context->image) : NULL;
}

int gm_context_thread(const struct gm_context *context)
{
	return context->thread > 0 ? context->thread : (int)gm_image_main_thread(context->image);
}

struct gm_error *gm_context_symbols(struct gm_context *context, struct gm_symbols **ret_symbols)
{
	struct gm_image *image = NULL;
	gm_try(gm_context_image(context, &image));
	/* Figures of a part of a core would look like figures of all of it. */
	gm_try(gm_image_check_whole(image));
	if (!context->symbols)
		gm_try(gm_symbols_create(image, &context->symbols));
	*ret_symbols = context->symbols;
	return NULL;
}

/* Is a library missing without which Python or PyTorch cannot be read? */
static bool matters(const char *path)
{
	const char *name = strrchr(path, '/');
	return name && (strstr(name, "python") || strstr(name, "torch") || strstr(name, "c10"));
}

/*
 * Adds the core's name to an error, because the rooms below say "the process"; and adds which of
 * its libraries are missing on this machine. That is usually why a core from another machine cannot
 * be read.
 */
static struct gm_error *name_core(const struct gm_context *context, struct gm_error *error)
{
	if (!error || !context->core_path || error == &gm_error_no_memory)
		return error;
	_cleanup_free_ struct gm_image_file *files = NULL;
	size_t count = 0, missing = 0;
	const struct gm_image_file *first = NULL;
	gm_error_destroy(gm_image_files(context->image, &files, &count));
	for (size_t i = 0; i < count; i++) {
		if (files[i].state == GM_FILE_SAME || !matters(files[i].path))
			continue;
		first = first ? first : &files[i];
		missing++;
	}
	if (!first)
		return gm_error_in_file(
		        gm_error_prefix(error, "%s", context->core_path), context->core_path);
	char others[32] = "";
	if (missing > 1)
		snprintf(others, sizeof(others), " and %zu more", missing - 1);
	struct gm_error *named = gm_error_create(error->status,
	        "%s: %s%s %s: name the folder that has the libraries of the core with --sysroot "
	        "DIR "
	        "(`gpumem doctor --core` lists them) (%s)",
	        context->core_path, first->path, others,
	        first->state == GM_FILE_MISSING ? "is not on this disk"
	                                        : "differs from the file that the program ran with",
	        error->message);
	gm_error_destroy(error);
	return gm_error_in_file(named, first->path);
}

static struct gm_error *open_python(struct gm_context *context, struct gm_symbols *symbols)
{
	_cleanup_error_ struct gm_error *error =
	        gm_python_open_with(context->image, symbols, context->layouts, &context->python);
	bool fresh = false;
	if (!error || error->status != GM_TARGET)
		return gm_take(error);
	/* its layout may be unknown */
	_cleanup_error_ struct gm_error *other = gm_context_learn_python(context, &fresh);
	if (other)
		return gm_error_create(GM_TARGET, "%s (%s)", error->message, other->message);
	if (!fresh)
		return gm_take(error);
	return gm_python_open_with(context->image, symbols, context->layouts, &context->python);
}

/* The id of a shell or of a launcher: the process that was meant is one of its children. */
static struct gm_error *name_meant(const struct gm_context *context, struct gm_error *error)
{
	int child;
	if (!error || error == &gm_error_no_memory || !context->shell || context->pid <= 0 ||
	        context->core_path || context->remote || gm_relative_look(context->pid).python)
		return error;
	_cleanup_free_ char *meant = gm_relatives_text(context->pid, false, &child);
	if (!meant)
		return error;
	gm_error_destroy(error);
	return gm_error_create(GM_TARGET, "process %d: no Python in it, but in %s: use --pid %d",
	        context->pid, meant, child);
}

struct gm_error *gm_context_python(struct gm_context *context, struct gm_python **ret_python)
{
	struct gm_symbols *symbols;
	gm_try(gm_context_symbols(context, &symbols));
	if (!context->python)
		gm_try(name_meant(context, name_core(context, open_python(context, symbols))));
	*ret_python = context->python;
	return NULL;
}

static struct gm_error *open_torch(struct gm_context *context, struct gm_python *python)
{
	struct gm_torch_learned learned;
	bool known = true, fresh = false;
	gm_try(gm_torch_is_known(context->image, context->symbols, context->layouts, &known));
	/* a question asks more than once */
	if (!known && context->unlearned)
		return gm_error_create(GM_TARGET, "%s", context->unlearned);
	if (!known && context->pid > 0 && !context->core_path && !context->remote)
		gm_try(gm_context_learn(context, &learned, &fresh));
	if (fresh)
		return gm_torch_open_row(
		        context->image, context->symbols, python, &learned.layout, &context->torch);
	return gm_torch_open_with(
	        context->image, context->symbols, python, context->layouts, &context->torch);
}

struct gm_error *gm_context_torch(struct gm_context *context, struct gm_torch **ret_torch)
{
	struct gm_python *python;
	gm_try(gm_context_python(context, &python));
	if (!context->torch)
		gm_try(name_core(context, open_torch(context, python)));
	*ret_torch = context->torch;
	return NULL;
}

struct gm_error *gm_context_holders(struct gm_context *context, struct gm_holders **ret_holders)
{
	struct gm_torch *torch;
	gm_try(gm_context_torch(context, &torch));
	if (!context->holders)
		gm_try(gm_holders_create(context->image, context->symbols, context->python, torch,
		        &context->holders));
	*ret_holders = context->holders;
	return NULL;
}

/* --- its name --------------------------------------------------------------------------------- */

enum { COMMAND_MAX = 4096 };

char *gm_target_name(const struct gm_context *context)
{
	char *name = NULL;
	if (context->core_path)
		return strdup(context->core_path);
	if (context->pid <= 0)
		return strdup("the remote target");
	_cleanup_free_ char *command = gm_command_line(context->pid, COMMAND_MAX);
	if (!command || asprintf(&name, command[0] ? "process %d (%s)" : "process %d", context->pid,
	                        command) < 0)
		return NULL;
	return name;
}
