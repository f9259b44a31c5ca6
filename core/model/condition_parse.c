/* Conditions: from text to nodes. */
#include "model/condition_nodes.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/nearest_word.h"
#include "base/size.h"
#include "log/log.h"
#include "model/categories.h"
#include "model/steps.h"
#include "torch/dtypes.h"

enum { LENGTH_MAX = 4096, DEPTH_MAX = 64 };

static const char *const names[GM_FACT_COUNT] = {
        [GM_FACT_SIZE] = "size",
        [GM_FACT_REQUESTED] = "requested",
        [GM_FACT_STEP] = "step",
        [GM_FACT_STREAM] = "stream",
        [GM_FACT_ADDRESS] = "address",
        [GM_FACT_EVENT] = "event",
        [GM_FACT_BLOCK] = "block",
        [GM_FACT_DEVICE] = "device",
        [GM_FACT_ALLOCATED] = "allocated",
        [GM_FACT_RESERVED] = "reserved",
        [GM_FACT_ACTION] = "action",
        [GM_FACT_CATEGORY] = "category",
        [GM_FACT_PHASE] = "phase",
        [GM_FACT_DTYPE] = "dtype",
        [GM_FACT_FUNCTION] = "function",
        [GM_FACT_OPERATOR] = "operator",
        [GM_FACT_NODE] = "node",
        [GM_FACT_MODULE] = "module",
        [GM_FACT_COLLECTIVE] = "collective",
        [GM_FACT_LABEL] = "label",
        [GM_FACT_NAME] = "name",
        [GM_FACT_RANGE] = "range",
        [GM_FACT_LINE] = "line",
        [GM_FACT_SHAPE] = "shape",
        [GM_FACT_OVERFLOW] = "overflow",
        [GM_FACT_SKIPPED] = "skipped",
};

bool gm_fact_is_known(enum gm_fact fact, enum gm_subject subject)
{
	switch (fact) {
	case GM_FACT_EVENT:
	case GM_FACT_BLOCK:
	case GM_FACT_DEVICE:
	case GM_FACT_ALLOCATED:
	case GM_FACT_RESERVED:
	case GM_FACT_ACTION:
		return subject != GM_OF_BLOCKS;
	case GM_FACT_CATEGORY:
	case GM_FACT_LABEL:
	case GM_FACT_NAME:
	case GM_FACT_RANGE:
		return subject == GM_OF_BLOCKS;
	case GM_FACT_OVERFLOW:
	case GM_FACT_SKIPPED:
		return subject == GM_OF_AGENT_EVENTS;
	default:
		return true;
	}
}

const char *gm_fact_name(enum gm_fact fact)
{
	return names[fact];
}

struct parser {
	const char *text, *at;
	enum gm_subject subject;
	struct gm_condition *condition;
	unsigned depth;
	size_t column; /* position of the error; 0: none */
};

/* ---- words ----------------------------------------------------------------------------------- */

