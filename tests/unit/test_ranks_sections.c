/* What gpumem-ranks keeps of a recording: an answer sees only what was decoded, so each field of a
 * section has to survive its encoding. Bit 0 of each byte is flipped in turn. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/sections/collectives.h"
#include "ranks/sections/leaks.h"
#include "ranks/sections/oom.h"
#include "ranks/sections/peak.h"
#include "ranks/sections/steps.h"
#include "ranks/sections/timeline.h"
#include "ranks/summary.h"

#if defined(__has_builtin) && __has_builtin(__builtin_clear_padding)
#define clear_padding(pointer) __builtin_clear_padding(pointer)
enum { PADDING_IS_KNOWN = 1 };
#else /* clang */
#define clear_padding(pointer) ((void)(pointer))
enum { PADDING_IS_KNOWN = 0 };
#endif

enum { PIECES_MOST = 4, SIZE_MOST = 4096 };

/* A struct that a section consists of: itself, and the only item of each of its arrays. */
struct piece {
	uint8_t *bytes;
	size_t size;
	uint8_t kept[SIZE_MOST]; /* of each byte: 0xff, or 0 if it is padding or not to be kept */
};

struct pieces {
	struct piece items[PIECES_MOST];
	size_t count;
};

#define add_piece(pieces, type, pointer)                                  \
	do {                                                              \
		struct piece *piece_ = &(pieces)->items[(pieces)->count]; \
		type all_;                                                \
		_Static_assert(sizeof(all_) <= SIZE_MOST, "size");        \
		memset(&all_, 0xff, sizeof(all_));                        \
		clear_padding(&all_);                                     \
		memcpy(piece_->kept, &all_, sizeof(all_));                \
		piece_->bytes = (uint8_t *)(pointer);                     \
		piece_->size = sizeof(all_);                              \
		(pieces)->count++;                                        \
	} while (0)
/* A field of the first piece that is not kept as it is. */
#define leave_out(pieces, type, field) \
	memset((pieces)->items[0].kept + offsetof(type, field), 0, sizeof(((type *)NULL)->field))
#define add_items(pieces, type, array, item)                             \
	do {                                                             \
		leave_out(pieces, type, array);                          \
		add_piece(pieces, item, ((type *)section)->array.items); \
	} while (0)
#define make_item(array, ...) assert_true(gm_array_push((array), (__VA_ARGS__)))

/* --- of each section: one with one item in each array, and its pieces ------------------------- */

static void make_peak(void *section)
{
	struct gm_compared_one *one = &((struct gm_peak_section *)section)->one;
	one->file.steps = calloc(1, sizeof(*one->file.steps));
	assert_non_null(one->file.steps);
	one->file.step_count = 1;
	for (size_t i = 0; i < GM_COMPARED_TABLES_MAX; i++)
		make_item(&one->shares[i], (struct gm_compared_share){.key = 1});
}

static void look_at_peak(void *section, struct pieces *pieces)
{
	add_piece(pieces, struct gm_peak_section, section);
	leave_out(pieces, struct gm_peak_section, one.file.path); /* the summary's */
	leave_out(pieces, struct gm_peak_section, one.file.steps);
	leave_out(pieces, struct gm_peak_section, one.file.step_count);
	add_piece(pieces, struct gm_compared_step,
	        ((struct gm_peak_section *)section)->one.file.steps);
	add_items(pieces, struct gm_peak_section, one.shares[0], struct gm_compared_share);
	add_items(pieces, struct gm_peak_section, one.shares[1], struct gm_compared_share);
}

static void make_steps(void *section)
{
	make_item(&((struct gm_steps_section *)section)->items, (struct gm_kept_stretch){0});
}

static void look_at_steps(void *section, struct pieces *pieces)
{
	add_piece(pieces, struct gm_steps_section, section);
	add_items(pieces, struct gm_steps_section, items, struct gm_kept_stretch);
}

static void make_phases(void *section)
{
	make_item(&((struct gm_phases_section *)section)->items, (struct gm_kept_stretch){0});
}

static void look_at_phases(void *section, struct pieces *pieces)
{
	add_piece(pieces, struct gm_phases_section, section);
	add_items(pieces, struct gm_phases_section, items, struct gm_kept_stretch);
}

static void make_leaks(void *section)
{
	make_item(&((struct gm_leaks_section *)section)->items, (struct gm_kept_leak){0});
}

static void look_at_leaks(void *section, struct pieces *pieces)
{
	add_piece(pieces, struct gm_leaks_section, section);
	add_items(pieces, struct gm_leaks_section, items, struct gm_kept_leak);
}

static void make_oom(void *section)
{
	struct gm_oom_section *oom = section;
	oom->has = true;
	make_item(&oom->top, (struct gm_kept_holder){0});
}

