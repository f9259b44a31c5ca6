#include "ask/oom/oom_text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ask/target/memory.h"
#include "ask/oom/oom_facts.h"
#include "base/array.h"
#include "base/cleanup.h"

/*
 * Where the wordings come from (c10/cuda/CUDACachingAllocator.cpp, c10/xpu/XPUCachingAllocator.cpp,
 * aten/src/ATen/mps/MPSAllocator.mm):
 *
 *   until 1.3   (GPU 0; T total capacity; A already allocated; F free; U cached)
 *   1.4 to 2.0  (GPU 0; T total capacity; A already allocated; F free; [L allowed; ]R reserved in
 *               total by PyTorch)
 *   from 2.1    GPU 0 has a total capacity of T of which F is free. [L allowed; ][Process P has O
 *               memory in use. ...] [Including non-PyTorch memory, this process has X memory in
 *               use.] Of the allocated memory A is allocated by PyTorch, [with G allocated in
 *               private pools ..., ]and U is reserved by PyTorch but unallocated.
 *   XPU         as either; without "free" in the old one
 *   MPS         MPS backend out of memory (MPS allocated: A, other allocations: O, max allowed:
 *               L). Tried to allocate ...
 *
 * 2.1 wrote "capacty"; builds and translations of others "capability", "Total capacity": any word
 * that begins with "cap" is meant.
 */
enum { WINDOW = 3000, BEFORE = 400, MESSAGES_MAX = 4096, RECENT = 256 };

struct span {
	const char *at, *end;
};

/* --- colours ---------------------------------------------------------------------------------- */

/* Removes terminal control sequences; all other bytes stay in order. */
static char *plain_text(const char *text, size_t length, size_t *ret_length)
{
	char *plain = calloc(length + 1, 1);
	if (!plain)
		return NULL;
	size_t to = 0;
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '\033' && i + 1 < length && text[i + 1] == '[') {
			i += 2;
			while (i < length && !isalpha((unsigned char)text[i]) && text[i] != '\n')
				i++;
			continue;
		}
		plain[to++] = text[i] ? text[i] : ' ';
	}
	plain[to] = 0;
	*ret_length = to;
	return plain;
}

/* --- matching --------------------------------------------------------------------------------- */

static const char *skip_space(const char *at, const char *end)
{
	while (at < end && (isspace((unsigned char)*at) || *at == '|'))
		at++;
	return at;
}

/* "7.47 GiB", "960.00 KiB", "0 bytes", "1.09 GB" (older MPS: powers of 1024 too). */
static const char *read_size(const char *at, const char *end, uint64_t *ret_bytes)
{
	static const struct {
		const char *name;
		double factor;
	} units[] = {{"bytes", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
	        {"TiB", 1099511627776.0}, {"KB", 1 << 10}, {"MB", 1 << 20}, {"GB", 1 << 30},
	        {"byte", 1}};
	double value = 0, place = 1;
	const char *start = at;
	bool point = false;
	for (; at < end && at - start < 24 && (isdigit((unsigned char)*at) || *at == '.'); at++) {
		if (*at == '.') {
			if (point)
				return NULL;
			point = true;
		} else if (point) {
			value += (*at - '0') * (place /= 10);
		} else {
			value = value * 10 + (*at - '0');
		}
	}
	if (at == start)
		return NULL;
	at = skip_space(at, end);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t length = strlen(units[i].name);
		if ((size_t)(end - at) < length || strncmp(at, units[i].name, length) != 0)
			continue;
		double bytes = value * units[i].factor;
		if (bytes >= (double)(UINT64_C(1) << 60))
			return NULL;
		*ret_bytes = (uint64_t)(bytes + 0.5);
		return at + length;
	}
	return NULL;
}

static const char *read_number(const char *at, const char *end, uint64_t *ret_number)
{
	const char *start = at;
	uint64_t number = 0;
	for (; at < end && isdigit((unsigned char)*at) && at - start < 18; at++)
		number = number * 10 + (uint64_t)(*at - '0');
	*ret_number = number;
	return at == start ? NULL : at;
}

static const char *skip_word(const char *at, const char *end)
{
	while (at < end && isalpha((unsigned char)*at))
		at++;
	return at;
}

/* '%' is a size, '#' a number, '*' the rest of a word, ' ' optional space; anything else is the
 * character itself. Returns the position after the match, or NULL. */
static const char *match(const char *at, const char *end, const char *pattern, uint64_t *values)
{
	for (; *pattern && at; pattern++) {
		if (*pattern == ' ')
			at = skip_space(at, end);
		else if (*pattern == '%')
			at = read_size(at, end, values++);
		else if (*pattern == '#')
			at = read_number(at, end, values++);
		else if (*pattern == '*')
			at = skip_word(at, end);
		else if (at >= end || *at++ != *pattern)
			return NULL;
	}
	return at;
}

