/* Plain values in Python's notation. No code of the target runs. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpython/python.h"

static char *text_of(const char *text)
{
	return strdup(text);
}

/* The smallest number of digits that distinguishes the number from any other, as in repr(). */
static char *float_text(double value)
{
	char text[40] = "";
	if (isnan(value))
		return text_of("nan");
	if (isinf(value))
		return text_of(value < 0 ? "-inf" : "inf");
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(text, sizeof(text) - 2, "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	if (!strpbrk(text, ".e"))
		strcat(text, ".0");
	return text_of(text);
}

static char *str_text(struct gm_python *python, uint64_t object, size_t max)
{
	_cleanup_free_ char *some = NULL, *more = NULL;
	char *text = NULL;
	if (!gm_python_str(python, object, max, &some) ||
	        !gm_python_str(python, object, max + 1, &more))
		return NULL;
	bool cut = strlen(more) > strlen(some);
	return asprintf(&text, "'%s%s'", some, cut ? "…" : "") < 0 ? NULL : text;
}

static bool count_entry(void *context, uint64_t key, uint64_t value)
{
	uint64_t *count = context;
	*count += value != 0;
	return true;
}

static char *items_text(struct gm_python *python, uint64_t object, const struct gm_type *type)
{
	uint64_t count = 0;
	char *text = NULL;
	if (type->kind == GM_TYPE_DICT)
		gm_py_dict_each(python, object, count_entry, &count);
	else if (type->kind == GM_TYPE_SET)
		count = gm_py_field(python, object, python->layout.set_used);
	else if (type->kind == GM_TYPE_LIST || type->kind == GM_TYPE_TUPLE)
		count = gm_py_size(python, object);
	else
		return NULL;
	return asprintf(&text, "%" PRIu64 " item%s", count, count == 1 ? "" : "s") < 0 ? NULL
	                                                                               : text;
}

char *gm_python_short_text(struct gm_python *python, uint64_t object, size_t max)
{
	const struct gm_type *type = gm_py_type_of(python, object);
	int64_t whole;
	double real;
	char *text = NULL;
	if (!type)
		return NULL;
	if (strcmp(type->name, "NoneType") == 0)
		return text_of("None");
	if (gm_py_int(python, object, &whole)) {
		if (strcmp(type->name, "bool") == 0)
			return text_of(whole ? "True" : "False");
		return asprintf(&text, "%" PRId64, whole) < 0 ? NULL : text;
	}
	if (strcmp(type->name, "float") == 0)
		return gm_python_number(python, object, &real) ? float_text(real) : NULL;
	if (type->flags & GM_TYPE_FLAG_STR)
		return str_text(python, object, max);
	return items_text(python, object, type);
}