static void look_at_oom(void *section, struct pieces *pieces)
{
	add_piece(pieces, struct gm_oom_section, section);
	leave_out(pieces, struct gm_oom_section, has); /* without it there is nothing else */
	add_items(pieces, struct gm_oom_section, top, struct gm_kept_holder);
}

static void make_timeline(void *section)
{
	struct gm_timeline_section *timeline = section;
	timeline->column_count = GM_TIMELINE_COLUMNS;
	make_item(&timeline->shapes, (struct gm_kept_shape){0});
}

static void look_at_timeline(void *section, struct pieces *pieces)
{
	add_piece(pieces, struct gm_timeline_section, section);
	add_items(pieces, struct gm_timeline_section, shapes, struct gm_kept_shape);
}

static void make_collectives(void *section)
{
	make_item(&((struct gm_collectives_section *)section)->items, (struct gm_kept_calls){0});
}

static void look_at_collectives(void *section, struct pieces *pieces)
{
	add_piece(pieces, struct gm_collectives_section, section);
	add_items(pieces, struct gm_collectives_section, items, struct gm_kept_calls);
}

static const struct {
	const char *name;
	void (*make)(void *section);
	void (*look_at)(void *section, struct pieces *pieces);
} sections[GM_SECTIONS] = {
        [GM_SECTION_PEAK] = {"peak", make_peak, look_at_peak},
        [GM_SECTION_STEPS] = {"steps", make_steps, look_at_steps},
        [GM_SECTION_PHASES] = {"phases", make_phases, look_at_phases},
        [GM_SECTION_LEAKS] = {"leaks", make_leaks, look_at_leaks},
        [GM_SECTION_OOM] = {"oom", make_oom, look_at_oom},
        [GM_SECTION_TIMELINE] = {"timeline", make_timeline, look_at_timeline},
        [GM_SECTION_COLLECTIVES] = {"collectives", make_collectives, look_at_collectives},
};

/* --- there and back --------------------------------------------------------------------------- */

/* False: it refused a value, so it looks at it. */
static bool code(
        void (*function)(struct gm_codec *codec, void *section), void *section, void *ret_decoded)
{
	struct gm_strings strings = {0};
	struct gm_string_numbers numbers = {0};
	struct gm_codec writing, reading;
	assert_true(gm_array_push(&numbers.of, gm_strings_add(&strings, "train.py:7 in train")));
	gm_codec_write(&writing, &strings);
	function(&writing, section);
	gm_codec_read_part(&reading, writing.out.items, writing.out.count, &numbers);
	bool good = !writing.bad;
	if (good) {
		function(&reading, ret_decoded);
		good = !reading.bad;
		assert_true(!good || reading.in.at == reading.in.end);
	}
	gm_codec_deinit(&writing);
	gm_codec_deinit(&reading);
	gm_array_deinit(&numbers.of);
	gm_strings_deinit(&strings);
	return good;
}

static void compare(const char *name, const struct pieces *before, const struct pieces *after)
{
	for (size_t i = 0; i < before->count; i++)
		for (size_t j = 0; j < before->items[i].size; j++) {
			const struct piece *one = &before->items[i], *other = &after->items[i];
			if (!((one->bytes[j] ^ other->bytes[j]) & one->kept[j]))
				continue;
			print_error("section %s, struct %zu of it: byte %zu is not encoded\n", name,
			        i, j);
			fail();
		}
}

/* With one bit changed; false: there is no such bit. */
static bool check_bit(enum gm_section number, size_t piece, size_t byte)
{
	static struct pieces before, after;
	const struct gm_section_kind *kind = gm_sections[number];
	void *section = calloc(1, kind->size), *decoded = calloc(1, kind->size);
	assert_true(section && decoded);
	before.count = after.count = 0;
	sections[number].make(section);
	sections[number].look_at(section, &before);
	bool there = piece < before.count && byte < before.items[piece].size;
	if (there && before.items[piece].kept[byte]) {
		before.items[piece].bytes[byte] ^= 1;
		if (code(kind->code, section, decoded)) {
			sections[number].look_at(decoded, &after);
			compare(sections[number].name, &before, &after);
		}
	}
	kind->deinit(section);
	kind->deinit(decoded);
	free(section);
	free(decoded);
	return there;
}

static void each_field_of_a_section_survives_its_encoding(void **state)
{
	if (!PADDING_IS_KNOWN) {
		print_message("this compiler does not tell which bytes of a struct are padding\n");
		skip();
	}
	for (unsigned number = 0; number < GM_SECTIONS; number++) {
		size_t piece = 0, byte;
		do
			for (byte = 0; check_bit(number, piece, byte); byte++)
				;
		while (byte && piece++ < PIECES_MOST);
		assert_true(piece > 1); /* its arrays too */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(each_field_of_a_section_survives_its_encoding),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
