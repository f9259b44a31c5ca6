/* Conditions: what they select, which errors they report and where; shapes are compared with a
 * simple matcher. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/condition.h"
#include "torch/dtypes.h"
#include "base/error.h"
#include "model/native_names.h"

/* A subject with a size and a step; all other properties are unknown. */
struct subject {
	uint64_t size, step;
};

static enum gm_truth judge(const void *context, const struct gm_clause *clause)
{
	const struct subject *subject = context;
	if (clause->fact == GM_FACT_SIZE)
		return gm_compare_numbers(subject->size, clause);
	if (clause->fact == GM_FACT_STEP)
		return gm_compare_numbers(subject->step, clause);
	return GM_UNKNOWN;
}

static enum gm_truth holds(const char *text, uint64_t size, uint64_t step)
{
	struct gm_condition *condition = NULL;
	struct gm_error *error = gm_condition_parse(text, GM_OF_BLOCKS, NULL, &condition);
	if (error)
		fail_msg("%s", error->message);
	const struct subject subject = {size, step};
	enum gm_truth truth = gm_condition_holds(condition, judge, &subject);
	gm_condition_destroy(condition);
	return truth;
}

static void numbers_compare_with_units(void **state)
{
	assert_int_equal(holds("size>1MiB", (1 << 20) + 1, 0), GM_TRUE);
	assert_int_equal(holds("size>1MiB", 1 << 20, 0), GM_FALSE);
	assert_int_equal(holds("size >= 1MiB", 1 << 20, 0), GM_TRUE);
	assert_int_equal(holds("size<'1.5 KiB'", 1535, 0), GM_TRUE);
	assert_int_equal(holds("size<=1.5KiB", 1537, 0), GM_FALSE);
	assert_int_equal(holds("step=3", 0, 3), GM_TRUE);
	assert_int_equal(holds("step==4", 0, 3), GM_FALSE);
	assert_int_equal(holds("step!=4", 0, 3), GM_TRUE);
	assert_int_equal(holds("step=010", 0, 10), GM_TRUE); /* not octal */
	assert_int_equal(holds("step=08", 0, 8), GM_TRUE);
	assert_int_equal(holds("step=0x1F", 0, 31), GM_TRUE);
	assert_int_equal(holds("size=64mb", 64 << 20, 0), GM_TRUE);
}

static void and_binds_more_tightly_than_or(void **state)
{
	assert_int_equal(holds("step=1 or step=2 and size=9", 0, 1), GM_TRUE);
	assert_int_equal(holds("(step=1 or step=2) and size=9", 0, 1), GM_FALSE);
	assert_int_equal(holds("not step=1 and size=0", 0, 2), GM_TRUE);
	assert_int_equal(holds("not (step=1 or size=0)", 0, 2), GM_FALSE);
	assert_int_equal(holds("not not step=1", 0, 1), GM_TRUE);
}

/* Kleene's tables: false, true and unknown on either side. */
static void what_is_unknown_decides_nothing(void **state)
{
	static const char *const clause[] = {"step=2", "step=1", "label=x"};
	static const enum gm_truth both[3][3] = {
	        {GM_FALSE, GM_FALSE, GM_FALSE},
	        {GM_FALSE, GM_TRUE, GM_UNKNOWN},
	        {GM_FALSE, GM_UNKNOWN, GM_UNKNOWN},
	};
	static const enum gm_truth either[3][3] = {
	        {GM_FALSE, GM_TRUE, GM_UNKNOWN},
	        {GM_TRUE, GM_TRUE, GM_TRUE},
	        {GM_UNKNOWN, GM_TRUE, GM_UNKNOWN},
	};
	static const enum gm_truth opposite[3] = {GM_TRUE, GM_FALSE, GM_UNKNOWN};
	for (int left = 0; left < 3; left++) {
		char text[128];
		snprintf(text, sizeof(text), "not %s", clause[left]);
		assert_int_equal(holds(text, 0, 1), opposite[left]);
		for (int right = 0; right < 3; right++) {
			snprintf(text, sizeof(text), "%s and %s", clause[left], clause[right]);
			assert_int_equal(holds(text, 0, 1), both[left][right]);
			snprintf(text, sizeof(text), "%s or %s", clause[left], clause[right]);
			assert_int_equal(holds(text, 0, 1), either[left][right]);
		}
	}
	assert_int_equal(holds("dtype!=float16", 0, 1), GM_UNKNOWN);
}

