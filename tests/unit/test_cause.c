/* Causes that follow from the evidence of a free, and evidence that leaves the cause unknown. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "render/cause.h"
#include "synthetic.h"

#define TORCH "/venv/lib/python3.11/site-packages/torch/"

/* The native frames where a variable's tensor is destroyed, and where one saved by a graph is. */
static const char *const own_frames[] = {"c10::reportMemoryUsageToProfiler(void*, long)",
        "c10::TensorImpl::~TensorImpl()", "THPVariable_clear(THPVariable*)",
        "THPVariable_dealloc(_object*)", "_PyEval_EvalFrameDefault", "Py_RunMain", NULL};
static const char *const graph_frames[] = {"c10::reportMemoryUsageToProfiler(void*, long)",
        "c10::TensorImpl::~TensorImpl()", "THPVariable_dealloc(_object*)",
        "torch::autograd::SavedVariable::reset_data()",
        "torch::autograd::generated::AddmmBackward0::release_variables()",
        "torch::autograd::deleteNode(torch::autograd::Node*)", "THPVariable_dealloc(_object*)",
        "_PyEval_EvalFrameDefault", NULL};
static const char *const collector_frames[] = {"c10::TensorImpl::~TensorImpl()",
        "THPVariable_dealloc(_object*)", "delete_garbage", "gc_collect_main",
        "_PyEval_EvalFrameDefault", NULL};
static const char *const exit_frames[] = {"c10::TensorImpl::~TensorImpl()",
        "THPVariable_dealloc(_object*)", "finalize_modules", "Py_FinalizeEx", "Py_RunMain", NULL};
static const char *const engine_frames[] = {"c10::TensorImpl::~TensorImpl()",
        "torch::autograd::generated::ReluBackward0::release_variables()",
        "torch::autograd::Engine::thread_main", NULL};

struct scene {
	const char *const *native; /* NULL: not recorded */
	enum gm_op op;
	const char *op_name;
	const char *file;    /* of the freeing frame; NULL: it has none */
	bool same_statement; /* the block was made by the line that frees it */
	bool dying;          /* a frame was being torn down, local "held" */
	uint32_t flags;
};

static void ask(const struct scene *scene, enum gm_cause_kind want, const char *name)
{
	struct synthetic log;
	struct gm_context context;
	synthetic_begin(&log);
	uint32_t code =
	        synthetic_code(&log, scene->file ? scene->file : "train.py", "train", NULL, 0);
	uint32_t other = synthetic_code(&log, "other.py", "make", NULL, 0);
	uint32_t freeing = synthetic_frame(&log, code, 50, scene->op, scene->op_name);
	uint32_t making = scene->same_statement
	                          ? synthetic_frame(&log, code, 50, GM_OP_CALL, NULL)
	                          : synthetic_frame(&log, other, 10, GM_OP_CALL, NULL);
	uint32_t made = synthetic_stack(&log, making, 0, 0, 0);
	uint32_t freed = scene->file ? synthetic_stack(&log, freeing, 0, 0, 0) : 0;
	synthetic_event(&log, GM_ALLOC, 0x1000, 512, made);
	log.native = scene->native ? synthetic_native(&log, scene->native) : 0;
	log.flags = scene->flags;
	if (scene->dying)
		log.evidence = gm_log_writer_evidence(
		        log.writer, &(struct gm_log_evidence){GM_EVIDENCE_DYING_FRAME, other, 12,
		                            gm_log_writer_string(log.writer, "held")});
	synthetic_free(&log, 0x1000, 512, freed);
	synthetic_model(&log, &context);
	struct gm_why why;
	assert_null(gm_ask_why(&context, 0, &why));
	assert_string_equal(gm_cause_name(why.cause.kind), gm_cause_name(want));
	if (name)
		assert_string_equal(why.cause.name, name);
	else
		assert_null(why.cause.name);
	gm_context_deinit(&context);
}

