#include "image/core_plan.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "image/page_cache.h"
#include "image/pagemap.h"

enum {
	/* An untouched range of this length becomes a part of its own that takes no space in the
	 * file: otherwise reserved address space would make its size terabytes. */
	LONG_GAP = 16 << 20,
};

void gm_core_plan_pages(
        const struct gm_core_plan *plan, uint64_t start, size_t count, uint8_t *ret_states)
{
	uint64_t entries[GM_PAGES_AT_ONCE];
	if (!gm_pagemap_read(plan->pagemap, start, count, entries)) {
		memset(ret_states, GM_PAGE_TOUCHED, count);
		return;
	}
	for (size_t i = 0; i < count; i++)
		ret_states[i] =
		        (uint8_t)((gm_pagemap_is_touched(entries[i]) ? GM_PAGE_TOUCHED : 0) |
		                  (entries[i] & GM_PAGEMAP_FILE_OR_SHARED ? GM_PAGE_OF_FILE : 0));
}

static bool add_part(struct gm_core_plan *plan, const struct gm_mapping *mapping, uint64_t start,
        uint64_t end, uint64_t saved, enum gm_part_kind kind)
{
	struct gm_core_part part = {start, end, saved, mapping->flags, saved ? kind : GM_PART_NONE,
	        kind == GM_PART_TOUCHED};
	return gm_array_push(&plan->parts, part);
}

/* --- kinds of mappings ------------------------------------------------------------------------ */

/* Mappings that the kernel marks as a device's (io, pf) or that the program excludes (dd), from
 * "VmFlags:" of /proc/PID/smaps. */
struct unwanted {
	GM_ARRAY(uint64_t) starts;
	size_t next;
};

static bool find_unwanted(pid_t pid, struct unwanted *unwanted)
{
	char path[32], line[1024];
	snprintf(path, sizeof(path), "/proc/%d/smaps", pid);
	_cleanup_fclose_ FILE *file = pid > 0 ? fopen(path, "re") : NULL;
	unsigned long long start = 0, first, end;
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%llx-%llx ", &first, &end) == 2)
			start = first;
		else if (strncmp(line, "VmFlags:", 8) == 0 &&
		         (strstr(line, " io") || strstr(line, " pf") || strstr(line, " dd")) &&
		         !gm_array_push(&unwanted->starts, start))
			return false;
	}
	return true;
}

static bool is_unwanted(struct unwanted *unwanted, const struct gm_mapping *mapping)
{
	while (unwanted->next < unwanted->starts.count &&
	        unwanted->starts.items[unwanted->next] < mapping->start)
		unwanted->next++;
	return unwanted->next < unwanted->starts.count &&
	       unwanted->starts.items[unwanted->next] == mapping->start;
}

static bool begins(const char *text, const char *beginning)
{
	return strncmp(text, beginning, strlen(beginning)) == 0;
}

static bool is_deleted(const char *path)
{
	static const char mark[] = " (deleted)";
	size_t length = strlen(path), tail = sizeof(mark) - 1;
	return length > tail && strcmp(path + length - tail, mark) == 0;
}

static bool is_device(const struct gm_mapping *mapping)
{
	return (mapping->flags & GM_MAPPING_DEVICE) ||
	       (begins(mapping->path, "/dev/") && !begins(mapping->path, "/dev/shm/") &&
	               !begins(mapping->path, "/dev/zero"));
}

/* Memory that has a name but no file on disk from which it could be read later. */
static bool is_memory_only(const struct gm_mapping *mapping)
{
	return begins(mapping->path, "/dev/shm/") || begins(mapping->path, "/dev/zero") ||
	       begins(mapping->path, "/memfd:") || begins(mapping->path, "/SYSV") ||
	       begins(mapping->path, "/anon_hugepage") || is_deleted(mapping->path);
}

/* --- parts of a mapping ----------------------------------------------------------------------- */

/* Walks a mapping's pages: runs of wanted pages, by their state. */
struct walk {
	const struct gm_core_plan *plan;
	uint64_t at, end;
	uint8_t states[GM_PAGES_AT_ONCE];
	uint64_t first; /* the page address of states[0] */
	size_t count;
};

static uint8_t state_at(struct walk *walk, uint64_t page)
{
	if (page < walk->first || page >= walk->first + walk->count * GM_PAGE_SIZE) {
		uint64_t left = (walk->end - page) / GM_PAGE_SIZE;
		walk->first = page;
		walk->count = left < GM_PAGES_AT_ONCE ? (size_t)left : GM_PAGES_AT_ONCE;
		gm_core_plan_pages(walk->plan, page, walk->count, walk->states);
	}
	return walk->states[(page - walk->first) / GM_PAGE_SIZE];
}

/* Skips a page that is not wanted; if no examined one is left, to the next one that was touched. */
static void pass_over(struct walk *walk)
{
	walk->at += GM_PAGE_SIZE;
	if (walk->at == walk->first + walk->count * GM_PAGE_SIZE)
		walk->at = gm_pagemap_next_touched(walk->plan->pagemap, walk->at, walk->end);
}

