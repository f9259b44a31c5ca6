#include "ask/oom.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask/blocks.h"
#include "ask/recording/place.h"
#include "ask/context.h"
#include "ask/oom/oom_facts.h"
#include "ask/oom/oom_find.h"
#include "ask/oom/oom_growth.h"
#include "ask/oom/oom_release.h"
#include "ask/recording/memory_after.h"
#include "ask/retained.h"
#include "ask/target/memory.h"
#include "ask/target/memory_now.h"
#include "ask/target/pause.h"
#include "ask/target/request.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/packages.h"
#include "base/size.h"
#include "base/text.h"

enum { TOP_MAX = 12, TRACEBACK_DEPTH = 16 };

void gm_oom_deinit(struct gm_oom *oom)
{
	gm_memory_deinit(&oom->memory);
	for (size_t i = 0; i < oom->frame_count; i++) {
		free(oom->frames[i].file);
		free(oom->frames[i].function);
	}
	for (size_t i = 0; i < oom->top_count; i++)
		free(oom->top[i].line);
	gm_retained_answer_deinit(&oom->retained);
	gm_oom_growth_deinit(&oom->growth);
	gm_oom_release_deinit(&oom->release);
	free(oom->frames);
	free(oom->top);
	free(oom->message);
	*oom = (struct gm_oom){0};
}

const struct gm_oom_place *gm_oom_site(const struct gm_oom *oom)
{
	for (size_t i = 0; i < oom->frame_count; i++)
		if (!gm_file_is_library(oom->frames[i].file))
			return &oom->frames[i];
	return oom->frame_count ? &oom->frames[0] : NULL;
}

/* --- what uses the memory --------------------------------------------------------------------- */

struct top {
	GM_ARRAY(struct gm_oom_holder) rows;
	bool no_memory;
};

static void add_row(struct top *top, struct gm_oom_holder row)
{
	if (!gm_array_push(&top->rows, row)) {
		free(row.line);
		top->no_memory = true;
	}
}

static uint64_t parts(const struct gm_retained_node *node)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < node->child_count; i++)
		bytes += node->children[i].bytes;
	return bytes;
}

/*
 * The traceback of the error itself retains the frames that it passed through, and with them
 * everything. That is true but no answer, so the variables of these frames are shown instead.
 */
static bool is_traceback(const struct gm_retained_node *node, unsigned depth)
{
	if (depth > TRACEBACK_DEPTH || parts(node) != node->bytes)
		return false;
	for (size_t i = 0; i < node->name_count; i++)
		if (node->names[i].form == GM_NAME_TRACEBACK)
			return true;
	return node->child_count == 1 && is_traceback(&node->children[0], depth + 1);
}

/* Something that is named in full needs no holder before it. */
static bool is_whole(const struct gm_retained_node *part)
{
	switch (part->names[0].form) {
	case GM_NAME_LOCAL:
	case GM_NAME_KEPT_LOCAL:
	case GM_NAME_GLOBAL:
		return true;
	default:
		return false;
	}
}

/* A holder with its parts, if they add information: "local 'model': .grad", "local 'model':
 * parameters". */
static void add_parts(struct top *top, const struct gm_retained_node *node)
{
	uint64_t least = node->bytes / 10, listed = 0, blocks = 0;
	for (size_t i = 0; i < node->child_count; i++) {
		const struct gm_retained_node *part = &node->children[i];
		if (part->bytes < least || part->bytes == 0)
			continue;
		bool itself = part->names[0].form == GM_NAME_ITSELF;
		add_row(top, (struct gm_oom_holder){.node = is_whole(part) ? part : node,
		                     .part = is_whole(part) || itself ? NULL : part,
		                     .bytes = part->bytes,
		                     .blocks = part->blocks});
		listed += part->bytes;
		blocks += part->blocks;
	}
	if (listed < node->bytes)
		add_row(top, (struct gm_oom_holder){.node = node,
		                     .bytes = node->bytes - listed,
		                     .blocks = node->blocks - blocks});
}

static void add_nodes(
        struct top *top, const struct gm_retained_node *nodes, size_t count, unsigned depth)
{
	for (size_t i = 0; i < count; i++) {
		if (depth <= TRACEBACK_DEPTH && is_traceback(&nodes[i], depth))
			add_nodes(top, nodes[i].children, nodes[i].child_count, depth + 1);
		else
			add_parts(top, &nodes[i]);
	}
}

static int compare_nodes(const struct gm_retained_node *left, const struct gm_retained_node *right)
{
	if (!left || !right)
		return (left != NULL) - (right != NULL);
	return gm_retained_names_compare(
	        left->names, left->name_count, right->names, right->name_count, true);
}

