#include "ask/recording/cause.h"
#include "ask/recording/place.h"

#include <string.h>

#include "base/packages.h"

const char *gm_cause_name(enum gm_cause_kind kind)
{
	static const char *const names[GM_CAUSE_COUNT] = {
	        [GM_CAUSE_UNKNOWN] = "unknown",
	        [GM_CAUSE_REBOUND] = "rebound",
	        [GM_CAUSE_DELETED] = "deleted",
	        [GM_CAUSE_FUNCTION_RETURN] = "function_return",
	        [GM_CAUSE_CONTAINER_CHANGE] = "container_change",
	        [GM_CAUSE_ATTRIBUTE_CHANGE] = "attribute_change",
	        [GM_CAUSE_AUTOGRAD_RELEASE] = "autograd_release",
	        [GM_CAUSE_OPTIMIZER] = "optimizer",
	        [GM_CAUSE_GC_CYCLE] = "gc_cycle",
	        [GM_CAUSE_EXCEPTION_CLEARED] = "exception_cleared",
	        [GM_CAUSE_GENERATOR_END] = "generator_end",
	        [GM_CAUSE_TEMPORARY] = "temporary",
	        [GM_CAUSE_NATIVE] = "native",
	        [GM_CAUSE_INTERPRETER_EXIT] = "interpreter_exit",
	        [GM_CAUSE_STORAGE_CHANGE] = "storage_change",
	        [GM_CAUSE_RESULT_DROPPED] = "result_dropped",
	        [GM_CAUSE_AUTOCAST_CACHE] = "autocast_cache",
	};
	return (unsigned)kind < GM_CAUSE_COUNT ? names[kind] : "unknown";
}

static bool any_of(const char *function, const char *const *parts)
{
	for (; *parts; parts++)
		if (strstr(function, *parts))
			return true;
	return false;
}

/* "torch::autograd::generated::AddmmBackward0::release_variables()" contains AddmmBackward0. */
static void find_node_name(const char *function, struct gm_teardown *teardown)
{
	const char *backward = strstr(function, "Backward");
	if (teardown->node_name || !backward)
		return;
	const char *start = backward, *end = backward + strlen("Backward");
	while (start > function && (start[-1] == '_' || (start[-1] >= '0' && start[-1] <= '9') ||
	                                   ((start[-1] | 32) >= 'a' && (start[-1] | 32) <= 'z')))
		start--;
	while (*end >= '0' && *end <= '9')
		end++;
	if (start == backward)
		return;
	teardown->node_name = start;
	teardown->node_name_length = (int)(end - start);
}

void gm_teardown_read(
        const struct gm_log *log, uint32_t native_stack, struct gm_teardown *ret_teardown)
{
	static const char *const interpreter[] = {"_PyEval_EvalFrame", "_PyEval_Vector", NULL};
	static const char *const collector[] = {"gc_collect_main", "gc_collect", "delete_garbage",
	        "_PyGC_Collect", "PyGC_Collect", NULL};
	static const char *const finalizing[] = {
	        "Py_FinalizeEx", "finalize_modules", "Py_RunMain", "__run_exit_handlers", NULL};
	static const char *const wrapper[] = {"THPVariable_dealloc", "THPVariable_subclass_dealloc",
	        "THPVariable_clear", "THPVariable_subclass_clear", "THPVariable_tryResurrect",
	        NULL};
	static const char *const generator[] = {
	        "PyIter_Send", "gen_close", "gen_send_ex", "_PyGen_Send", NULL};
	static const char *const storage[] = {"THPVariable_set_(", "THPVariable_resize_(",
	        "THPVariable_resize_as_(", "THPVariable_set_data(", "THPStorage_resize_(", NULL};
	static const char *const in_place[] = {
	        "PyNumber_InPlace", "PySequence_InPlace", "list_inplace_", "dict_ior", NULL};
	static const char *const engine[] = {
	        "autograd::Engine::", "autograd::GraphTask", "autograd::call_function", NULL};
	static const char *const node[] = {"SavedVariable", "autograd::deleteNode",
	        "autograd::gatherFunctions", "release_variables", "autograd::Node::~", NULL};
	struct gm_teardown teardown = {0};
	size_t count;
	const uint64_t *addresses = gm_log_native_stack(log, native_stack, &count);
	bool in_python = false;
	for (size_t i = 0; i < count; i++) {
		struct gm_native_place place;
		gm_place_native(log, addresses[i], &place);
		if (!place.function)
			continue;
		teardown.named = true;
		/* Frames beyond the interpreter called it, and are not part of this teardown. */
		in_python |= any_of(place.function, interpreter);
		if (in_python)
			break;
		bool is_node =
		        any_of(place.function, node) ||
		        (strstr(place.function, "autograd::generated::") &&
		                (strchr(place.function, '~') || strstr(place.function, "release")));
		/* Even if a wrapper is further inside: a saved tensor may own its Python object. */
		teardown.node |= is_node;
		/* the name of the next node does not help: another node saved it, or nothing did */
		if (!teardown.node_name && strstr(place.function, "autograd::AccumulateGrad"))
			teardown.leaf = true;
		if (teardown.leaf)
			teardown.node = true;
		else if (is_node || strstr(place.function, "autograd::generated::"))
			find_node_name(place.function, &teardown);
		teardown.autocast |= strstr(place.function, "autocast::clear_cache") != NULL;
		teardown.wrapper |= any_of(place.function, wrapper);
		teardown.engine |= any_of(place.function, engine);
		teardown.generator |= any_of(place.function, generator);
		teardown.storage |= any_of(place.function, storage);
		teardown.in_place |= any_of(place.function, in_place);
		teardown.collector |= any_of(place.function, collector);
		teardown.finalizing |= any_of(place.function, finalizing);
	}
	if (in_python)
		teardown.finalizing = false;
	*ret_teardown = teardown;
}

