/*
 * The JSON of answers about random processes and recordings: exactly the members of the contract,
 * with exactly the answer's values; and what is saved is read back.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <unistd.h>

#include "random_process.h"
#include "render/holders_note.h"
#include "render/chain.h"
#include "render/json.h"
#include "render/retained.h"
#include "render/native_owner.h"
#include "render/retained_name.h"
#include "render/who_holds.h"
#include "synthetic.h"

/* --- what is compared ------------------------------------------------------------------------- */

/* These members, by spaces, and no others; of those behind '?' any may be missing. */
static void check_members(uint64_t round, const json_t *object, const char *names)
{
	const char *key;
	json_t *value;
	char all[512], *rest = all, *word;
	size_t required = 0;
	bool optional = false;
	snprintf(all, sizeof(all), "%s", names);
	check_in_round(round, json_is_object(object));
	while ((word = strsep(&rest, " "))) {
		if (strcmp(word, "?") == 0) {
			optional = true;
			continue;
		}
		bool there = json_object_get(object, word) != NULL;
		check_in_round(round, there || optional);
		required += there;
	}
	check_in_round(round, json_object_size(object) == required);
	json_object_foreach((json_t *)(uintptr_t)object, key, value) assert_non_null(value);
}

static void check_number(uint64_t round, const json_t *object, const char *name, uint64_t expected)
{
	const json_t *value = json_object_get(object, name);
	check_in_round(round, json_is_integer(value));
	check_in_round(round, (uint64_t)json_integer_value(value) == expected);
}

/* NULL: it is null, or is not there. */
static void check_text(uint64_t round, const json_t *object, const char *name, const char *expected)
{
	const json_t *value = json_object_get(object, name);
	if (!expected) {
		check_in_round(round, !value || json_is_null(value));
		return;
	}
	check_in_round(round, json_is_string(value));
	check_in_round(round, strcmp(json_string_value(value), expected) == 0);
}

static void check_address(uint64_t round, const json_t *object, const char *name, uint64_t address)
{
	char text[32];
	snprintf(text, sizeof(text), "0x%" PRIx64, address);
	check_text(round, object, name, text);
}

static void check_bool(uint64_t round, const json_t *object, const char *name, bool expected)
{
	const json_t *value = json_object_get(object, name);
	check_in_round(round, expected ? json_is_true(value) : json_is_false(value));
}

static json_t *parse(char *text)
{
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(root);
	free(text);
	return root;
}

/* --- who-holds -------------------------------------------------------------------------------- */

static void check_step(uint64_t round, const json_t *json, const struct gm_holder_step *step)
{
	check_members(round, json, "kind ? name index function module file line type address");
	check_text(round, json, "kind", step->kind);
	check_text(round, json, "name", step->name);
	check_text(round, json, "type", step->type);
	check_text(round, json, "file", step->file);
	bool global = step->form == GM_STEP_GLOBAL;
	check_text(round, json, "module", global ? step->function : NULL);
	check_text(round, json, "function", global ? NULL : step->function);
	if (step->index >= 0)
		check_number(round, json, "index", (uint64_t)step->index);
	else
		check_in_round(round, !json_object_get(json, "index"));
	if (step->line)
		check_number(round, json, "line", step->line);
	if (step->address)
		check_address(round, json, "address", step->address);
}

static void check_holder(uint64_t round, const json_t *json, const struct gm_holder *holder)
{
	char *text = gm_chain_text(holder);
	const json_t *path = json_object_get(json, "path");
	size_t listed = 0;
	check_members(round, json, "text class end references root ways path");
	check_text(round, json, "text", text);
	check_text(round, json, "class", gm_chain_class_name(holder->class));
	static const char *const ends[] = {"root", "garbage", "cycle", "unknown"};
	check_text(round, json, "end", ends[holder->end]);
	check_number(round, json, "references", holder->references);
	check_number(round, json, "ways", holder->ways);
	if (holder->root)
		check_number(round, json, "root", holder->root);
	else
		check_in_round(round, json_is_null(json_object_get(json, "root")));
	for (size_t i = 0; i < holder->step_count; i++)
		if (!holder->steps[i].unlisted)
			check_step(round, json_array_get(path, listed++), &holder->steps[i]);
	check_in_round(round, json_array_size(path) == listed);
	free(text);
}