static struct gm_error *refuse(struct parser *parser, const char *at, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

static struct gm_error *refuse(struct parser *parser, const char *at, const char *format, ...)
{
	_cleanup_free_ char *why = NULL;
	va_list arguments;
	va_start(arguments, format);
	if (vasprintf(&why, format, arguments) < 0)
		why = NULL;
	va_end(arguments);
	if (!why)
		return &gm_error_no_memory;
	parser->column = (size_t)(at - parser->text) + 1;
	return gm_error_create(GM_USAGE, "'%s', column %zu: %s", parser->text, parser->column, why);
}

/* The word of `known` that was meant, or all of them. `why`: follows the word in the error. */
static struct gm_error *refuse_word(struct parser *parser, const char *at, const char *word,
        size_t length, const char *why, const char *const *known)
{
	const char *meant = gm_word_nearest(word, length, known);
	if (meant)
		return refuse(parser, at, "%.*s%sdid you mean %s?", (int)length, word, why, meant);
	char all[1024] = "";
	for (size_t i = 0; known[i]; i++) {
		size_t end = strlen(all);
		snprintf(all + end, sizeof(all) - end, "%s%s", i ? ", " : "", known[i]);
	}
	return refuse(parser, at, "%.*s%sexpected one of %s", (int)length, word, why, all);
}

static void skip_space(struct parser *parser)
{
	while (isspace((unsigned char)*parser->at))
		parser->at++;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Accepts the word if it comes next. */
static bool take_word(struct parser *parser, const char *word)
{
	skip_space(parser);
	size_t length = strlen(word);
	if (strncmp(parser->at, word, length) != 0 || is_word(parser->at[length]))
		return false;
	parser->at += length;
	return true;
}

/* A fact that exists, but is not known for the subject. */
static struct gm_error *refuse_fact(struct parser *parser, enum gm_fact fact)
{
	const char *name = names[fact];
	bool of_scaling = fact == GM_FACT_OVERFLOW || fact == GM_FACT_SKIPPED;
	if (of_scaling && parser->subject == GM_OF_BLOCKS)
		return refuse(parser, parser->at,
		        "%s is not a property of a block: `gpumem amp` shows which steps were "
		        "skipped, and why",
		        name);
	if (of_scaling)
		return refuse(parser, parser->at,
		        "%s is not known at a breakpoint, which sees no values: the agent records "
		        "it (`gpumem record --engine agent`)",
		        name);
	if (parser->subject == GM_OF_BLOCKS)
		return refuse(parser, parser->at,
		        "%s is not a property of a block: it is one of events, for `until` and "
		        "`watch` in gdb",
		        name);
	if (fact == GM_FACT_CATEGORY)
		return refuse(parser, parser->at,
		        "%s is not known at an event: it follows from how long the block will "
		        "live. phase, module and function are known; use `gpumem blocks --where` "
		        "afterwards",
		        name);
	if (fact == GM_FACT_NAME)
		return refuse(parser, parser->at,
		        "%s is not known at an event: names are read once (`gpumem run --names`). "
		        "Use `gpumem blocks --where` afterwards",
		        name);
	if (fact == GM_FACT_RANGE)
		return refuse(parser, parser->at,
		        "%s is not known at an event: `gpumem blocks --where` knows it afterwards",
		        name);
	return refuse(parser, parser->at,
	        "%s is not known at an event: blocks get their labels later. Use `gpumem blocks "
	        "--where` afterwards",
	        name);
}

static struct gm_error *take_fact(struct parser *parser, enum gm_fact *ret_fact)
{
	skip_space(parser);
	size_t length = 0;
	while (is_word(parser->at[length]))
		length++;
	for (int fact = 0; fact < GM_FACT_COUNT; fact++) {
		if (strlen(names[fact]) != length || strncmp(names[fact], parser->at, length) != 0)
			continue;
		if (!gm_fact_is_known((enum gm_fact)fact, parser->subject))
			return refuse_fact(parser, (enum gm_fact)fact);
		parser->at += length;
		*ret_fact = (enum gm_fact)fact;
		return NULL;
	}
	const char *known[GM_FACT_COUNT + 1];
	size_t count = 0;
	for (int fact = 0; fact < GM_FACT_COUNT; fact++) {
		if (gm_fact_is_known((enum gm_fact)fact, parser->subject))
			known[count++] = names[fact];
	}
	known[count] = NULL;
	return refuse_word(
	        parser, parser->at, parser->at, length, length ? " is not known: " : "", known);
}

static struct gm_error *take_compare(struct parser *parser, enum gm_comparison *ret_compare)
{
	static const struct {
		const char *text;
		enum gm_comparison compare;
	} all[] = {{"==", GM_IS}, {"=", GM_IS}, {"!=", GM_IS_NOT}, {"<=", GM_AT_MOST},
	        {"<", GM_LESS}, {">=", GM_AT_LEAST}, {">", GM_MORE}, {"~", GM_CONTAINS}};
	skip_space(parser);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		size_t length = strlen(all[i].text);
		if (strncmp(parser->at, all[i].text, length) == 0) {
			parser->at += length;
			*ret_compare = all[i].compare;
			return NULL;
		}
	}
	return refuse(parser, parser->at, "expected one of = != < <= > >= ~");
}

/* A value, without its quotes. */
static struct gm_error *take_value(struct parser *parser, char **ret_value)
{
	skip_space(parser);
	const char *start = parser->at, *end = start;
	if (*start == '\'' || *start == '"') {
		end = strchr(start + 1, *start);
		if (!end)
			return refuse(parser, start, "the quote is not closed");
		parser->at = end + 1;
		start++;
	} else {
		while (*end && !isspace((unsigned char)*end) && *end != ')' && *end != '(')
			end++;
		parser->at = end;
	}
	if (end == start)
		return refuse(parser, start, "expected a value");
	*ret_value = strndup(start, (size_t)(end - start));
	return *ret_value ? NULL : &gm_error_no_memory;
}

static struct gm_error *take_shape(struct parser *parser, struct gm_clause *clause)
{
	skip_space(parser);
	if (*parser->at != '[' && *parser->at != '(')
		return refuse(
		        parser, parser->at, "expected a shape, like [8, *, 50257] or [..., 64]");
	char close = *parser->at++ == '[' ? ']' : ')';
	for (skip_space(parser); *parser->at != close; skip_space(parser)) {
		const char *at = parser->at;
		int64_t size = GM_ANY_SIZE;
		if (strncmp(at, "...", 3) == 0) {
			size = GM_ANY_SIZES;
			parser->at += 3;
		} else if (*at == '*') {
			parser->at++;
		} else if (isdigit((unsigned char)*at)) {
			char *end;
			errno = 0;
			size = strtoll(at, &end, 10);
			if (errno)
				return refuse(parser, at, "no tensor has such a size");
			parser->at = end;
		} else {
			return refuse(parser, at, "expected a size, * or ...");
		}
		if (clause->size_count == GM_PATTERN_MAX)
			return refuse(parser, at, "a shape may have %d sizes", GM_PATTERN_MAX);
		clause->sizes[clause->size_count++] = size;
		skip_space(parser);
		if (*parser->at == ',')
			parser->at++;
		else if (*parser->at != close)
			return refuse(parser, parser->at, "expected , or %c", close);
	}
	parser->at++;
	return NULL;
}

/* ---- clauses --------------------------------------------------------------------------------- */

static const char *category_at(unsigned i)
{
	return i < GM_CATEGORY_COUNT ? gm_category_name((enum gm_category)i) : NULL;
}

static const char *action_at(unsigned i)
{
	return gm_action_name((enum gm_action)(GM_ALLOC + i));
}

static const char *phase_at(unsigned i)
{
	return i < GM_PHASE_COUNT ? gm_phase_name((enum gm_phase)i) : NULL;
}

const char *gm_fact_word(enum gm_fact fact, unsigned i)
{
	switch (fact) {
	case GM_FACT_CATEGORY:
		return category_at(i);
	case GM_FACT_PHASE:
		return phase_at(i);
	case GM_FACT_ACTION:
		return action_at(i);
	case GM_FACT_DTYPE:
		return gm_torch_dtype_name(i);
	default:
		return NULL;
	}
}

const char *gm_fact_other_word(enum gm_fact fact, unsigned i, const char **ret_word)
{
	const char *other = fact == GM_FACT_DTYPE ? gm_torch_dtype_other_name(i) : NULL;
	if (other)
		*ret_word = gm_torch_dtype_meant(other);
	return other;
}

/* A word that the fact can never have would silently select nothing. */
static struct gm_error *check_text(
        struct parser *parser, const char *at, const struct gm_clause *clause)
{
	enum { WORDS_MAX = 127 };
	if (!gm_fact_word(clause->fact, 0) || clause->compare == GM_CONTAINS)
		return NULL;
	const char *known[WORDS_MAX + 1], *word;
	size_t count = 0;
	for (; count < WORDS_MAX && (word = gm_fact_word(clause->fact, (unsigned)count)); count++) {
		if (strcmp(word, clause->text) == 0)
			return NULL;
		known[count] = word;
	}
	known[count] = NULL;
	char why[48];
	snprintf(why, sizeof(why), " is not a %s: ", gm_fact_name(clause->fact));
	return refuse_word(parser, at, clause->text, strlen(clause->text), why, known);
}

static struct gm_error *read_number(const char *text, enum gm_fact fact, uint64_t *ret_number)
{
	if (fact == GM_FACT_SIZE || fact == GM_FACT_REQUESTED || fact == GM_FACT_ALLOCATED ||
	        fact == GM_FACT_RESERVED)
		return gm_parse_bytes(text, ret_number);
	bool hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	if (gm_parse_digits(hexadecimal ? text + 2 : text, hexadecimal ? 16 : 10, ret_number))
		return NULL;
	return gm_error_create(GM_USAGE, "'%s' is not a number", text);
}

/* "torch.half" is float16. */
static struct gm_error *take_dtype(struct gm_clause *clause)
{
	char *name = strdup(gm_torch_dtype_meant(clause->text));
	if (!name)
		return &gm_error_no_memory;
	free(clause->text);
	clause->text = name;
	return NULL;
}

static struct gm_error *parse_value(struct parser *parser, struct gm_clause *clause)
{
	skip_space(parser);
	const char *at = parser->at;
	bool number = gm_fact_is_number(clause->fact);
	bool ordered = clause->compare >= GM_LESS && clause->compare <= GM_AT_LEAST;
	if (number ? clause->compare == GM_CONTAINS : ordered)
		return refuse(parser, at, "%s cannot be compared like this: use %s",
		        gm_fact_name(clause->fact), number ? "= != < <= > >=" : "= != ~");
	if (clause->fact == GM_FACT_SHAPE) {
		if (clause->compare == GM_CONTAINS)
			return refuse(
			        parser, at, "shape cannot be compared like this: use = or !=");
		return take_shape(parser, clause);
	}
	gm_try(take_value(parser, &clause->text));
	if (number) {
		_cleanup_error_ struct gm_error *error =
		        read_number(clause->text, clause->fact, &clause->number);
		return error ? refuse(parser, at, "%s", error->message) : NULL;
	}
	char *colon = clause->fact == GM_FACT_LINE ? strrchr(clause->text, ':') : NULL;
	if (colon) {
		if (!gm_parse_digits(colon + 1, 10, &clause->number) || !clause->number)
			return refuse(parser, at, "expected FILE or FILE:LINE");
		*colon = '\0';
	}
	if (clause->fact == GM_FACT_DTYPE && clause->compare != GM_CONTAINS)
		gm_try(take_dtype(clause));
	return check_text(parser, at, clause);
}

static struct gm_error *add(struct parser *parser, struct gm_condition_node node, size_t *ret_index)
{
	if (!gm_array_push(&parser->condition->nodes, node)) {
		free(node.clause.text);
		return &gm_error_no_memory;
	}
	*ret_index = parser->condition->nodes.count - 1;
	return NULL;
}

static struct gm_error *parse_any(struct parser *parser, size_t *ret_index);

static struct gm_error *parse_one(struct parser *parser, size_t *ret_index)
{
	struct gm_condition_node node = {.kind = GM_NODE_CLAUSE};
	if (++parser->depth > DEPTH_MAX)
		return refuse(parser, parser->at, "nested too deeply");
	if (take_word(parser, "not")) {
		node.kind = GM_NODE_NOT;
		gm_try(parse_one(parser, &node.left));
		parser->depth--;
		return add(parser, node, ret_index);
	}
	skip_space(parser);
	if (*parser->at == '(') {
		parser->at++;
		gm_try(parse_any(parser, ret_index));
		skip_space(parser);
		if (*parser->at != ')')
			return refuse(parser, parser->at, "expected and, or or )");
		parser->at++;
		parser->depth--;
		return NULL;
	}
	gm_try(take_fact(parser, &node.clause.fact));
	bool alone = node.clause.fact == GM_FACT_OVERFLOW || node.clause.fact == GM_FACT_SKIPPED;
	skip_space(parser);
	struct gm_error *error = NULL;
	if (alone && *parser->at && strchr("=!<>~", *parser->at))
		error = refuse(parser, parser->at, "%s takes no comparison: write %s, or not %s",
		        names[node.clause.fact], names[node.clause.fact], names[node.clause.fact]);
	else if (!alone)
		error = take_compare(parser, &node.clause.compare);
	if (!error && !alone)
		error = parse_value(parser, &node.clause);
	if (error) {
		free(node.clause.text);
		return error;
	}
	parser->depth--;
	return add(parser, node, ret_index);
}

/* One or more of the items that `parse` reads, separated by `word`. */
static struct gm_error *parse_joined(struct parser *parser, const char *word,
        enum gm_node_kind kind, struct gm_error *(*parse)(struct parser *, size_t *),
        size_t *ret_index)
{
	gm_try(parse(parser, ret_index));
	while (take_word(parser, word)) {
		struct gm_condition_node node = {.kind = kind, .left = *ret_index};
		gm_try(parse(parser, &node.right));
		gm_try(add(parser, node, ret_index));
	}
	return NULL;
}

static struct gm_error *parse_all(struct parser *parser, size_t *ret_index)
{
	return parse_joined(parser, "and", GM_NODE_AND, parse_one, ret_index);
}

static struct gm_error *parse_any(struct parser *parser, size_t *ret_index)
{
	return parse_joined(parser, "or", GM_NODE_OR, parse_all, ret_index);
}

struct gm_error *gm_condition_parse(const char *text, enum gm_subject subject, size_t *ret_column,
        struct gm_condition **ret_condition)
{
	size_t ignored;
	if (!ret_column)
		ret_column = &ignored;
	*ret_column = 0;
	if (strnlen(text, LENGTH_MAX) == LENGTH_MAX)
		return gm_error_create(
		        GM_USAGE, "a condition may have %d characters", LENGTH_MAX - 1);
	struct parser parser = {.text = text, .at = text, .subject = subject};
	parser.condition = calloc(1, sizeof(*parser.condition));
	if (!parser.condition)
		return &gm_error_no_memory;
	struct gm_error *error = parse_any(&parser, &parser.condition->root);
	skip_space(&parser);
	if (!error && *parser.at)
		error = refuse(&parser, parser.at, "expected and, or or the end");
	if (error) {
		*ret_column = parser.column;
		gm_condition_destroy(parser.condition);
		return error;
	}
	*ret_condition = parser.condition;
	return NULL;
}