static void instructions_have_their_effect_on_the_holder(void **state)
{
	static const struct {
		enum gm_op op;
		enum gm_cause_kind kind;
	} table[] = {
	        {GM_OP_STORE_FAST, GM_CAUSE_REBOUND},
	        {GM_OP_STORE_NAME, GM_CAUSE_REBOUND},
	        {GM_OP_STORE_GLOBAL, GM_CAUSE_REBOUND},
	        {GM_OP_STORE_DEREF, GM_CAUSE_REBOUND},
	        {GM_OP_DELETE_FAST, GM_CAUSE_DELETED},
	        {GM_OP_DELETE_NAME, GM_CAUSE_DELETED},
	        {GM_OP_STORE_ATTR, GM_CAUSE_ATTRIBUTE_CHANGE},
	        {GM_OP_DELETE_ATTR, GM_CAUSE_ATTRIBUTE_CHANGE},
	        {GM_OP_STORE_SUBSCR, GM_CAUSE_CONTAINER_CHANGE},
	        {GM_OP_DELETE_SUBSCR, GM_CAUSE_CONTAINER_CHANGE},
	        {GM_OP_POP_EXCEPT, GM_CAUSE_EXCEPTION_CLEARED},
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		ask(&(struct scene){own_frames, table[i].op, "x", "train.py"}, table[i].kind, "x");
}

static void a_graph_that_saved_the_tensor_is_the_cause_and_not_the_store(void **state)
{
	ask(&(struct scene){graph_frames, GM_OP_STORE_NAME, "outputs", "train.py"},
	        GM_CAUSE_AUTOGRAD_RELEASE, "outputs");
}

static void the_graph_is_named_by_its_node(void **state)
{
	struct synthetic log;
	struct gm_context context;
	synthetic_begin(&log);
	uint32_t code = synthetic_code(&log, "train.py", "<module>", NULL, 0);
	uint32_t stack = synthetic_stack(
	        &log, synthetic_frame(&log, code, 50, GM_OP_STORE_NAME, "outputs"), 0, 0, 0);
	synthetic_event(&log, GM_ALLOC, 0x1000, 512, stack);
	log.native = synthetic_native(&log, graph_frames);
	synthetic_free(&log, 0x1000, 512, stack);
	synthetic_model(&log, &context);
	struct gm_why why;
	assert_null(gm_ask_why(&context, 0, &why));
	char *text;
	assert_null(gm_cause_held_until(&why, &text));
	assert_string_equal(text, "the autograd graph of `outputs` (saved for backward "
	                          "by AddmmBackward0) until train.py:50");
	free(text);
	gm_context_deinit(&context);
}

static void without_native_frames_a_store_claims_only_what_its_line_made(void **state)
{
	ask(&(struct scene){NULL, GM_OP_STORE_FAST, "x", "train.py", .same_statement = true},
	        GM_CAUSE_REBOUND, "x");
	ask(&(struct scene){NULL, GM_OP_STORE_FAST, "x", "train.py"}, GM_CAUSE_UNKNOWN, "x");
}

static void a_dying_frame_is_a_function_that_returned(void **state)
{
	ask(&(struct scene){own_frames, GM_OP_CALL, NULL, "train.py", .dying = true},
	        GM_CAUSE_FUNCTION_RETURN, "held");
}

static void frees_within_the_collector_are_cycles(void **state)
{
	ask(&(struct scene){collector_frames, GM_OP_CALL, NULL, "train.py"}, GM_CAUSE_GC_CYCLE,
	        NULL);
}

static void a_block_that_the_line_allocated_and_released_is_a_temporary(void **state)
{
	ask(&(struct scene){own_frames, GM_OP_OTHER, NULL, "train.py", .same_statement = true},
	        GM_CAUSE_TEMPORARY, NULL);
}

static void a_dropped_result_that_another_line_made_is_unknown(void **state)
{
	ask(&(struct scene){own_frames, GM_OP_POP_TOP, NULL, "train.py"}, GM_CAUSE_UNKNOWN, NULL);
	ask(&(struct scene){own_frames, GM_OP_CALL, NULL, "train.py"}, GM_CAUSE_UNKNOWN, NULL);
}

static void the_optimizer_is_recognized_by_its_frames(void **state)
{
	ask(&(struct scene){own_frames, GM_OP_STORE_FAST, "denom", TORCH "optim/adamw.py"},
	        GM_CAUSE_OPTIMIZER, "denom");
}

static void frees_without_python_are_recognized_by_native_frames_alone(void **state)
{
	ask(&(struct scene){exit_frames}, GM_CAUSE_INTERPRETER_EXIT, NULL);
	ask(&(struct scene){engine_frames}, GM_CAUSE_AUTOGRAD_RELEASE, NULL);
	ask(&(struct scene){(const char *const[]){"MyPool::drop()", "main", NULL}}, GM_CAUSE_NATIVE,
	        NULL);
	ask(&(struct scene){0}, GM_CAUSE_UNKNOWN, NULL);
}

static void on_the_autograd_thread_the_waiting_callers_instruction_is_no_cause(void **state)
{
	ask(&(struct scene){engine_frames, GM_OP_STORE_FAST, "x", "train.py",
	            .flags = GM_EVENT_BORROWED},
	        GM_CAUSE_AUTOGRAD_RELEASE, NULL);
}

static void a_tensor_saved_by_the_graph_is_released_by_its_replacement(void **state)
{
	struct synthetic log;
	struct gm_context context;
	synthetic_begin(&log);
	const struct gm_log_loop loop = {20, 80, 20, 79};
	uint32_t code = synthetic_code(&log, "train.py", "<module>", &loop, 1);
	uint32_t input = synthetic_stack(&log, synthetic_frame(&log, code, 30, 0, NULL), 0, 0, 0);
	uint32_t store = synthetic_stack(
	        &log, synthetic_frame(&log, code, 50, GM_OP_STORE_NAME, "outputs"), 0, 0, 0);
	synthetic_event(&log, GM_ALLOC, 0x1000, 1 << 20, input);
	synthetic_event(&log, GM_ALLOC, 0x200000, 2 << 20, store);
	synthetic_event(&log, GM_ALLOC, 0x400000, 1 << 20, input);
	synthetic_event(&log, GM_ALLOC, 0x600000, 2 << 20, store);
	log.native = synthetic_native(&log, graph_frames);
	synthetic_free(&log, 0x1000, 1 << 20, store);
	log.native = synthetic_native(&log, own_frames);
	synthetic_free(&log, 0x200000, 2 << 20, store);
	synthetic_model(&log, &context);
	struct gm_why why;
	char *text;
	assert_null(gm_ask_why(&context, 0, &why));
	assert_null(gm_cause_sentence(&why, &text));
	assert_string_equal(text,
	        "The block of 1.00 MiB was allocated at train.py:30 in step 1; the autograd graph "
	        "released it (saved for backward by AddmmBackward0) when the graph of `outputs` "
	        "was freed, because `outputs` was released at train.py:50 in step 2, after that "
	        "line had allocated another 2.00 MiB (#3).");
	free(text);
	assert_null(gm_ask_why(&context, 1, &why));
	assert_null(gm_cause_sentence(&why, &text));
	assert_string_equal(text,
	        "The block of 2.00 MiB was allocated at train.py:50 in step 1 and was "
	        "released by the rebinding of `outputs` at train.py:50 in step 2, after the next "
	        "block of the same line (#3) had been allocated: both were alive at the same "
	        "time.");
	free(text);
	gm_context_deinit(&context);
}

static void a_live_block_is_reported_as_live(void **state)
{
	struct synthetic log;
	struct gm_context context;
	synthetic_begin(&log);
	synthetic_event(&log, GM_ALLOC, 0x1000, 512, 0);
	synthetic_model(&log, &context);
	struct gm_why why;
	assert_null(gm_ask_why(&context, 0, &why));
	assert_int_equal(why.freed, GM_NO_EVENT);
	char *text;
	assert_null(gm_cause_held_until(&why, &text));
	assert_null(text);
	assert_null(gm_cause_sentence(&why, &text));
	assert_non_null(strstr(text, "is still alive at the end of the record"));
	free(text);
	gm_context_deinit(&context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(instructions_have_their_effect_on_the_holder),
	        cmocka_unit_test(a_graph_that_saved_the_tensor_is_the_cause_and_not_the_store),
	        cmocka_unit_test(the_graph_is_named_by_its_node),
	        cmocka_unit_test(without_native_frames_a_store_claims_only_what_its_line_made),
	        cmocka_unit_test(a_dying_frame_is_a_function_that_returned),
	        cmocka_unit_test(frees_within_the_collector_are_cycles),
	        cmocka_unit_test(a_block_that_the_line_allocated_and_released_is_a_temporary),
	        cmocka_unit_test(a_dropped_result_that_another_line_made_is_unknown),
	        cmocka_unit_test(the_optimizer_is_recognized_by_its_frames),
	        cmocka_unit_test(frees_without_python_are_recognized_by_native_frames_alone),
	        cmocka_unit_test(
	                on_the_autograd_thread_the_waiting_callers_instruction_is_no_cause),
	        cmocka_unit_test(a_tensor_saved_by_the_graph_is_released_by_its_replacement),
	        cmocka_unit_test(a_live_block_is_reported_as_live),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