/* "float32 [64, 2], requires_grad" */
static void check_tensor(uint64_t round, const json_t *block, const struct gm_block_note *tensor)
{
	char expected[256] = "", size[32];
	if (!tensor->dtype) {
		check_text(round, block, "tensor", NULL);
		return;
	}
	strcat(strcat(expected, tensor->dtype), " [");
	for (uint32_t i = 0; i < tensor->dimensions; i++) {
		snprintf(size, sizeof(size), i ? ", %d" : "%d", (int)tensor->shape[i]);
		strcat(expected, size);
	}
	strcat(expected, "]");
	strcat(expected, tensor->requires_grad ? ", requires_grad" : "");
	strcat(expected, tensor->parameter ? ", Parameter" : "");
	strcat(expected, tensor->gradient ? ", a gradient" : "");
	check_text(round, block, "tensor", expected);
}

static void check_who_holds(uint64_t round, const json_t *root, const struct gm_who_holds *result)
{
	const struct gm_holders_answer *answer = &result->answer;
	const json_t *block = json_object_get(root, "block");
	const json_t *storages = json_object_get(root, "storages");
	const json_t *holders = json_object_get(root, "holders");
	const json_t *notes = json_object_get(root, "notes");
	check_members(round, root,
	        "block storages complete holders omitted roots omitted_roots notes scan pause");
	check_members(round, block, "address size device device_type tensor");
	check_members(round, json_object_get(root, "scan"),
	        "bytes unread seconds python_objects python_seconds");
	check_members(round, json_object_get(root, "pause"), "state seconds tries copied");
	check_address(round, block, "address", answer->address);
	check_number(round, block, "size", answer->size);
	check_text(round, block, "device_type", "cpu");
	check_tensor(round, block, &answer->tensor);
	check_bool(round, root, "complete", result->complete);
	check_number(round, root, "omitted", answer->omitted);
	check_number(round, root, "roots", answer->roots);
	check_number(round, root, "omitted_roots", answer->omitted_roots);
	check_in_round(round, json_array_size(storages) == answer->storage_count);
	for (size_t i = 0; i < answer->storage_count; i++) {
		const json_t *storage = json_array_get(storages, i);
		check_members(round, storage, "address refcount found size");
		check_address(round, storage, "address", answer->storages[i].address);
		check_number(round, storage, "refcount", answer->storages[i].refcount);
		check_number(round, storage, "found", answer->storages[i].found);
		check_number(round, storage, "size", answer->storages[i].size);
	}
	check_in_round(round, json_array_size(holders) == answer->holder_count);
	for (size_t i = 0; i < answer->holder_count; i++)
		check_holder(round, json_array_get(holders, i), &answer->holders[i]);
	check_in_round(round, json_array_size(notes) == answer->note_count);
	for (size_t i = 0; i < answer->note_count; i++) {
		char *note = gm_holders_note_text(&answer->notes[i]);
		check_in_round(
		        round, strcmp(json_string_value(json_array_get(notes, i)), note) == 0);
		free(note);
	}
}

/* Asks of the block and compares; the caller deinits. */
static void ask_who_holds(uint64_t round, struct process *process, struct gm_who_holds *ret_result)
{
	char *text = NULL;
	size_t size;
	*ret_result = (struct gm_who_holds){0};
	assert_null(gm_holders_find(process->graph, BLOCK, &ret_result->answer));
	ret_result->complete = ret_result->answer.complete;
	FILE *out = open_memstream(&text, &size);
	assert_null(gm_render_who_holds_json(ret_result, out));
	fclose(out);
	json_t *root = parse(text);
	check_who_holds(round, root, ret_result);
	json_decref(root);
}