static void a_dtype_may_have_any_of_its_names_in_pytorch(void **state)
{
	static const char *const names[][2] = {{"half", "float16"}, {"torch.float", "float32"},
	        {"double", "float64"}, {"torch.int64", "int64"}, {"long", "int64"},
	        {"torch.bfloat16", "bfloat16"}};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		assert_string_equal(gm_torch_dtype_meant(names[i][0]), names[i][1]);
	struct gm_condition *condition = NULL;
	assert_null(gm_condition_parse("dtype=torch.half", GM_OF_BLOCKS, NULL, &condition));
	gm_condition_destroy(condition);
}

static void a_malformed_condition_is_refused_at_its_column(void **state)
{
	static const struct {
		const char *text, *message;
	} wrong[] = {
	        {"siez>1", "'siez>1', column 1: siez is not known: did you mean size?"},
	        {"colour=1", "'colour=1', column 1: colour is not known: expected one of size, "},
	        {"size>1 and dtyp=x",
	                "'size>1 and dtyp=x', column 12: dtyp is not known: did you mean dtype?"},
	        {"dtype='flaot32'", "'dtype='flaot32'', column 7: flaot32 is not a dtype: did you "
	                            "mean float32?"},
	        {"category=paramter", "'category=paramter', column 10: paramter is not a category: "
	                              "did you mean parameter?"},
	        {"", "'', column 1: expected one of size, "},
	        {"size", "'size', column 5: expected one of = != < <= > >= ~"},
	        {"size>", "'size>', column 6: expected a value"},
	        {"size>big", "'size>big', column 6: 'big' is not a size: "},
	        {"size~1", "'size~1', column 6: size cannot be compared like this: use = != < <= > "
	                   ">="},
	        {"dtype>float16", "'dtype>float16', column 7: dtype cannot be compared like this: "
	                          "use = != ~"},
	        {"dtype=string", "'dtype=string', column 7: string is not a dtype: expected one "
	                         "of uint8, "},
	        {"phase=forwards", "'phase=forwards', column 7: forwards is not a phase: did you "
	                           "mean forward?"},
	        {"category=x", "'category=x', column 10: x is not a category: expected one of "},
	        {"size>1 size>2", "'size>1 size>2', column 8: expected and, or or the end"},
	        {"(size>1", "'(size>1', column 8: expected and, or or )"},
	        {"label='x", "'label='x', column 7: the quote is not closed"},
	        {"line=a.py:x", "'line=a.py:x', column 6: expected FILE or FILE:LINE"},
	        {"step=x", "'step=x', column 6: 'x' is not a number"},
	        {"step=0x", "'step=0x', column 6: '0x' is not a number"},
	        {"step=0x0x1", "'step=0x0x1', column 6: '0x0x1' is not a number"},
	        {"step=18446744073709551616",
	                "'step=18446744073709551616', column 6: '18446744073709551616' is not a "
	                "number"},
	        {"line=a.py:-1", "'line=a.py:-1', column 6: expected FILE or FILE:LINE"},
	        {"shape=[9223372036854775808]",
	                "'shape=[9223372036854775808]', column 8: no tensor has such a size"},
	        {"shape=8", "'shape=8', column 7: expected a shape, like "},
	        {"shape=[8 9]", "'shape=[8 9]', column 10: expected , or ]"},
	        {"shape=[a]", "'shape=[a]', column 8: expected a size, * or ..."},
	        {"shape=[8", "'shape=[8', column 9: expected , or ]"},
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct gm_condition *condition = NULL;
		struct gm_error *error =
		        gm_condition_parse(wrong[i].text, GM_OF_BLOCKS, NULL, &condition);
		assert_non_null(error);
		assert_null(condition);
		assert_int_equal(error->status, GM_USAGE);
		if (strncmp(error->message, wrong[i].message, strlen(wrong[i].message)) != 0)
			fail_msg("%s: %s", wrong[i].text, error->message);
		gm_error_destroy(error);
	}
}