static int by_bytes(const void *a, const void *b)
{
	const struct gm_oom_holder *left = a, *right = b;
	if (left->bytes != right->bytes)
		return left->bytes > right->bytes ? -1 : 1;
	if (left->line && right->line)
		return gm_group_compare(left->kind, left->line, right->kind, right->line);
	int order = compare_nodes(left->node, right->node);
	return order ? order : compare_nodes(left->part, right->part);
}

/* Largest first; everything beyond the last row is shown as one. */
static struct gm_error *keep_top(struct top *top, struct gm_oom *oom)
{
	if (top->rows.count)
		qsort(top->rows.items, top->rows.count, sizeof(*top->rows.items), by_bytes);
	struct gm_oom_holder rest = {0};
	size_t more = 0;
	while (top->rows.count > TOP_MAX) {
		struct gm_oom_holder *last = &top->rows.items[--top->rows.count];
		rest.bytes += last->bytes;
		rest.blocks += last->blocks;
		more++;
		free(last->line);
	}
	rest.smaller = more;
	if (more)
		add_row(top, rest);
	oom->top = top->rows.items;
	oom->top_count = top->rows.count;
	return top->no_memory ? &gm_error_no_memory : NULL;
}

static struct gm_error *fill_top(struct gm_context *context, struct gm_oom *oom)
{
	struct top top = {0};
	const struct gm_retained *retained = &oom->retained.retained;
	gm_try(gm_ask_retained(context, false, &oom->retained));
	for (size_t i = 0; i < retained->device_count; i++) {
		const struct gm_retained_device *device = &retained->devices[i];
		if (device->device == oom->memory.device)
			add_nodes(&top, device->nodes, device->node_count, 0);
	}
	return keep_top(&top, oom);
}

/* --- a process or a core ---------------------------------------------------------------------- */

static bool reads_the_same(uint64_t bytes, uint64_t rounded)
{
	char left[GM_SIZE_TEXT], right[GM_SIZE_TEXT];
	return strcmp(gm_text_size(bytes, left), gm_text_size(rounded, right)) == 0;
}

/* Nothing was released since the failure, so the allocator's own figures are those at the failure,
 * to the byte. */
static void compare_moments(struct gm_oom *oom)
{
	const struct gm_memory *now = &oom->memory;
	struct gm_oom_facts *facts = &oom->facts;
	uint64_t allocated = now->allocated + (facts->rounded ? now->private_free : 0);
	oom->memory_is_then = facts->allocated != GM_NOT_KNOWN && facts->reserved != GM_NOT_KNOWN &&
	                      reads_the_same(allocated, facts->allocated);
	if (facts->unallocated != GM_NOT_KNOWN)
		oom->memory_is_then &=
		        reads_the_same(now->reserved - allocated, facts->unallocated);
}

/*
 * The device's own figures are current. If the error message says how much was free and that has
 * changed, other processes allocated or released memory since, and it is not known which.
 */
static void take_device(const struct gm_memory *now, struct gm_oom_facts *facts)
{
	const struct gm_device_facts *there = &now->there;
	bool known = facts->free != GM_NOT_KNOWN;
	if (now->device_free == GM_NOT_KNOWN ||
	        (known && !reads_the_same(now->device_free, facts->free)))
		return;
	facts->free = now->device_free;
	facts->process = there->process;
	facts->other_count = 0;
	for (size_t i = 0; i < there->other_count && i < GM_OOM_PROCESSES_MAX; i++) {
		facts->others[i].pid = there->others[i].pid;
		facts->others[i].bytes = there->others[i].bytes;
		memcpy(facts->others[i].name, there->others[i].name, sizeof(facts->others[i].name));
		facts->other_count++;
	}
}

static void take_memory(struct gm_oom *oom)
{
	const struct gm_memory *now = &oom->memory;
	struct gm_oom_facts *facts = &oom->facts;
	facts->allocated = now->allocated;
	facts->reserved = now->reserved;
	facts->pending = now->pending;
	facts->private_pools = now->private_free;
	facts->unallocated = now->free - now->private_free;
	facts->largest_hole = 0;
	for (size_t i = 0; i < now->segment_count; i++)
		if (!now->segments[i].is_private &&
		        now->segments[i].largest_hole > facts->largest_hole)
			facts->largest_hole = now->segments[i].largest_hole;
	facts->movable = gm_memory_movable(now);
	facts->rounding = now->allocated + now->pending > now->requested
	                          ? now->allocated + now->pending - now->requested
	                          : 0;
	facts->whole_free = now->whole_free;
	facts->waited_whole = now->waited_whole;
	facts->waited_largest = now->waited_largest;
	facts->rounded = false;
	for (size_t i = 0; i < now->segment_count; i++)
		facts->expandable |= now->segments[i].expandable;
	if (now->total != GM_NOT_KNOWN)
		facts->total = now->total;
	take_device(now, facts);
	if (now->allocator && now->allocator->limit != GM_NOT_KNOWN)
		facts->limit = now->allocator->limit;
}