static void who_holds_json_is_the_answer(void **state)
{
	size_t holders = 0, notes = 0;
	for (uint64_t round = 0; round < random_rounds(600); round++) {
		struct process process;
		struct gm_who_holds result;
		process_make_random(&process, round, round % 3 ? 0 : RANDOM_UNCOUNTED);
		ask_who_holds(round, &process, &result);
		holders += result.answer.holder_count;
		notes += result.answer.note_count;
		gm_holders_answer_deinit(&result.answer);
		process_end(&process);
	}
	assert_true(holders > 1000 && notes > 50);
}

static void not_all_nodes_of_a_long_graph_are_listed(void **state)
{
	enum { NODES = 24 };
	struct process process;
	struct gm_who_holds result;
	uint32_t nodes[NODES];
	process_begin(&process);
	uint32_t saved = process_tensor(
	        &process, process_storage(&process, BLOCK, BLOCK_SIZE, GM_DEVICE_CPU));
	uint32_t storage = process_storage(&process, BLOCK + BLOCK_SIZE, BLOCK_SIZE, GM_DEVICE_CPU);
	uint32_t middle = process_tensor(&process, storage);
	uint32_t loss = process_tensor(&process, storage), last = process_node(&process);
	for (int i = 0; i < NODES; i++) {
		nodes[i] = process_node(&process);
		if (i)
			gm_graph_refer(process.graph, nodes[i - 1], nodes[i], GM_REF_NEXT, 0, 0);
	}
	gm_graph_refer(process.graph, loss, last, GM_REF_GRAD_FN, 0, 0);
	gm_graph_refer(process.graph, last, middle, GM_REF_SAVED, GM_SAVED_NOWHERE, 0);
	gm_graph_refer(process.graph, middle, nodes[0], GM_REF_GRAD_FN, 0, 0);
	gm_graph_refer(process.graph, nodes[NODES - 1], saved, GM_REF_SAVED, GM_SAVED_NOWHERE, 0);
	process_local(&process, process_frame(&process), 0, process_wrapper(&process, loss));
	process_ready(&process);
	ask_who_holds(0, &process, &result);
	assert_int_equal(result.answer.holder_count, 1);
	size_t unlisted = 0; /* `last`: its sentence is told */
	for (size_t i = 0; i < result.answer.holders[0].step_count; i++)
		unlisted += result.answer.holders[0].steps[i].unlisted;
	assert_int_equal(unlisted, 1);
	gm_holders_answer_deinit(&result.answer);
	process_end(&process);
}

static void unlisted_holders_are_counted_on_a_separate_line(void **state)
{
	const struct {
		size_t omitted, roots;
		const char *line;
	} cases[] = {{12, 9, "\n  and 12 more, of 9 other variables\n"},
	        {3, 1, "\n  and 3 more, of 1 other variable\n"},
	        {0, 1, "\n  and 1 other variable\n"}, {0, 2, "\n  and 2 other variables\n"},
	        {4, 0, "\n  and 4 more\n"}, {0, 0, NULL}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct process process;
		struct gm_who_holds result;
		char *text = NULL;
		size_t size;
		process_make_random(&process, 0, 0);
		ask_who_holds(0, &process, &result);
		assert_true(result.answer.holder_count > 0);
		result.answer.omitted = cases[i].omitted;
		result.answer.omitted_roots = cases[i].roots;
		FILE *out = open_memstream(&text, &size);
		assert_null(gm_render_who_holds(&result, false, out));
		fclose(out);
		assert_true(cases[i].line ? strstr(text, cases[i].line) != NULL
		                          : strstr(text, "  and ") == NULL);
		assert_int_equal(text[strlen(text) - 1], '\n');
		free(text);
		gm_holders_answer_deinit(&result.answer);
		process_end(&process);
	}
}