static void a_fact_that_is_not_known_there_is_refused_with_the_reason(void **state)
{
	static const struct {
		const char *text;
		enum gm_subject subject;
		const char *message;
	} wrong[] = {
	        {"size>1 and category=gradient", GM_OF_EVENTS,
	                "'size>1 and category=gradient', column 12: category is not known at an "
	                "event: it follows from how long the block will live."},
	        {"label=x", GM_OF_EVENTS, "'label=x', column 1: label is not known at an event: "},
	        {"overflow", GM_OF_EVENTS,
	                "'overflow', column 1: overflow is not known at a breakpoint, which sees "},
	        {"skipped=1", GM_OF_BLOCKS,
	                "'skipped=1', column 1: skipped is not a property of a "},
	        {"size>1 and skipped = 1", GM_OF_AGENT_EVENTS,
	                "'size>1 and skipped = 1', column 20: skipped takes no comparison: "
	                "write skipped, or not skipped"},
	        {"action=alloc", GM_OF_BLOCKS,
	                "'action=alloc', column 1: action is not a property of a block: it is "
	                "one "},
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct gm_condition *condition = NULL;
		struct gm_error *error =
		        gm_condition_parse(wrong[i].text, wrong[i].subject, NULL, &condition);
		assert_non_null(error);
		if (strncmp(error->message, wrong[i].message, strlen(wrong[i].message)) != 0)
			fail_msg("%s: %s", wrong[i].text, error->message);
		gm_error_destroy(error);
	}
}

/* ---- stacks ---- */

struct stack {
	struct gm_condition_frame python[8]; /* up to one without a file */
	const char *native[8];
};

static bool python_frame(const void *context, size_t i, struct gm_condition_frame *ret_frame)
{
	const struct stack *stack = context;
	*ret_frame = stack->python[i];
	return ret_frame->file != NULL;
}

static const char *native_function(const void *context, size_t i)
{
	return ((const struct stack *)context)->native[i];
}

static enum gm_truth judge_stack(const void *subject, const struct gm_clause *clause)
{
	const struct gm_condition_stacks stacks = {subject, python_frame, native_function};
	return gm_compare_stacks(&stacks, clause);
}

static enum gm_truth stack_holds(const struct stack *stack, const char *text)
{
	struct gm_condition *condition = NULL;
	assert_null(gm_condition_parse(text, GM_OF_EVENTS, NULL, &condition));
	enum gm_truth truth = gm_condition_holds(condition, judge_stack, stack);
	gm_condition_destroy(condition);
	return truth;
}

#define MODULE_PY "/x/site-packages/torch/nn/modules/module.py"

static void stacks_show_modules_operators_and_collectives(void **state)
{
	const struct stack stack = {
	        .python = {{"/x/linear.py", "Linear.forward", 1},
	                {MODULE_PY, "Module._call_impl", 2}, {"a.py", "f.<locals>.Net.forward", 3},
	                {MODULE_PY, "Module._call_impl", 4},
	                {"/x/site-packages/torch/distributed/distributed_c10d.py", "all_reduce", 5},
	                {"a.py", "Other.forward", 6}},
	        .native = {"at::_ops::empty::call()", "at::_ops::addmm::redispatch(x)", "",
	                "torch::autograd::generated::AddmmBackward0::apply(y)",
	                "c10d::ProcessGroupNCCL::allgather_into_tensor_coalesced(z)"},
	};
	assert_int_equal(stack_holds(&stack, "module=Linear"), GM_TRUE);
	assert_int_equal(stack_holds(&stack, "module=Net"), GM_TRUE);
	assert_int_equal(stack_holds(&stack, "module=Other"), GM_FALSE);
	assert_int_equal(stack_holds(&stack, "module!=Net"), GM_FALSE);
	assert_int_equal(stack_holds(&stack, "operator=aten::addmm"), GM_TRUE);
	assert_int_equal(stack_holds(&stack, "operator=empty"), GM_FALSE);
	assert_int_equal(stack_holds(&stack, "node~Addmm"), GM_TRUE);
	assert_int_equal(stack_holds(&stack, "collective=allreduce"), GM_TRUE);
	assert_int_equal(
	        stack_holds(&stack, "collective=all_gather_into_tensor_coalesced"), GM_TRUE);
	assert_int_equal(stack_holds(&stack, "collective=none"), GM_FALSE);
	assert_int_equal(stack_holds(&stack, "collective!=none"), GM_TRUE);

	const struct stack without = {.python = {{"a.py", "f", 1}}};
	assert_int_equal(stack_holds(&without, "module!=Net"), GM_TRUE);
	assert_int_equal(stack_holds(&without, "operator!=mm"), GM_UNKNOWN);
	assert_int_equal(stack_holds(&without, "collective=none"), GM_UNKNOWN);
	const struct stack nothing = {0};
	assert_int_equal(stack_holds(&nothing, "module!=Net"), GM_UNKNOWN);
	/* CPython before 3.11: the name has no class */
	const struct stack old = {.python = {{"a.py", "forward", 1}, {MODULE_PY, "_call_impl", 2}}};
	assert_int_equal(stack_holds(&old, "module!=Net"), GM_UNKNOWN);
	const struct stack plain = {.native = {"main", ""}};
	assert_int_equal(stack_holds(&plain, "collective=none"), GM_TRUE);
	assert_int_equal(stack_holds(&plain, "node!=X"), GM_TRUE);
}