/* Only touched pages are ever wanted. */
static bool next_run(
        struct walk *walk, bool (*wanted)(uint8_t state), uint64_t *ret_start, uint64_t *ret_end)
{
	while (walk->at < walk->end && !wanted(state_at(walk, walk->at)))
		pass_over(walk);
	if (walk->at >= walk->end)
		return false;
	*ret_start = walk->at;
	while (walk->at < walk->end && wanted(state_at(walk, walk->at)))
		walk->at += GM_PAGE_SIZE;
	*ret_end = walk->at;
	return true;
}

static bool is_touched(uint8_t state)
{
	return state & GM_PAGE_TOUCHED;
}

static bool is_changed(uint8_t state)
{
	return (state & GM_PAGE_TOUCHED) && !(state & GM_PAGE_OF_FILE);
}

static bool is_never(uint8_t state)
{
	return false;
}

/*
 * Parts made of runs of wanted pages, merged if the gap between them is at most `gap`. Memory
 * between parts takes no space in the file; it belongs to the part before it, which is then longer
 * than its saved bytes, as in the kernel's own cores.
 */
static bool add_runs(struct gm_core_plan *plan, const struct gm_mapping *mapping, bool first_page,
        bool (*wanted)(uint8_t state), uint64_t gap, enum gm_part_kind kind)
{
	struct walk walk = {.plan = plan, .at = mapping->start, .end = mapping->end};
	uint64_t start = mapping->start, saved_end = start, run_start, run_end, touched = 0;
	if (first_page && saved_end < mapping->end) {
		walk.at = saved_end = start + GM_PAGE_SIZE;
		touched = GM_PAGE_SIZE;
	}
	while (next_run(&walk, wanted, &run_start, &run_end)) {
		if (run_start - saved_end > gap) {
			if (run_start > start &&
			        !add_part(plan, mapping, start, run_start, saved_end - start, kind))
				return false;
			if (kind == GM_PART_ALL)
				plan->bytes += saved_end - start;
			start = run_start;
		}
		saved_end = run_end;
		touched += run_end - run_start;
	}
	if (kind == GM_PART_ALL)
		plan->bytes += saved_end - start;
	else
		plan->bytes += touched;
	*(kind == GM_PART_ALL ? &plan->files : &plan->untouched) +=
	        mapping->end - mapping->start - touched;
	return add_part(plan, mapping, start, mapping->end, saved_end - start, kind);
}

static bool add_mapping(
        struct gm_core_plan *plan, const struct gm_mapping *mapping, struct unwanted *unwanted)
{
	uint64_t size = mapping->end - mapping->start;
	bool file = mapping->path[0] == '/';
	if (strcmp(mapping->path, "[vsyscall]") == 0)
		return true; /* the kernel's, beyond the readable range */
	if (is_device(mapping)) {
		plan->device += size;
		return add_part(plan, mapping, mapping->start, mapping->end, 0, GM_PART_NONE);
	}
	if (!(mapping->flags & GM_MAPPING_READ) || is_unwanted(unwanted, mapping) ||
	        strcmp(mapping->path, "[vvar]") == 0)
		return add_part(plan, mapping, mapping->start, mapping->end, 0, GM_PART_NONE);
	if (strcmp(mapping->path, "[vdso]") == 0) {
		plan->bytes += size;
		return add_part(plan, mapping, mapping->start, mapping->end, size, GM_PART_ALL);
	}
	/* Another process may have filled pages of shared memory that this one never touched: they
	 * are not zero, so they are not saved. */
	if (mapping->flags & GM_MAPPING_SHARED)
		return add_runs(plan, mapping,
		        file && mapping->file_offset == 0 && !is_memory_only(mapping),
		        is_memory_only(mapping) ? is_touched : is_changed, 0, GM_PART_ALL);
	if (!file)
		return add_runs(plan, mapping, false, is_touched, LONG_GAP, GM_PART_TOUCHED);
	if (is_memory_only(mapping))
		return add_runs(
		        plan, mapping, mapping->file_offset == 0, is_touched, 0, GM_PART_ALL);
	bool may_differ = plan->pagemap >= 0 || (mapping->flags & GM_MAPPING_WRITE);
	return add_runs(plan, mapping, mapping->file_offset == 0,
	        may_differ ? is_changed : is_never, 0, GM_PART_ALL);
}

struct gm_error *gm_core_plan_init(struct gm_image *image, struct gm_core_plan *ret_plan)
{
	struct gm_core_plan plan = {.pagemap = -1};
	pid_t pid = gm_image_pid(image);
	if (pid > 0) {
		char path[32];
		snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
		plan.pagemap = open(path, O_RDONLY | O_CLOEXEC);
	}
	struct unwanted unwanted = {0};
	bool made = find_unwanted(pid, &unwanted);
	size_t count;
	const struct gm_mapping *mappings = gm_image_mappings(image, &count);
	for (size_t i = 0; i < count && made; i++)
		made = add_mapping(&plan, &mappings[i], &unwanted);
	gm_array_deinit(&unwanted.starts);
	if (!made) {
		gm_core_plan_deinit(&plan);
		return &gm_error_no_memory;
	}
	*ret_plan = plan;
	return NULL;
}

void gm_core_plan_deinit(struct gm_core_plan *plan)
{
	gm_array_deinit(&plan->parts);
	if (plan->pagemap >= 0)
		close(plan->pagemap);
	*plan = (struct gm_core_plan){.pagemap = -1};
}