/* Which tensors are enough depends on how much is missing, which the first judgement says. */
static struct gm_error *judge(struct gm_oom *oom)
{
	if (oom->facts.needed == GM_NOT_KNOWN)
		return NULL;
	gm_oom_judge(&oom->facts, &oom->judgement);
	gm_try(gm_oom_find_release(oom, gm_oom_missing(&oom->facts, &oom->judgement.sums)));
	return NULL;
}

/* From here on the answer refers to itself. */
static void refer(struct gm_oom *oom)
{
	oom->facts.growth = oom->growth.lines ? &oom->growth : NULL;
	oom->facts.release = oom->release.known ? &oom->release : NULL;
	if (oom->facts.needed != GM_NOT_KNOWN)
		gm_oom_judge(&oom->facts, &oom->judgement);
}

static struct gm_error *look_at_target(struct gm_context *context, int device, struct gm_oom *oom)
{
	struct gm_torch *torch;
	size_t devices;
	gm_try(gm_context_torch(context, &torch));
	gm_try(gm_torch_allocator_devices(torch, &devices));
	oom->ooms = oom->retries = 0;
	for (size_t i = 0; i < devices; i++) {
		struct gm_allocator_device own;
		_cleanup_error_ struct gm_error *unread =
		        gm_torch_allocator_device(torch, (int)i, &own);
		if (unread)
			continue;
		oom->ooms += own.ooms;
		oom->retries += own.retries;
	}
	gm_try(gm_oom_find(context, oom));
	if (oom->found == GM_OOM_FOUND_NOWHERE && oom->ooms == 0) {
		if (oom->retries)
			return gm_error_create(GM_NEGATIVE,
			        "no out-of-memory error: PyTorch's allocator has raised none "
			        "(cudaMalloc "
			        "refused %" PRIu64
			        " times, and succeeded after the cache was emptied): "
			        "`gpumem segments --request SIZE` shows whether a request would "
			        "fit",
			        oom->retries);
		return gm_error_create(GM_NEGATIVE,
		        "no out-of-memory error: PyTorch's allocator has raised none: `gpumem "
		        "segments "
		        "--request SIZE` shows whether a request would fit");
	}
	if (device < 0)
		device = oom->facts.device;
	gm_try(gm_memory_now(context, device, &oom->memory));
	oom->memory.allocator = &oom->memory.own;
	oom->facts.device = oom->memory.device;
	compare_moments(oom);
	if (oom->memory_is_then)
		take_memory(oom);
	gm_try(judge(oom));
	refer(oom);
	return fill_top(context, oom);
}

struct gm_error *gm_ask_oom_target(struct gm_context *context, int device, struct gm_oom *ret_oom)
{
	struct gm_pause pause;
	*ret_oom = (struct gm_oom){0};
	gm_try(gm_context_pause(context, GM_READS_LITTLE));
	struct gm_error *error = look_at_target(context, device, ret_oom);
	gm_context_resume(context, &pause);
	ret_oom->memory.pause = pause;
	if (!error)
		error = gm_context_check_there(context);
	if (error)
		gm_oom_deinit(ret_oom);
	return error;
}

/* --- a recording ------------------------------------------------------------------------------ */

/* `device`: only events of that one count; -1: of any. */
static struct gm_error *find_event(const struct gm_log *log, int device, bool has_event,
        uint64_t asked, uint64_t *ret_event, size_t *ret_ooms)
{
	uint64_t found = UINT64_MAX, count = gm_log_event_count(log);
	struct gm_event event;
	*ret_ooms = 0;
	for (uint64_t i = 0; i < count; i++) {
		gm_log_event(log, i, &event);
		if (event.action != GM_OOM || (device >= 0 && event.device != device))
			continue;
		++*ret_ooms;
		if (!has_event || i == asked)
			found = i;
	}
	if (found == UINT64_MAX && has_event)
		return gm_error_create(GM_USAGE,
		        "event %" PRIu64 ": not an oom event, or of another device: `gpumem "
		        "events` lists the events "
		        "(%zu are oom)",
		        asked, *ret_ooms);
	if (found == UINT64_MAX && device >= 0)
		return gm_error_create(GM_NEGATIVE,
		        "no out-of-memory error: the recording has no oom event of device %d: "
		        "`gpumem peak --device %d` shows what makes up the peak",
		        device, device);
	if (found == UINT64_MAX)
		return gm_error_create(GM_NEGATIVE,
		        "no out-of-memory error: the recording has no oom event: "
		        "`gpumem peak` shows what makes up the peak");
	*ret_event = found;
	return NULL;
}