static void native_names_are_cut_and_never_overrun(void **state)
{
	char name[GM_NATIVE_NAME_MAX], text[1024] = "at::_ops::";
	memset(text + 10, 'x', 1000);
	assert_true(gm_native_operator(text, name));
	assert_int_equal(strlen(name), GM_NATIVE_NAME_MAX - 1);
	assert_false(gm_native_operator("at::_ops::", name));
	assert_false(gm_native_collective("c10d::Reducer::~Reducer()", name));
	assert_false(gm_native_collective("f(c10d::Reducer::mark())", name));
	assert_false(gm_native_collective("c10d::", name));
	assert_true(gm_native_collective("c10d::f<c10d::g>(int)", name));
	assert_string_equal(name, "f");
}

static void nesting_and_length_are_bounded(void **state)
{
	char text[5000];
	struct gm_condition *condition = NULL;
	memset(text, '(', sizeof(text) - 1);
	text[1000] = '\0';
	struct gm_error *error = gm_condition_parse(text, GM_OF_BLOCKS, NULL, &condition);
	assert_non_null(strstr(error->message, "nested too deeply"));
	gm_error_destroy(error);
	memset(text, ' ', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	error = gm_condition_parse(text, GM_OF_BLOCKS, NULL, &condition);
	assert_non_null(strstr(error->message, "may have 4095 characters"));
	gm_error_destroy(error);
	for (size_t i = 0; i < 60; i++)
		memcpy(text + 4 * i, "not ", 5);
	strcat(text, "step=1");
	assert_int_equal(holds(text, 0, 1), GM_TRUE);
}

/* A simple matcher: it tries everything. */
static bool plain(const int64_t *sizes, size_t count, const int64_t *pattern, size_t length)
{
	if (length == 0)
		return count == 0;
	if (pattern[0] == GM_ANY_SIZES) {
		for (size_t take = 0; take <= count; take++)
			if (plain(sizes + take, count - take, pattern + 1, length - 1))
				return true;
		return false;
	}
	return count > 0 && (pattern[0] == GM_ANY_SIZE || pattern[0] == sizes[0]) &&
	       plain(sizes + 1, count - 1, pattern + 1, length - 1);
}

static void shapes_match_as_a_plain_matcher_says(void **state)
{
	unsigned seed = 7, matched = 0;
	for (int round = 0; round < 20000; round++) {
		char text[256] = "shape=[";
		int64_t sizes[6], pattern[6];
		size_t count = (size_t)rand_r(&seed) % 6, length = (size_t)rand_r(&seed) % 6;
		for (size_t i = 0; i < count; i++)
			sizes[i] = 1 + rand_r(&seed) % 3;
		for (size_t i = 0; i < length; i++) {
			int kind = rand_r(&seed) % 5;
			pattern[i] = kind == 0   ? GM_ANY_SIZES
			             : kind == 1 ? GM_ANY_SIZE
			                         : 1 + rand_r(&seed) % 3;
			size_t at = strlen(text);
			if (pattern[i] > 0)
				snprintf(text + at, sizeof(text) - at, "%s%d", i ? ", " : "",
				        (int)pattern[i]);
			else
				snprintf(text + at, sizeof(text) - at, "%s%s", i ? ", " : "",
				        pattern[i] == GM_ANY_SIZE ? "*" : "...");
		}
		strcat(text, "]");
		struct gm_condition *condition = NULL;
		assert_null(gm_condition_parse(text, GM_OF_BLOCKS, NULL, &condition));
		struct gm_clause clause = {
		        .fact = GM_FACT_SHAPE, .compare = GM_IS, .size_count = length};
		memcpy(clause.sizes, pattern, length * sizeof(*pattern));
		bool wanted = plain(sizes, count, pattern, length);
		matched += wanted;
		if (gm_compare_shapes(sizes, count, &clause) != (wanted ? GM_TRUE : GM_FALSE))
			fail_msg("round %d: %s", round, text);
		clause.compare = GM_IS_NOT;
		assert_int_equal(
		        gm_compare_shapes(sizes, count, &clause), wanted ? GM_FALSE : GM_TRUE);
		gm_condition_destroy(condition);
	}
	assert_in_range(matched, 1000, 19000);
}

static struct gm_condition *parse_of_events(const char *text)
{
	struct gm_condition *condition = NULL;
	struct gm_error *error = gm_condition_parse(text, GM_OF_EVENTS, NULL, &condition);
	if (error)
		fail_msg("%s", error->message);
	return condition;
}

static void events_and_blocks_have_different_properties(void **state)
{
	static const char *const of_events[] = {"event=3", "block=7", "device=0", "allocated>20GiB",
	        "reserved<1MiB", "action=free_requested"};
	static const char *const of_blocks[] = {"category=gradient", "label=x"};
	static const char *const of_both[] = {"operator=mm", "node=x", "module=Linear",
	        "collective=none", "function=f", "line=a.py:1", "dtype=float16", "shape=[8]"};
	for (size_t i = 0; i < sizeof(of_both) / sizeof(*of_both); i++) {
		struct gm_condition *condition = parse_of_events(of_both[i]);
		gm_condition_destroy(condition);
		assert_null(gm_condition_parse(of_both[i], GM_OF_BLOCKS, NULL, &condition));
		gm_condition_destroy(condition);
	}
	for (size_t i = 0; i < sizeof(of_events) / sizeof(*of_events); i++) {
		struct gm_condition *condition = parse_of_events(of_events[i]);
		gm_condition_destroy(condition);
		size_t column = 0;
		condition = NULL;
		gm_error_destroy(
		        gm_condition_parse(of_events[i], GM_OF_BLOCKS, &column, &condition));
		assert_int_equal(column, 1);
		assert_null(condition);
	}
	for (size_t i = 0; i < sizeof(of_blocks) / sizeof(*of_blocks); i++) {
		struct gm_condition *condition = NULL;
		assert_null(gm_condition_parse(of_blocks[i], GM_OF_BLOCKS, NULL, &condition));
		gm_condition_destroy(condition);
		condition = NULL;
		size_t column = 0;
		gm_error_destroy(
		        gm_condition_parse(of_blocks[i], GM_OF_EVENTS, &column, &condition));
		assert_int_equal(column, 1);
		assert_null(condition);
	}
	size_t column = 0;
	struct gm_condition *condition = NULL;
	struct gm_error *error =
	        gm_condition_parse("size>1 and action=release", GM_OF_EVENTS, &column, &condition);
	assert_int_equal(column, 19);
	assert_non_null(strstr(error->message, "expected one of alloc, free_requested, "));
	gm_error_destroy(error);
}

static bool is_hopeless(const char *text, uint64_t step, uint64_t event)
{
	struct gm_condition *condition = parse_of_events(text);
	bool hopeless = gm_condition_is_hopeless(condition, step, event);
	gm_condition_destroy(condition);
	return hopeless;
}

static void conditions_that_can_never_hold_are_recognized(void **state)
{
	assert_true(is_hopeless("size<0", 0, 0));
	assert_true(is_hopeless("size>2 and size<3", 0, 0));
	assert_false(is_hopeless("size>2 and size<4", 0, 0));
	assert_true(is_hopeless("step=2", 3, 0));
	assert_false(is_hopeless("step=3", 3, 0));
	assert_false(is_hopeless("step=0", 3, 0)); /* after the loop */
	assert_false(is_hopeless("step<2", 3, 0));
	assert_true(is_hopeless("step<2 and step>0", 3, 0));
	assert_true(is_hopeless("event<=9", 0, 10));
	assert_true(is_hopeless("phase=forward and (phase=backward or size<0)", 0, 0));
	assert_false(is_hopeless("phase=forward or phase=backward and size<0", 0, 0));
	assert_false(is_hopeless("function=a and function=b", 0, 0)); /* of two frames */
	assert_false(is_hopeless("not size<0", 0, 0));
}

static enum gm_truth judge_three(const void *context, const struct gm_clause *clause)
{
	const uint64_t *numbers = context;
	return gm_compare_numbers(numbers[clause->fact == GM_FACT_SIZE   ? 0
	                                  : clause->fact == GM_FACT_STEP ? 1
	                                                                 : 2],
	        clause);
}

/* Compared with all possible events of small numbers. */
static void a_condition_called_hopeless_holds_for_no_event(void **state)
{
	static const char *const facts[] = {"size", "step", "event"};
	static const char *const compares[] = {"=", "!=", "<", "<=", ">", ">="};
	unsigned seed = 11, hopeless = 0, exact = 0;
	for (int round = 0; round < 4000; round++) {
		char text[256] = "";
		uint64_t step = (uint64_t)rand_r(&seed) % 4, event = (uint64_t)rand_r(&seed) % 4;
		int count = 1 + rand_r(&seed) % 4;
		bool plain_and = true;
		for (int i = 0; i < count; i++) {
			int compare = rand_r(&seed) % 6, joined = rand_r(&seed) % 4;
			bool negated = rand_r(&seed) % 5 == 0;
			if (compare == 1 || negated || (i && joined == 0))
				plain_and = false;
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s%s%s%d",
			        i == 0        ? ""
			        : joined == 0 ? " or "
			                      : " and ",
			        negated ? "not " : "", facts[rand_r(&seed) % 3], compares[compare],
			        rand_r(&seed) % 6);
		}
		struct gm_condition *condition = parse_of_events(text);
		bool said = gm_condition_is_hopeless(condition, step, event), found = false;
		for (uint64_t at = 0; at < 8 * 8 * 8; at++) {
			const uint64_t numbers[] = {at % 8, at / 8 % 8, at / 64};
			if ((numbers[1] != 0 && numbers[1] < step) || numbers[2] < event)
				continue;
			found |= gm_condition_holds(condition, judge_three, numbers) == GM_TRUE;
		}
		gm_condition_destroy(condition);
		if (said && found)
			fail_msg("round %d: %s can hold", round, text);
		if (plain_and && !said && !found)
			fail_msg("round %d: %s cannot hold", round, text);
		hopeless += said;
		exact += plain_and;
	}
	assert_in_range(hopeless, 200, 3800);
	assert_in_range(exact, 200, 3800);
}

