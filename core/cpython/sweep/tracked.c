/*
 * All objects that the garbage collector tracks, and the loaded modules.
 *
 * The collector has its objects in circular lists, one for each generation, with each object's
 * links directly before it (Include/internal/pycore_gc.h). During a collection it moves objects to
 * temporary lists on its C stack, which are not found.
 */
#include "cpython/sweep/store.h"
#include "cpython/python.h"

struct tracked {
	struct gm_store store;
	bool (*visit)(void *context, uint64_t object);
	void *context;
	size_t count;
	struct gm_error *error;
};

static struct gm_error *corrupt(size_t count, uint64_t at, const char *why)
{
	return gm_error_create(GM_CORRUPT,
	        "Python's garbage collector: its list at 0x%llx %s after %zu objects: the "
	        "program's memory is "
	        "damaged, or it was stopped in the middle of a collection: ask again at another "
	        "stop",
	        (unsigned long long)at, why, count);
}

/* One list; Brent's cycle detection notices a list that does not return to its head. */
static bool walk_list(struct tracked *tracked, struct gm_python *python, uint64_t head)
{
	const struct gm_python_layout *l = &python->layout;
	uint64_t mark = 0;
	size_t steps = 0;
	size_t power = 2;
	uint64_t at = gm_py_field(python, head, l->gc_head_next) & ~UINT64_C(3);

	while (at != head) {
		uint64_t next;
		const uint8_t *bytes =
		        at & 7 || !at ? NULL
		                      : gm_store_at(&tracked->store, at, (size_t)l->gc_head_size);
		if (!bytes) {
			tracked->error = corrupt(tracked->count, at, "cannot be read");
			return false;
		}
		next = gm_u64_at(bytes, l->gc_head_next);
		if (at == mark) {
			tracked->error = corrupt(tracked->count, at, "has a cycle");
			return false;
		}
		if (++steps == power) {
			mark = at;
			power *= 2;
			steps = 0;
		}
		tracked->count++;
		if (!tracked->visit(tracked->context, at + (uint64_t)l->gc_head_size))
			return false;
		at = next & ~UINT64_C(3); /* flags of a collection (NEXT_MASK_UNREACHABLE,
		                             Modules/gcmodule.c) */
	}
	return true;
}

static bool interpreter_lists(void *context, struct gm_python *python, uint64_t interpreter)
{
	const struct gm_python_layout *l = &python->layout;
	struct tracked *tracked = context;

	for (int32_t i = 0; i < l->gc_generation_count; i++) {
		uint64_t head = interpreter +
		                (uint64_t)(l->interpreter_generations + i * l->gc_generation_size);
		if (!walk_list(tracked, python, head))
			return false;
	}
	return walk_list(tracked, python, interpreter + (uint64_t)l->interpreter_permanent);
}

struct gm_error *gm_python_tracked(struct gm_python *python,
        bool (*visit)(void *context, uint64_t object), void *context, size_t *ret_count)
{
	enum { FRAMES = 128 }; /* 8 MiB, for memory that the image does not cache */
	struct tracked tracked = {.visit = visit, .context = context};

	if (!gm_store_init(&tracked.store, python->image, FRAMES))
		return &gm_error_no_memory;
	gm_py_each_interpreter(python, interpreter_lists, &tracked);
	gm_store_deinit(&tracked.store);
	if (tracked.error)
		return tracked.error;
	if (ret_count)
		*ret_count = tracked.count;
	return NULL;
}

struct modules {
	struct gm_python *python;
	bool (*visit)(void *context, const char *name, uint64_t module, uint64_t dict);
	void *context;
	size_t count;
	bool stopped;
};

static bool module_entry(void *context, uint64_t key, uint64_t value)
{
	struct modules *modules = context;
	struct gm_python *python = modules->python;
	const struct gm_type *type = gm_py_type_of(python, value);
	_cleanup_free_ char *name = NULL;
	uint64_t dict = 0;

	if (!type || !gm_python_str(python, key, GM_MAX_NAME_LENGTH, &name))
		return true;
	if (type->kind == GM_TYPE_MODULE)
		dict = gm_py_field(python, value, python->layout.module_dict);
	modules->count++;
	modules->stopped = !modules->visit(modules->context, name, value, dict);
	return !modules->stopped;
}

static bool interpreter_modules(void *context, struct gm_python *python, uint64_t interpreter)
{
	struct modules *modules = context;
	uint64_t dict = gm_py_field(python, interpreter, python->layout.interpreter_modules);

	if (dict)
		gm_py_dict_each(python, dict, module_entry, modules);
	return !modules->stopped;
}

struct gm_error *gm_python_modules(struct gm_python *python,
        bool (*visit)(void *context, const char *name, uint64_t module, uint64_t dict),
        void *context)
{
	struct modules modules = {python, visit, context, 0, false};

	gm_py_each_interpreter(python, interpreter_modules, &modules);
	if (!modules.count)
		return gm_error_create(GM_TARGET, "sys.modules: it cannot be read: %s",
		        gm_image_goes_on(python->image)
		                ? "ask again when the program is stopped in Python code"
		                : "the process's memory is damaged, or it was ending");
	return NULL;
}
