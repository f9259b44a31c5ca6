/*
 * Plain values: str, int, float.
 */
#include <stdlib.h>
#include <string.h>

#include "cpython/python.h"

/* Appends a code point as UTF-8; surrogates, which CPython allows alone, as '?'. */
static size_t put_utf8(char *at, uint32_t point)
{
	if (point < 0x80) {
		at[0] = (char)point;
		return 1;
	}
	if (point < 0x800) {
		at[0] = (char)(0xc0 | point >> 6);
		at[1] = (char)(0x80 | (point & 63));
		return 2;
	}
	if ((point >= 0xd800 && point < 0xe000) || point > 0x10ffff) {
		at[0] = '?';
		return 1;
	}
	if (point < 0x10000) {
		at[0] = (char)(0xe0 | point >> 12);
		at[1] = (char)(0x80 | (point >> 6 & 63));
		at[2] = (char)(0x80 | (point & 63));
		return 3;
	}
	at[0] = (char)(0xf0 | point >> 18);
	at[1] = (char)(0x80 | (point >> 12 & 63));
	at[2] = (char)(0x80 | (point >> 6 & 63));
	at[3] = (char)(0x80 | (point & 63));
	return 4;
}

struct str_view {
	uint64_t data;
	uint64_t length; /* code points */
	unsigned kind;   /* bytes of each */
};

/*
 * The characters of a str: PEP 393, PyASCIIObject.state in Include/cpython/unicodeobject.h: two
 * bits interned, three kind, then compact, ascii. Strings of 3.9 to 3.11 that are not "ready" have
 * none.
 */
static bool view_str(struct gm_python *python, uint64_t object, struct str_view *ret)
{
	const struct gm_python_layout *layout = &python->layout;
	uint8_t head[64];
	uint32_t state;
	const struct gm_type *type = gm_py_type_of(python, object);

	if (!type || !(type->flags & GM_TYPE_FLAG_STR) ||
	        !gm_image_try_read(python->image, object, head, (size_t)layout->str_ascii_size))
		return false;
	state = (uint32_t)gm_i32_at(head, layout->str_state);
	ret->length = gm_u64_at(head, layout->str_length);
	ret->kind = state >> 2 & 7;
	if ((ret->kind != 1 && ret->kind != 2 && ret->kind != 4) || ret->length > UINT64_C(1) << 40)
		return false;
	if (state >> 5 & 1)
		ret->data = object + (uint64_t)(state >> 6 & 1 ? layout->str_ascii_size
		                                               : layout->str_compact_size);
	else
		ret->data = gm_py_field(python, object, layout->str_data);
	return ret->data || !ret->length;
}

static char *read_str(struct gm_python *python, const struct str_view *view, size_t max)
{
	size_t count = view->length < max ? (size_t)view->length : max;
	_cleanup_free_ uint8_t *raw = malloc(count * view->kind + 1);
	char *text = malloc(count * 4 + 1);
	size_t size = 0;

	if (!raw || !text ||
	        (count && !gm_image_try_read(python->image, view->data, raw, count * view->kind))) {
		free(text);
		return NULL;
	}
	for (size_t i = 0; i < count; i++) {
		uint32_t point = 0;
		memcpy(&point, raw + i * view->kind, view->kind);
		size += put_utf8(text + size, point);
	}
	text[size] = 0;
	return text;
}

bool gm_python_str(struct gm_python *python, uint64_t object, size_t max, char **ret_string)
{
	struct str_view view;
	char *text;

	if (!view_str(python, object, &view))
		return false;
	text = read_str(python, &view, max);
	if (!text)
		return false;
	*ret_string = text;
	return true;
}

bool gm_py_str_equals(struct gm_python *python, uint64_t object, const char *text)
{
	struct str_view view;
	size_t length = strlen(text);
	char small[128];
	_cleanup_free_ char *copy = NULL;

	if (!view_str(python, object, &view) || view.length > length || view.length * 4 < length)
		return false;
	if (view.kind == 1 && view.length == length && length <= sizeof(small)) {
		bool ascii = true;
		for (size_t i = 0; i < length && ascii; i++)
			ascii = !(text[i] & 0x80);
		if (ascii)
			return gm_image_try_read(python->image, view.data, small, length) &&
			       !memcmp(small, text, length);
	}
	copy = read_str(python, &view, length);
	return copy && !strcmp(copy, text);
}

bool gm_py_int(struct gm_python *python, uint64_t object, int64_t *ret_value)
{
	const struct gm_python_layout *layout = &python->layout;
	const struct gm_type *type = gm_py_type_of(python, object);
	int64_t size;
	uint32_t digits[3] = {0};
	uint64_t value;
	bool negative;

	if (!type || !(type->flags & GM_TYPE_FLAG_LONG))
		return false;
	if (layout->long_tag == GM_NO_FIELD) { /* the sign is that of ob_size */
		size = (int64_t)gm_py_field(python, object, layout->object_size);
		negative = size < 0;
		size = negative ? -size : size;
	} else { /* 3.12: low two bits 0 positive, 1 zero, 2 negative; the number of digits above
		    bit 3 */
		uint64_t tag = gm_py_field(python, object, layout->long_tag);
		negative = (tag & 3) == 2;
		size = (tag & 3) == 1 ? 0 : (int64_t)(tag >> 3);
	}
	if (size < 0 || size > 3 ||
	        (size && !gm_image_try_read(python->image, object + (uint64_t)layout->long_digits,
	                         digits, (size_t)size * 4)))
		return false;
	if (digits[2] > 7) /* beyond 63 bits: three digits of 30 */
		return false;
	value = (uint64_t)digits[0] | (uint64_t)digits[1] << 30 | (uint64_t)digits[2] << 60;
	if (value > INT64_MAX)
		return false;
	*ret_value = negative ? -(int64_t)value : (int64_t)value;
	return true;
}

bool gm_python_number(struct gm_python *python, uint64_t object, double *ret_value)
{
	const char *name;
	int64_t number;
	double value;

	if (gm_py_int(python, object, &number)) {
		*ret_value = (double)number;
		return true;
	}
	/* Include/cpython/floatobject.h: the value is at the offset that ob_size has in others */
	if (!gm_python_type_name(python, object, &name) || strcmp(name, "float") != 0 ||
	        !gm_image_try_read(python->image, object + (uint64_t)python->layout.object_size,
	                &value, sizeof(value)))
		return false;
	*ret_value = value;
	return true;
}