static void a_file_matches_by_the_end_of_its_path(void **state)
{
	assert_true(gm_is_file("/a/b/train.py", "train.py"));
	assert_true(gm_is_file("/a/b/train.py", "b/train.py"));
	assert_true(gm_is_file("/a/b/train.py", "/a/b/train.py"));
	assert_false(gm_is_file("/a/b/train.py", "rain.py"));
	assert_false(gm_is_file("train.py", "b/train.py"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(numbers_compare_with_units),
	        cmocka_unit_test(and_binds_more_tightly_than_or),
	        cmocka_unit_test(what_is_unknown_decides_nothing),
	        cmocka_unit_test(a_dtype_may_have_any_of_its_names_in_pytorch),
	        cmocka_unit_test(a_malformed_condition_is_refused_at_its_column),
	        cmocka_unit_test(a_fact_that_is_not_known_there_is_refused_with_the_reason),
	        cmocka_unit_test(stacks_show_modules_operators_and_collectives),
	        cmocka_unit_test(native_names_are_cut_and_never_overrun),
	        cmocka_unit_test(nesting_and_length_are_bounded),
	        cmocka_unit_test(shapes_match_as_a_plain_matcher_says),
	        cmocka_unit_test(events_and_blocks_have_different_properties),
	        cmocka_unit_test(conditions_that_can_never_hold_are_recognized),
	        cmocka_unit_test(a_condition_called_hopeless_holds_for_no_event),
	        cmocka_unit_test(a_file_matches_by_the_end_of_its_path),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