static enum gm_cause_kind op_cause(enum gm_op op)
{
	switch (op) {
	case GM_OP_STORE_FAST:
	case GM_OP_STORE_NAME:
	case GM_OP_STORE_GLOBAL:
	case GM_OP_STORE_DEREF:
		return GM_CAUSE_REBOUND;
	case GM_OP_DELETE_FAST:
	case GM_OP_DELETE_NAME:
	case GM_OP_DELETE_GLOBAL:
	case GM_OP_DELETE_DEREF:
		return GM_CAUSE_DELETED;
	case GM_OP_STORE_ATTR:
	case GM_OP_DELETE_ATTR:
		return GM_CAUSE_ATTRIBUTE_CHANGE;
	case GM_OP_STORE_SUBSCR:
	case GM_OP_DELETE_SUBSCR:
		return GM_CAUSE_CONTAINER_CHANGE;
	case GM_OP_POP_EXCEPT:
		return GM_CAUSE_EXCEPTION_CLEARED;
	case GM_OP_RETURN:
		return GM_CAUSE_FUNCTION_RETURN;
	default:
		return GM_CAUSE_UNKNOWN;
	}
}

/* A call of a C function that releases objects (cpython/called.c), or the release of the object
 * that it returned. */
static enum gm_cause_kind call_cause(const struct gm_frame_place *place)
{
	const char *name = place->op_name;
	if ((place->op != GM_OP_CALL && place->op != GM_OP_POP_TOP) || !name)
		return GM_CAUSE_UNKNOWN;
	if (strcmp(name, "collect") == 0)
		return GM_CAUSE_GC_CYCLE;
	if (strcmp(name, "close") == 0)
		return GM_CAUSE_GENERATOR_END;
	return strstr(name, "attr") ? GM_CAUSE_ATTRIBUTE_CHANGE : GM_CAUSE_CONTAINER_CHANGE;
}

/* The frame of a stack with this code; false if none. */
static bool find_code(
        const struct gm_log *log, uint32_t stack, uint32_t code, struct gm_frame_place *ret_place)
{
	for (size_t i = 0; gm_place_frame(log, stack, i, ret_place); i++)
		if (ret_place->code == code)
			return true;
	return false;
}

/* Was the block created by the statement at `place`? */
static bool made_by_statement(
        const struct gm_log *log, const struct gm_event *made, const struct gm_frame_place *place)
{
	struct gm_frame_place maker;
	return find_code(log, made->python_stack, place->code, &maker) && maker.line == place->line;
}

/* The function called by the statement at `place` in which a block was created. False: the
 * statement created it itself, or a library's function did. */
static bool find_callee(const struct gm_log *log, const struct gm_event *made,
        const struct gm_frame_place *place, struct gm_frame_place *ret_callee)
{
	struct gm_frame_place frame, inner = {0};
	for (size_t i = 0; gm_place_frame(log, made->python_stack, i, &frame); i++) {
		if (frame.code == place->code) {
			*ret_callee = inner;
			return inner.code && !gm_file_is_library(inner.file);
		}
		inner = frame;
	}
	return false;
}

/* No variable of the statement explains it: according to the native frames, or to the function that
 * the statement called. */
static void by_teardown(const struct gm_log *log, const struct gm_event *made, bool own,
        bool same_step, struct gm_cause *cause)
{
	struct gm_frame_place callee;
	bool called = own && find_callee(log, made, &cause->place, &callee);
	if (cause->teardown.storage) {
		cause->kind = GM_CAUSE_STORAGE_CHANGE;
	} else if (cause->teardown.generator || (called && cause->place.op == GM_OP_YIELD)) {
		/* From CPython 3.12 on no function of C drives what is awaited. */
		cause->kind = GM_CAUSE_GENERATOR_END;
		cause->dying = called ? callee : cause->dying;
	} else if (cause->teardown.in_place) {
		cause->kind = GM_CAUSE_CONTAINER_CHANGE;
	} else if (called && cause->place.op == GM_OP_POP_TOP) {
		cause->kind = GM_CAUSE_RESULT_DROPPED;
		cause->dying = callee;
	} else if (own && same_step) {
		cause->kind = GM_CAUSE_TEMPORARY;
	}
}

