#include "cpython/versions/learned.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpython/cpython.h"
#include "cpython/versions/learned_fields.h"

/* The words for the numbers of struct gm_opcode, each in the order of its enum (cpython.h,
 * opcodes.h). */
static const char *const operations[] = {"OTHER", "STORE_FAST", "STORE_NAME", "STORE_GLOBAL",
        "STORE_DEREF", "STORE_ATTR", "STORE_SUBSCR", "DELETE_FAST", "DELETE_NAME", "DELETE_GLOBAL",
        "DELETE_DEREF", "DELETE_ATTR", "DELETE_SUBSCR", "CALL", "RETURN", "POP_TOP", "FOR_ITER",
        "END_FOR", "POP_EXCEPT", "YIELD", NULL};
_Static_assert(sizeof(operations) / sizeof(operations[0]) == GM_OP_COUNT + 1,
        "an operation of enum gm_op has no word");
static const char *const arguments[] = {
        "NONE", "NAME", "LOCAL", "DEREF", "LOCAL_PAIR_FIRST", "LOCAL_PAIR_BOTH", NULL};
static const char *const forms[] = {
        "UNKNOWN", "CONSTANT", "ARGUMENT", "BIT_0", "BIT_2", "IS_3", "BITS", "BYTES", NULL};
static const struct {
	const char *word;
	uint8_t bit;
} flags[] = {
        {"JUMP_BACK", GM_OPCODE_JUMP_BACK},
        {"JUMP_ABSOLUTE", GM_OPCODE_JUMP_ABSOLUTE},
        {"THEN_STORE", GM_OPCODE_THEN_STORE},
        {"EXTENDED", GM_OPCODE_EXTENDED},
        {"SEND", GM_OPCODE_SEND},
        {"JUMP_FORWARD", GM_OPCODE_JUMP_FORWARD},
        {"NO_NEXT", GM_OPCODE_NO_NEXT},
};

const char *gm_python_field_name(size_t index)
{
	return index < gm_learned_field_count ? gm_learned_fields[index].name : NULL;
}

int32_t *gm_python_field(struct gm_python_layout *layout, size_t index)
{
	return (int32_t *)(void *)((char *)layout + gm_learned_fields[index].at);
}

void gm_python_learned_init(struct gm_python_learned *learned)
{
	static const struct gm_published_field nothing = {0};

	memset(learned, 0, sizeof(*learned));
	for (size_t i = 0; i < gm_learned_field_count; i++)
		*gm_python_field(&learned->layout, i) = GM_NO_FIELD;
	learned->tables = (struct gm_python_tables){
	        .layout = &learned->layout, .opcodes = learned->opcodes, .published = &nothing};
}

/* --- words ------------------------------------------------------------------------------------ */

/* The next word of a line, at most size - 1 characters; false: there is none, or it is too long. */
static bool next_word(const char **line, char *ret_word, size_t size)
{
	size_t length;

	*line += strspn(*line, " ");
	length = strcspn(*line, " ");
	if (!length || length >= size)
		return false;
	memcpy(ret_word, *line, length);
	ret_word[length] = 0;
	*line += length;
	return true;
}

static bool next_number(const char **line, long least, long most, long *ret)
{
	char word[24], *end;
	long number;

	if (!next_word(line, word, sizeof(word)))
		return false;
	number = strtol(word, &end, 10);
	if (*end || number < least || number > most)
		return false;
	*ret = number;
	return true;
}

/* A word of a list, by its index. */
static bool next_of(const char **line, const char *const *words, uint8_t *ret)
{
	char word[32];

	if (!next_word(line, word, sizeof(word)))
		return false;
	for (uint8_t i = 0; words[i]; i++) {
		if (!strcmp(words[i], word)) {
			*ret = i;
			return true;
		}
	}
	return false;
}

static bool at_end(const char *line)
{
	return !line[strspn(line, " ")];
}

static bool next_flags(const char **line, uint8_t *ret)
{
	char word[128], *rest = word, *one;

	if (!next_word(line, word, sizeof(word)))
		return false;
	*ret = 0;
	if (!strcmp(word, "-"))
		return true;
	while ((one = strsep(&rest, "|"))) {
		size_t i = 0;
		while (i < sizeof(flags) / sizeof(flags[0]) && strcmp(flags[i].word, one) != 0)
			i++;
		if (i == sizeof(flags) / sizeof(flags[0]))
			return false;
		*ret |= flags[i].bit;
	}
	return true;
}