/* A parameter's module with variables of the program and of PyTorch's frames. */
static void paths_from_frames_of_libraries_are_counted_where_the_program_leads_there_too(
        void **state)
{
	enum { LIBRARIES = 3, HOLDERS = LIBRARIES + 2 };
	static char self[] = "self", train[] = "train", script[] = "/srv/train.py";
	static char call[] = "Module._call_impl", weight[] = "weight", linear[] = "Linear";
	static char module[] = "/usr/lib/python3/dist-packages/torch/nn/modules/module.py";
	struct gm_holder_step steps[HOLDERS][2];
	struct gm_holder holders[HOLDERS];
	for (size_t i = 0; i < HOLDERS; i++) {
		bool own = i == 1;
		steps[i][0] = (struct gm_holder_step){.form = GM_STEP_LOCAL,
		        .name = self,
		        .function = own ? train : call,
		        .file = own ? script : module,
		        .line = (uint32_t)i,
		        .index = -1};
		/* the last is another module's */
		steps[i][1] = (struct gm_holder_step){.form = GM_STEP_PARAMETER,
		        .name = weight,
		        .type = linear,
		        .address = i == HOLDERS - 1 ? 0x2000 : 0x1000,
		        .index = -1};
		holders[i] = (struct gm_holder){.class = GM_PROVEN,
		        .steps = steps[i],
		        .step_count = 2,
		        .end = GM_CHAIN_ROOTED,
		        .rooted = true,
		        .references = 1};
	}
	struct gm_who_holds result = {.answer = {.holders = holders, .holder_count = HOLDERS}};
	static const char *const counted =
	        "  parameter 'weight' of Linear: local 'self' of train() at train.py:1\n"
	        "    and 3 paths from frames of PyTorch or Python to parameter 'weight' of Linear "
	        "(--all)\n"
	        "  parameter 'weight' of Linear: local 'self' of Module._call_impl() at "
	        "module.py:4\n";
	for (int all = 0; all < 2; all++) {
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);
		assert_null(gm_render_who_holds(&result, all, out));
		fclose(out);
		assert_true((strstr(text, counted) != NULL) == !all);
		assert_true((strstr(text, "module.py:0\n") != NULL) == all);
		free(text);
	}
	/* two are as quickly read as counted, and without the program's variable two are kept */
	result.answer.holder_count = LIBRARIES;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	assert_null(gm_render_who_holds(&result, false, out));
	fclose(out);
	assert_null(strstr(text, "--all"));
	free(text);
}

/* --- retained --------------------------------------------------------------------------------- */

static void check_nodes(uint64_t round, const json_t *json, const struct gm_retained_node *nodes,
        size_t count, const struct gm_retained_view *view, uint32_t level);

static void check_names(
        uint64_t round, const json_t *json, const struct gm_retained_name *names, size_t count)
{
	check_in_round(round, json_array_size(json) == count);
	for (size_t i = 0; i < count; i++) {
		const json_t *one = json_array_get(json, i);
		check_members(round, one, "form ? name native of count members graphs more");
		check_text(round, one, "form", gm_retained_form_name(names[i].form));
		_cleanup_free_ char *native =
		        names[i].native ? gm_native_owner_text(names[i].native) : NULL;
		check_text(round, one, "name", native ? native : names[i].name);
		check_in_round(round, json_array_size(json_object_get(one, "native")) ==
		                              (names[i].native ? names[i].native->count : 0));
		check_text(round, one, "of", names[i].of);
		if (names[i].count)
			check_number(round, one, "count", names[i].count);
		check_names(round, json_object_get(one, "members"), names[i].members,
		        names[i].member_count);
		check_names(round, json_object_get(one, "graphs"), names[i].graphs,
		        names[i].graph_count);
	}
}