static bool in_optimizer(const struct gm_log *log, uint32_t stack)
{
	struct gm_frame_place place;
	for (size_t i = 0; gm_place_frame(log, stack, i, &place); i++)
		if (strstr(place.file, "torch/optim/") && !strstr(place.function, "zero_grad"))
			return true;
	return false;
}

static bool by_dying_frame(
        const struct gm_log *log, const struct gm_event *freed, struct gm_cause *cause)
{
	struct gm_log_evidence evidence;
	if (!gm_log_evidence(log, freed->evidence, &evidence))
		return false;
	struct gm_log_code code = {0};
	gm_log_code(log, evidence.code, &code);
	cause->dying = (struct gm_frame_place){
	        .code = evidence.code,
	        .file = gm_log_string(log, code.file),
	        .function = gm_log_string(log, code.name),
	        .line = evidence.line,
	};
	cause->kind = evidence.kind == GM_EVIDENCE_GENERATOR ? GM_CAUSE_GENERATOR_END
	                                                     : GM_CAUSE_FUNCTION_RETURN;
	cause->name = evidence.name ? gm_log_string(log, evidence.name) : NULL;
	return true;
}

static void by_instruction(const struct gm_log *log, const struct gm_event *made, bool same_step,
        struct gm_cause *cause)
{
	const struct gm_frame_place *place = &cause->place;
	bool own = made && made_by_statement(log, made, place);
	cause->kind = op_cause(place->op);
	cause->name = cause->kind ? place->op_name : NULL;
	if (!cause->kind)
		cause->kind = call_cause(place);
	switch (cause->kind) {
	case GM_CAUSE_REBOUND:
		/* A store also releases objects that only the old value referred to. Without native
		 * frames, only a block that this very statement once created is certain to be the
		 * variable's own value. */
		if (!cause->teardown.named && !own)
			cause->kind = GM_CAUSE_UNKNOWN;
		break;
	case GM_CAUSE_UNKNOWN:
		by_teardown(log, made, own, same_step, cause);
		break;
	default:
		break;
	}
}

void gm_cause_find(
        const struct gm_model *model, const struct gm_block *block, struct gm_cause *ret_cause)
{
	const struct gm_log *log = gm_model_log(model);
	uint32_t number = gm_block_end(block);
	struct gm_event freed, made = {0};
	gm_log_event(log, number, &freed);
	bool has_made = block->alloc != GM_NO_EVENT;
	if (has_made)
		gm_log_event(log, block->alloc, &made);
	struct gm_cause cause = {.step = gm_model_step(model, number)};
	gm_teardown_read(log, freed.native_stack, &cause.teardown);
	cause.in_backward = gm_model_phase(model, number) == GM_PHASE_BACKWARD;
	bool has_place = gm_place_frame(log, freed.python_stack, 0, &cause.place);
	bool same_step = has_made && gm_model_step(model, block->alloc) == cause.step;
	const struct gm_teardown *teardown = &cause.teardown;
	if (!has_place) {
		cause.kind = teardown->finalizing                 ? GM_CAUSE_INTERPRETER_EXIT
		             : teardown->engine || teardown->node ? GM_CAUSE_AUTOGRAD_RELEASE
		             : teardown->named                    ? GM_CAUSE_NATIVE
		                                                  : GM_CAUSE_UNKNOWN;
	} else if (teardown->collector) {
		cause.kind = GM_CAUSE_GC_CYCLE;
	} else if (teardown->autocast) {
		cause.kind = GM_CAUSE_AUTOCAST_CACHE;
	} else if (teardown->node) {
		cause.kind = GM_CAUSE_AUTOGRAD_RELEASE;
		/* On the autograd thread, or within a backward pass, no Python instruction caused
		 * it. */
		bool in_backward = freed.flags & GM_EVENT_BORROWED || teardown->engine;
		if (!in_backward && !by_dying_frame(log, &freed, &cause) &&
		        op_cause(cause.place.op))
			cause.name = cause.place.op_name;
		cause.kind = GM_CAUSE_AUTOGRAD_RELEASE;
	} else if (freed.flags & GM_EVENT_BORROWED || (teardown->engine && !teardown->wrapper)) {
		/* In the backward pass: a kernel's temporary, or a saved tensor. */
		bool temporary = has_made && same_step &&
		                 gm_model_phase(model, block->alloc) == GM_PHASE_BACKWARD;
		cause.kind = temporary ? GM_CAUSE_TEMPORARY : GM_CAUSE_AUTOGRAD_RELEASE;
	} else if (by_dying_frame(log, &freed, &cause)) {
		if (in_optimizer(log, freed.python_stack))
			cause.kind = GM_CAUSE_OPTIMIZER;
	} else if (in_optimizer(log, freed.python_stack)) {
		cause.kind = GM_CAUSE_OPTIMIZER;
		cause.name = op_cause(cause.place.op) ? cause.place.op_name : NULL;
	} else {
		by_instruction(log, has_made ? &made : NULL, same_step, &cause);
	}
	*ret_cause = cause;
}