static bool next_effect(const char **line, struct gm_effect *ret)
{
	long constant, slope;

	if (!next_of(line, forms, &ret->form) || !next_number(line, -100, 100, &constant) ||
	        !next_number(line, -4, 4, &slope))
		return false;
	ret->constant = (int8_t)constant;
	ret->slope = (int8_t)slope;
	return true;
}

/* --- lines ------------------------------------------------------------------------------------ */

static const char *take_field(struct gm_python_learned *learned, const char *line)
{
	char name[64];
	long value;

	if (!next_word(&line, name, sizeof(name)))
		return "a field without a name";
	for (size_t i = 0; i < gm_learned_field_count; i++) {
		const struct gm_learned_field *field = &gm_learned_fields[i];
		if (strcmp(field->name, name) != 0)
			continue;
		if (!next_number(&line, field->least, field->most, &value) || !at_end(line) ||
		        value % field->step)
			return "its offset is out of bounds";
		if (*gm_python_field(&learned->layout, i) != GM_NO_FIELD)
			return "it occurs twice";
		*gm_python_field(&learned->layout, i) = (int32_t)value;
		return NULL;
	}
	return NULL; /* written by a later or an earlier gpumem */
}

static const char *take_opcode(struct gm_python_learned *learned, const char *line)
{
	struct gm_opcode opcode = {0};
	long number, base, caches;
	char *name;

	if (!next_number(&line, 0, 255, &number))
		return "an opcode's number is out of bounds";
	name = learned->names[number];
	if (learned->opcodes[number].name)
		return "an opcode occurs twice";
	if (!next_word(&line, name, GM_LEARNED_NAME) || !next_of(&line, operations, &opcode.op) ||
	        !next_of(&line, operations, &opcode.returned) ||
	        !next_of(&line, arguments, &opcode.argument) ||
	        !next_number(&line, 0, 255, &base) || !next_number(&line, 0, 32, &caches) ||
	        !next_flags(&line, &opcode.flags) || !next_effect(&line, &opcode.next) ||
	        !next_effect(&line, &opcode.jump) || !at_end(line))
		return "an opcode's line makes no sense";
	opcode.name = name;
	opcode.base = (uint8_t)base;
	opcode.caches = (uint8_t)caches;
	learned->opcodes[number] = opcode;
	return NULL;
}