static void check_texts(
        uint64_t round, const json_t *json, const struct gm_retained_name *names, size_t count)
{
	check_in_round(round, json_array_size(json) == count);
	for (size_t i = 0; i < count; i++) {
		char *text = gm_retained_name_text(&names[i]);
		check_in_round(
		        round, strcmp(json_string_value(json_array_get(json, i)), text) == 0);
		free(text);
	}
}

static void check_node(uint64_t round, const json_t *json, const struct gm_retained_node *node,
        const struct gm_retained_view *view, uint32_t level)
{
	static const char *const kinds[] = {
	        "variable", "part", "shared", "garbage", "cycle", "library", "unknown"};
	bool shared = node->kind == GM_RETAINED_SHARED;
	char *text = gm_retained_node_text(node);
	char *variable = node->root ? gm_retained_name_text(&node->names[0]) : NULL;
	check_members(round, json,
	        shared ? "text kind bytes blocks by name children ? graphs"
	               : "text kind bytes blocks name children ? variable at also");
	check_text(round, json, "text", text);
	check_text(round, json, "kind", kinds[node->kind]);
	check_text(round, json, "variable", variable);
	check_text(round, json, "at", node->place);
	check_number(round, json, "bytes", node->bytes);
	check_number(round, json, "blocks", node->blocks);
	check_names(round, json_object_get(json, "name"), node->names, node->name_count);
	check_texts(
	        round, json_object_get(json, "also"), node->also, shared ? 0 : node->also_count);
	if (shared) {
		const struct gm_retained_name *name = &node->names[0];
		check_texts(round, json_object_get(json, "by"), name->members, name->member_count);
		check_texts(
		        round, json_object_get(json, "graphs"), name->graphs, name->graph_count);
	}
	free(text);
	free(variable);
	check_nodes(round, json_object_get(json, "children"), node->children, node->child_count,
	        view, level + 1);
}

/* Of parts, those that the view shows. */
static void check_nodes(uint64_t round, const json_t *json, const struct gm_retained_node *nodes,
        size_t count, const struct gm_retained_view *view, uint32_t level)
{
	size_t shown = 0;
	for (size_t i = 0; i < count; i++) {
		if ((view->depth && level > view->depth) ||
		        (view->has_min && nodes[i].bytes < view->min))
			continue;
		check_node(round, json_array_get(json, shown++), &nodes[i], view, level);
	}
	check_in_round(round, json_is_array(json) && json_array_size(json) == shown);
}

static void check_device(uint64_t round, const json_t *json,
        const struct gm_retained_device *device, const struct gm_retained_view *view)
{
	static const char *const groups[] = {"roots", "shared_groups", "unknown_groups"};
	size_t shown[3] = {0};
	check_number(round, json, "device", (uint64_t)(int64_t)device->device);
	check_number(round, json, "allocated", device->allocated);
	check_number(round, json, "allocated_blocks", device->allocated_blocks);
	check_number(round, json, "shared", device->shared);
	check_number(round, json, "unknown", device->unknown);
	check_number(round, json, "pending", device->pending);
	check_number(round, json, "allocator", 77);
	for (size_t i = 0; i < device->node_count; i++) {
		int group = device->nodes[i].kind == GM_RETAINED_SHARED    ? 1
		            : device->nodes[i].kind == GM_RETAINED_UNKNOWN ? 2
		                                                           : 0;
		const json_t *all = json_object_get(json, groups[group]);
		check_node(round, json_array_get(all, shown[group]++), &device->nodes[i], view, 1);
	}
	for (int group = 0; group < 3; group++)
		check_in_round(round,
		        json_array_size(json_object_get(json, groups[group])) == shown[group]);
}

#define DEVICE_MEMBERS                                                                    \
	"device allocated allocated_blocks allocator roots shared shared_groups unknown " \
	"unknown_groups pending"