static struct gm_error *take_stack(const struct gm_log *log, uint32_t stack, struct gm_oom *oom)
{
	enum { FRAMES_MAX = 64 };
	struct gm_frame_place place;
	oom->frames = calloc(FRAMES_MAX, sizeof(*oom->frames));
	if (!oom->frames)
		return &gm_error_no_memory;
	for (size_t i = 0; i < FRAMES_MAX && gm_place_frame(log, stack, i, &place); i++) {
		struct gm_oom_place *to = &oom->frames[oom->frame_count++];
		to->file = strdup(place.file);
		to->function = strdup(place.function);
		to->line = place.line;
		if (!to->file || !to->function)
			return &gm_error_no_memory;
	}
	return NULL;
}

static struct gm_error *top_of_event(struct gm_context *context, uint64_t event, struct gm_oom *oom)
{
	const struct gm_blocks_options options = {.by = GM_BY_LINE,
	        .descend = true,
	        .has_event = true,
	        .event = event,
	        .has_device = true,
	        .device = (uint64_t)oom->memory.device};
	struct gm_blocks blocks;
	struct top top = {0};
	gm_try(gm_ask_blocks(context, &options, &blocks));
	if (blocks.device == oom->memory.model_device)
		for (size_t i = 0; i < blocks.group_count; i++) {
			const struct gm_group *group = &blocks.groups[i];
			char *line = strdup(group->key);
			if (!line)
				top.no_memory = true;
			else
				add_row(&top, (struct gm_oom_holder){.kind = group->kind,
				                      .line = line,
				                      .bytes = group->bytes,
				                      .blocks = group->blocks});
		}
	gm_blocks_deinit(&blocks);
	return keep_top(&top, oom);
}

static void take_counters(const struct gm_log *log, uint64_t event, struct gm_oom_facts *facts)
{
	char name[64];
	uint64_t value;
	if (gm_log_device_total(log, facts->device, &value))
		facts->total = value;
	snprintf(name, sizeof(name), "oom.%" PRIu64 ".free", event);
	if (gm_log_counter(log, name, &value))
		facts->free = value;
}

/* As PyTorch's messages name it: "CUDA", "XPU". */
static void set_platform(struct gm_oom_facts *facts, uint8_t type)
{
	const char *known = gm_device_type_name(type), *name = known ? known : "cuda";
	size_t i = 0;
	for (; name[i] && i + 1 < sizeof(facts->platform); i++)
		facts->platform[i] = (char)toupper((unsigned char)name[i]);
	facts->platform[i] = '\0';
}

static struct gm_error *look_at_event(
        struct gm_context *context, int device, bool has_event, uint64_t asked, struct gm_oom *oom)
{
	struct gm_model *model;
	uint64_t number;
	size_t ooms;
	struct gm_event event;
	size_t of_model;
	gm_try(gm_context_model(context, &model));
	const struct gm_log *log = gm_model_log(model);
	if (device >= 0)
		gm_try(gm_blocks_find_device(model, (uint64_t)device, &of_model));
	gm_try(find_event(log, device, has_event, asked, &number, &ooms));
	gm_log_event(log, number, &event);
	gm_oom_facts_init(&oom->facts);
	set_platform(&oom->facts, event.device_type);
	oom->found = GM_OOM_FOUND_EVENT;
	oom->ooms = ooms;
	oom->retries = GM_NOT_KNOWN;
	oom->facts.device = event.device;
	gm_try(gm_memory_after(context, event.device, (uint32_t)number, &oom->memory));
	gm_memory_is_at_oom(&oom->memory);
	oom->memory_is_then = true;
	take_memory(oom);
	oom->facts.requested = event.size;
	oom->facts.needed = gm_segment_size(event.size);
	take_counters(log, number, &oom->facts);
	/* then the allocator's own figures take precedence over those derived from events */
	if (event.allocated != UINT64_MAX)
		oom->facts.allocated = event.allocated;
	if (event.reserved != UINT64_MAX)
		oom->facts.reserved = event.reserved;
	gm_try(take_stack(log, event.python_stack, oom));
	gm_try(gm_oom_find_growth(model, (uint32_t)number, oom));
	gm_try(judge(oom));
	refer(oom);
	return top_of_event(context, number, oom);
}

struct gm_error *gm_ask_oom_event(struct gm_context *context, int device, bool has_event,
        uint64_t event, struct gm_oom *ret_oom)
{
	*ret_oom = (struct gm_oom){0};
	struct gm_error *error = look_at_event(context, device, has_event, event, ret_oom);
	if (error)
		gm_oom_deinit(ret_oom);
	return error;
}