/* The first match within a range; NULL if none. A match never begins in the middle of a number. */
static const char *find(struct span span, const char *pattern, uint64_t *values)
{
	uint64_t found[4] = {0};
	size_t count = 0;
	for (const char *sign = pattern; *sign; sign++)
		count += *sign == '%' || *sign == '#';
	for (const char *at = span.at; at < span.end; at++) {
		if (*pattern == '%' ? !isdigit((unsigned char)*at) ||
		                              (at > span.at && (isdigit((unsigned char)at[-1]) ||
		                                                       at[-1] == '.'))
		                    : *at != *pattern)
			continue;
		const char *behind = match(at, span.end, pattern, found);
		if (!behind)
			continue;
		if (count && values)
			memcpy(values, found, count * sizeof(*values));
		return behind;
	}
	return NULL;
}

/* --- one message ------------------------------------------------------------------------------ */

static void read_device(struct span span, struct gm_oom_facts *facts)
{
	static const char *const patterns[] = {
	        "GPU # has a total cap", "GPU # has a Total cap", "GPU #;", "(GPU #"};
	uint64_t number;
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		if (find(span, patterns[i], &number) && number < 1024) {
			facts->device = (int)number;
			return;
		}
	}
}

static void read_processes(struct span span, struct gm_oom_facts *facts)
{
	uint64_t values[2];
	const char *at = span.at;
	while (facts->other_count < GM_OOM_PROCESSES_MAX &&
	        (at = find((struct span){at, span.end}, "Process # has % memory in use", values))) {
		facts->others[facts->other_count].pid = values[0];
		facts->others[facts->other_count++].bytes = values[1];
	}
}

static void read_figures(struct span span, struct gm_oom_facts *facts)
{
	const struct {
		const char *pattern;
		uint64_t *to;
	} fields[] = {
	        {"otal cap* of %", &facts->total},
	        {"otal cap*: %", &facts->total},
	        {"% total cap", &facts->total},
	        {"% Total cap", &facts->total},
	        {"of which % is free", &facts->free},
	        {"% free;", &facts->free},
	        {"% allowed;", &facts->limit},
	        {"% already allocated", &facts->allocated},
	        {"% is allocated by PyTorch", &facts->allocated},
	        {"with % allocated in private pools", &facts->private_pools},
	        {"% reserved in total by PyTorch", &facts->reserved},
	        {"% is reserved by PyTorch but unallocated", &facts->unallocated},
	        {"% cached", &facts->unallocated},
	        {"this process has % memory in use", &facts->process},
	};
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (*fields[i].to == GM_NOT_KNOWN)
			find(span, fields[i].pattern, fields[i].to);
	read_processes(span, facts);
}

/* The sums that a message does not state. */
static void complete(struct gm_oom_facts *facts)
{
	if (facts->allocated == GM_NOT_KNOWN)
		return;
	if (facts->reserved == GM_NOT_KNOWN && facts->unallocated != GM_NOT_KNOWN)
		facts->reserved = facts->allocated + facts->unallocated;
	if (facts->unallocated == GM_NOT_KNOWN && facts->reserved != GM_NOT_KNOWN)
		facts->unallocated =
		        facts->reserved > facts->allocated ? facts->reserved - facts->allocated : 0;
	if (facts->total != GM_NOT_KNOWN && facts->limit == GM_NOT_KNOWN)
		facts->limit = 0;
}

static void read_mps(struct span span, struct gm_oom_facts *facts)
{
	uint64_t values[3];
	if (!find(span, "MPS allocated: %, other allocations: %, max allowed: %", values))
		return;
	facts->allocated = facts->reserved = values[0];
	facts->unallocated = 0;
	facts->process = values[0] + values[1];
	facts->limit = values[2];
}

/* The last of the platforms' phrases before the request. */
static void read_platform(struct span before, struct gm_oom_facts *facts)
{
	static const char *const names[] = {"CUDA", "HIP", "XPU", "MPS"};
	const char *latest = before.at;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char words[32];
		snprintf(words, sizeof(words), "%s%s out of memory", names[i],
		        strcmp(names[i], "MPS") == 0 ? " backend" : "");
		const char *at = before.at;
		while ((at = find((struct span){at, before.end}, words, NULL)))
			if (at > latest) {
				latest = at;
				strcpy(facts->platform, names[i]);
			}
	}
	if (!facts->platform[0])
		strcpy(facts->platform, "CUDA");
}

/* --- which process logged the line ------------------------------------------------------------ */