static void check_retained(uint64_t round, const json_t *root,
        const struct gm_retained_answer *answer, const struct gm_retained_view *view)
{
	const struct gm_retained *retained = &answer->retained;
	const json_t *others = json_object_get(root, "other_devices");
	check_members(round, root,
	        DEVICE_MEMBERS " format other_devices storages storages_complete complete pause "
	                       "scan");
	check_members(round, json_object_get(root, "scan"),
	        "bytes seconds python_seconds retained_seconds vertices references");
	check_text(round, root, "format", GM_RETAINED_FORMAT);
	check_number(round, root, "storages", retained->storages);
	check_number(round, root, "storages_complete", retained->storages_complete);
	check_bool(round, root, "complete", retained->storages == retained->storages_complete);
	for (size_t i = 0; i < retained->device_count; i++) {
		const json_t *device = i ? json_array_get(others, i - 1) : root;
		if (i)
			check_members(round, device, DEVICE_MEMBERS);
		check_device(round, device, &retained->devices[i], view);
	}
	check_in_round(round,
	        json_array_size(others) + (retained->device_count > 0) == retained->device_count);
}

static bool is_called_alike(const struct gm_retained_node *a, const struct gm_retained_node *b)
{
	return gm_retained_names_compare(a->names, a->name_count, b->names, b->name_count, true) ==
	       0;
}

/* Groups of one kind come together in a file. */
static void check_loaded(
        uint64_t round, const struct gm_retained_node *saved, const struct gm_retained_node *loaded)
{
	check_in_round(round, is_called_alike(saved, loaded));
	check_in_round(round, saved->bytes == loaded->bytes && saved->blocks == loaded->blocks);
	check_in_round(round, saved->root == loaded->root);
	check_in_round(round, saved->child_count == loaded->child_count);
	for (size_t i = 0; i < saved->child_count; i++)
		check_loaded(round, &saved->children[i], &loaded->children[i]);
}

static void check_saved(uint64_t round, const struct gm_retained_answer *answer)
{
	char path[] = "/tmp/gpumem-render-XXXXXX";
	struct gm_retained loaded;
	close(mkstemp(path));
	assert_null(gm_retained_save(answer, path));
	assert_null(gm_retained_load(path, &loaded));
	check_in_round(round, loaded.device_count == answer->retained.device_count);
	for (size_t i = 0; i < loaded.device_count; i++) {
		const struct gm_retained_device *saved = &answer->retained.devices[i];
		const struct gm_retained_device *read = &loaded.devices[i];
		check_in_round(round, saved->device == read->device);
		check_in_round(round, saved->allocated == read->allocated);
		check_in_round(round, saved->node_count == read->node_count);
		for (size_t k = 0; k < saved->node_count; k++) {
			size_t same = 0;
			while (!is_called_alike(&read->nodes[same], &saved->nodes[k])) {
				same++;
				check_in_round(round, same < read->node_count);
			}
			check_loaded(round, &saved->nodes[k], &read->nodes[same]);
		}
	}
	gm_retained_deinit(&loaded);
	unlink(path);
}

static void retained_json_is_the_answer_and_is_read_back(void **state)
{
	const struct gm_retained_view views[] = {
	        {0}, {.depth = 1}, {.depth = 2}, {.has_min = true, .min = BLOCK_SIZE}};
	size_t nodes = 0;
	for (uint64_t round = 0; round < random_rounds(400); round++) {
		unsigned kind = (unsigned)round & (RANDOM_DEVICE | RANDOM_UNCOUNTED);
		struct process process;
		uint64_t allocator[] = {77, 77, 77};
		struct gm_retained_answer answer = {.allocator_bytes = allocator};
		process_make_random(&process, round, kind);
		assert_null(gm_holders_retained(
		        process.graph, !(kind & RANDOM_DEVICE), &answer.retained));
		for (size_t v = 0; v < 4 && answer.retained.device_count; v++) {
			char *text = NULL;
			size_t size;
			FILE *out = open_memstream(&text, &size);
			assert_null(gm_render_retained_json(&answer, &views[v], out));
			fclose(out);
			json_t *root = parse(text);
			check_retained(round, root, &answer, &views[v]);
			json_decref(root);
		}
		if (answer.retained.device_count) {
			nodes += answer.retained.devices[0].node_count;
			check_saved(round, &answer);
		}
		gm_retained_deinit(&answer.retained);
		process_end(&process);
	}
	assert_true(nodes > 500);
}