static const char *take_build(struct gm_python_learned *learned, const char *line)
{
	char word[2 * GM_LEARNED_ID + 1];
	size_t length;

	if (!next_word(&line, word, sizeof(word)) || !at_end(line) || learned->id_size)
		return "no build-id";
	length = strlen(word);
	if (length % 2 || strspn(word, "0123456789abcdef") != length)
		return "no build-id";
	for (size_t i = 0; i < length / 2; i++) {
		const char byte[3] = {word[2 * i], word[2 * i + 1], 0};
		learned->id[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
	learned->id_size = (uint32_t)(length / 2);
	return NULL;
}

const char *gm_python_learned_line(struct gm_python_learned *learned, const char *line)
{
	char kind[32];
	long number;

	if (!next_word(&line, kind, sizeof(kind)))
		return NULL;
	if (!strcmp(kind, "field"))
		return take_field(learned, line);
	if (!strcmp(kind, "opcode"))
		return take_opcode(learned, line);
	if (!strcmp(kind, "build"))
		return take_build(learned, line);
	if (!strcmp(kind, "fields"))
		return next_number(&line, 1, 1 << 16, &learned->looked_for) ? NULL
		                                                            : "it is not a number";
	if (strcmp(kind, "hexversion") != 0)
		return NULL;
	if (!next_number(&line, 0x03090000, 0x03ffffff, &number) || !at_end(line) || learned->hex)
		return "its version is out of bounds";
	learned->hex = (unsigned long)number;
	learned->tables.version = learned->layout.version = (int)(number >> 16);
	return NULL;
}

bool gm_python_opcode_line(
        const struct gm_python_tables *tables, uint8_t number, char *ret_line, size_t size)
{
	const struct gm_opcode *opcode = &tables->opcodes[number];
	char set[128] = "";
	int written;

	if (!opcode->name)
		return false;
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (opcode->flags & flags[i].bit) {
			if (*set)
				strcat(set, "|");
			strcat(set, flags[i].word);
		}
	}
	written = snprintf(ret_line, size, "%d %s %s %s %s %d %d %s %s %d %d %s %d %d", number,
	        opcode->name, operations[opcode->op], operations[opcode->returned],
	        arguments[opcode->argument], opcode->base, opcode->caches, *set ? set : "-",
	        forms[opcode->next.form], opcode->next.constant, opcode->next.slope,
	        forms[opcode->jump.form], opcode->jump.constant, opcode->jump.slope);
	return written > 0 && (size_t)written < size;
}

/* --- the whole -------------------------------------------------------------------------------- */

/* The shipped layout whose form this one must have: that of the version itself, or of the last
 * version before it. */
static const struct gm_python_tables *nearest(int version)
{
	size_t count;
	const struct gm_python_tables *all = gm_python_tables_all(&count), *found = all;

	for (size_t i = 0; i < count; i++)
		if (all[i].version <= version)
			found = &all[i];
	return found;
}

static bool is_optional(const char *name)
{
	for (const char *const *one = gm_learned_optional; *one; one++)
		if (!strcmp(*one, name))
			return true;
	return false;
}

/* A field that begins at the end of the part that is read at once, or is read separately. */
static bool is_behind(const char *name)
{
	static const char *const names[] = {
	        "code_adaptive", "frame_localsplus", "keys_indices", "str_data"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

/* A field is within the part of its struct that is read at once. */
static const char *check_within(struct gm_python_layout *layout, const char **ret_field)
{
	const struct {
		const char *prefix;
		int32_t size;
	} parts[] = {
	        {"thread_", layout->thread_size},
	        {"code_", layout->code_size},
	        {"type_", layout->type_size},
	        {"str_", layout->str_ascii_size},
	        {"keys_", layout->keys_indices},
	        {"frame_", layout->frame_localsplus},
	};
	for (size_t i = 0; i < gm_learned_field_count; i++) {
		const struct gm_learned_field *field = &gm_learned_fields[i];
		const int32_t value = *gm_python_field(layout, i);
		const int32_t width = field->step < 8 ? field->step : 8;
		if (value == GM_NO_FIELD || field->least || is_behind(field->name))
			continue;
		*ret_field = field->name;
		for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++)
			if (!strncmp(field->name, parts[k].prefix, strlen(parts[k].prefix)) &&
			        value + width > parts[k].size)
				return "it lies beyond the end of its struct";
	}
	return NULL;
}

const char *gm_python_learned_check(struct gm_python_learned *learned, const char **ret_field)
{
	struct gm_python_layout model;
	size_t opcodes = 0;

	*ret_field = NULL;
	if (!learned->hex)
		return "its version is missing";
	model = *nearest(learned->tables.version)->layout;
	for (size_t i = 0; i < gm_learned_field_count; i++) {
		*ret_field = gm_learned_fields[i].name;
		const struct gm_learned_field *field = &gm_learned_fields[i];
		int32_t *own = gm_python_field(&learned->layout, i);
		if (*own != GM_NO_FIELD &&
		        (*own < field->least || *own > field->most || *own % field->step))
			return "its offset is out of bounds";
		if (*gm_python_field(&model, i) == GM_NO_FIELD)
			*own = GM_NO_FIELD; /* the code for this version's form does not expect it
			                     */
		else if (*own == GM_NO_FIELD && !is_optional(*ret_field))
			return "it was not learned";
	}
	const char *why = check_within(&learned->layout, ret_field);
	if (why)
		return why;
	*ret_field = NULL;
	if (learned->layout.pool_size & (learned->layout.pool_size - 1))
		return "the size of its pools is not a power of two";
	for (int i = 0; i < 256; i++)
		opcodes += learned->opcodes[i].name != NULL;
	for (int i = 0; i < 256; i++)
		if (learned->opcodes[i].name && !learned->opcodes[learned->opcodes[i].base].name)
			return "an opcode specializes one that is missing";
	return opcodes < 64 ? "its opcodes are missing" : NULL;
}