static bool read_rank(struct span line, char *label, size_t size)
{
	static const char *const patterns[] = {
	        "[rank#]", "rank#", "rank #", "rank=#", "rank:#", "Rank #", "[default#]", "RANK #"};
	uint64_t number;
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		if (find(line, patterns[i], &number)) {
			snprintf(label, size, "rank %u", (unsigned)(number % 10000000));
			return true;
		}
	}
	return false;
}

/* "Worker_TP0 pid=548" -> "Worker_TP0" */
static void read_worker(struct span line, char *label, size_t size)
{
	const char *at = find(line, "Worker", NULL);
	if (!at)
		return;
	const char *start = at - strlen("Worker");
	size_t length = (size_t)(at - start);
	while (start + length < line.end && length + 1 < size &&
	        (isalnum((unsigned char)start[length]) || start[length] == '_'))
		length++;
	if (length > strlen("Worker"))
		snprintf(label, size, "%.*s", (int)length, start);
}

static void read_label(const char *text, const char *at, char *label, size_t size)
{
	const char *start = at;
	while (start > text && start[-1] != '\n' && at - start < WINDOW)
		start--;
	struct span line = {start, at};
	if (!read_rank(line, label, size))
		read_worker(line, label, size);
}

/* --- all messages ----------------------------------------------------------------------------- */

static const char asked[] = "Tried to allocate";

/* The next request with a size after it. */
static const char *next_request(const char *at, const char *end, uint64_t *ret_bytes)
{
	while (at < end && (at = memmem(at, (size_t)(end - at), asked, sizeof(asked) - 1))) {
		at += sizeof(asked) - 1;
		if (read_size(skip_space(at, end), end, ret_bytes))
			return at;
	}
	return NULL;
}

static bool is_same(const struct gm_oom_message *left, const struct gm_oom_message *right)
{
	return strcmp(left->label, right->label) == 0 &&
	       memcmp(&left->facts, &right->facts, sizeof(left->facts)) == 0;
}

void gm_oom_facts_init(struct gm_oom_facts *facts)
{
	memset(facts, 0, sizeof(*facts)); /* compared as bytes, including padding */
	facts->device = -1;
	uint64_t *const unknown[] = {&facts->requested, &facts->needed, &facts->total, &facts->free,
	        &facts->limit, &facts->allocated, &facts->reserved, &facts->unallocated,
	        &facts->private_pools, &facts->pending, &facts->largest_hole, &facts->movable,
	        &facts->rounding, &facts->whole_free, &facts->waited_whole, &facts->waited_largest,
	        &facts->process};
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		*unknown[i] = GM_NOT_KNOWN;
}

static void read_message(
        struct span before, struct span after, uint64_t bytes, struct gm_oom_message *message)
{
	struct gm_oom_facts *facts = &message->facts;
	memset(message, 0, sizeof(*message));
	gm_oom_facts_init(facts);
	facts->rounded = true;
	facts->requested = facts->needed = bytes;
	message->repeats = 1;
	read_platform(before, facts);
	if (strcmp(facts->platform, "MPS") == 0) {
		read_mps(before, facts);
		return;
	}
	read_device(after, facts);
	read_figures(after, facts);
	complete(facts);
}

bool gm_oom_parse(const char *text, size_t length, struct gm_oom_messages *ret_messages)
{
	GM_ARRAY(struct gm_oom_message) messages = {0};
	size_t plain_length, left_out = 0;
	_cleanup_free_ char *plain = plain_text(text, length, &plain_length);
	if (!plain)
		return false;
	const char *end = plain + plain_length, *previous = plain, *counted = plain;
	uint32_t line = 1;
	uint64_t bytes = 0, ignored = 0;
	for (const char *at = next_request(plain, end, &bytes); at;) {
		struct gm_oom_message message;
		const char *next = next_request(at, end, &ignored);
		const char *stop = next ? next - sizeof(asked) + 1 : end;
		const char *start = at - previous > BEFORE ? at - BEFORE : previous;
		if (stop - at > WINDOW)
			stop = at + WINDOW;
		read_message((struct span){start, at}, (struct span){at, stop}, bytes, &message);
		read_label(plain, at, message.label, sizeof(message.label));
		for (; counted < at; counted++)
			line += *counted == '\n';
		message.line = line;
		/* a message is often repeated soon after: by the traceback, by the logger */
		size_t known = messages.count > RECENT ? messages.count - RECENT : 0;
		while (known < messages.count && !is_same(&messages.items[known], &message))
			known++;
		if (known < messages.count) {
			messages.items[known].repeats++;
		} else if (messages.count == MESSAGES_MAX) {
			left_out++;
		} else if (!gm_array_push(&messages, message)) {
			gm_array_deinit(&messages);
			return false;
		}
		previous = at;
		at = next;
		bytes = ignored;
	}
	*ret_messages = (struct gm_oom_messages){messages.items, messages.count, left_out};
	return true;
}