/* --- events ----------------------------------------------------------------------------------- */

static void an_events_json_has_all_fields_and_null_if_unknown(void **state)
{
	struct synthetic log;
	struct gm_context context;
	synthetic_begin(&log);
	uint32_t code = synthetic_code(&log, "/srv/train.py", "step\xff", NULL, 0);
	uint32_t stack = synthetic_stack(&log, synthetic_frame(&log, code, 5, 0, NULL),
	        synthetic_frame(&log, code, 6, 0, NULL), 0, 0);
	struct gm_event event = {.action = GM_ALLOC,
	        .device_type = 1,
	        .device = 2,
	        .flags = GM_EVENT_BORROWED | GM_EVENT_NO_GRAD,
	        .thread = 9,
	        .time_ns = 1234567,
	        .address = UINT64_C(0x7f1234567000),
	        .size = 1024,
	        .stream = 3,
	        .allocated = UINT64_MAX,
	        .reserved = 4096,
	        .python_stack = stack};
	gm_log_writer_event(log.writer, &event);
	event.action = GM_FREE_REQUESTED;
	event.requested = 1000;
	event.flags = GM_EVENT_GRAD;
	event.python_stack = 0;
	gm_log_writer_event(log.writer, &event);
	struct gm_model *model = synthetic_model(&log, &context);
	for (uint32_t number = 0; number < 2; number++) {
		json_t *json = gm_json_event(model, number);
		json_t *python = json_object_get(json, "python");
		check_members(0, json,
		        "n action block address size requested device device_type stream time_us "
		        "thread step phase allocated reserved borrowed preexisting grad marks "
		        "metadata python native");
		check_number(0, json, "n", number);
		check_text(0, json, "action", number ? "free_requested" : "alloc");
		check_number(0, json, "block", 0);
		check_address(0, json, "address", event.address);
		check_number(0, json, "size", 1024);
		check_number(0, json, "device", 2);
		check_text(0, json, "device_type", "cuda");
		check_number(0, json, "stream", 3);
		check_number(0, json, "time_us", 1234);
		check_number(0, json, "thread", 9);
		check_number(0, json, "reserved", 4096);
		check_bool(0, json, "borrowed", number == 0);
		check_bool(0, json, "grad", number == 1);
		check_bool(0, json, "preexisting", false);
		assert_true(json_is_null(json_object_get(json, "allocated")));
		assert_true(json_is_null(json_object_get(json, "step")));
		assert_true(json_is_null(json_object_get(json, "metadata")));
		if (number)
			check_number(0, json, "requested", 1000);
		else
			assert_true(json_is_null(json_object_get(json, "requested")));
		assert_int_equal(json_array_size(python), number ? 0 : 2);
		for (size_t i = 0; i < json_array_size(python); i++) {
			const json_t *frame = json_array_get(python, i);
			check_members(0, frame, "file line function");
			check_text(0, frame, "file", "/srv/train.py");
			check_text(0, frame, "function", "step?");
			check_number(0, frame, "line", 5 + i);
		}
		json_decref(json);
	}
	gm_context_deinit(&context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(who_holds_json_is_the_answer),
	        cmocka_unit_test(not_all_nodes_of_a_long_graph_are_listed),
	        cmocka_unit_test(unlisted_holders_are_counted_on_a_separate_line),
	        cmocka_unit_test(
	                paths_from_frames_of_libraries_are_counted_where_the_program_leads_there_too),
	        cmocka_unit_test(retained_json_is_the_answer_and_is_read_back),
	        cmocka_unit_test(an_events_json_has_all_fields_and_null_if_unknown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
