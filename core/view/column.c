#include "view/column.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/varint.h"

enum {
	IN = 1 << 16,
	OUT = 3 << 14, /* a multiple of 3: whole groups of base64 */
	VARINT_MOST = 10,
};

struct gm_view_columns {
	FILE *out;
	z_stream stream;
	enum gm_view_form form;
	uint64_t before; /* the number written last */
	size_t in_count, out_count;
	unsigned char in[IN], packed[OUT];
};

static const char *const form_names[] = {
        [GM_VIEW_NUMBERS] = "numbers",
        [GM_VIEW_DIFFERENCES] = "differences",
        [GM_VIEW_JSON] = "json",
};

struct gm_error *gm_view_columns_create(FILE *out, struct gm_view_columns **ret_columns)
{
	struct gm_view_columns *columns = calloc(1, sizeof(*columns));
	if (!columns)
		return &gm_error_no_memory;
	columns->out = out;
	if (deflateInit2(&columns->stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) !=
	        Z_OK) {
		free(columns);
		return &gm_error_no_memory;
	}
	*ret_columns = columns;
	return NULL;
}

void gm_view_columns_destroy(struct gm_view_columns *columns)
{
	if (!columns)
		return;
	deflateEnd(&columns->stream);
	free(columns);
}

/* RFC 4648. Only the last call for a column may have a size that is not a multiple of three. */
static void put_base64(FILE *out, const unsigned char *bytes, size_t size)
{
	static const char digits[] =
	        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char text[4 * 1024];
	size_t count = 0;
	for (size_t i = 0; i < size; i += 3) {
		uint32_t group = (uint32_t)bytes[i] << 16;
		group |= i + 1 < size ? (uint32_t)bytes[i + 1] << 8 : 0;
		group |= i + 2 < size ? bytes[i + 2] : 0;
		text[count++] = digits[group >> 18];
		text[count++] = digits[group >> 12 & 63];
		text[count++] = i + 1 < size ? digits[group >> 6 & 63] : '=';
		text[count++] = i + 2 < size ? digits[group & 63] : '=';
		if (count == sizeof(text)) {
			fwrite(text, 1, count, out);
			count = 0;
		}
	}
	fwrite(text, 1, count, out);
}

/* Compresses the content of `in`, and with Z_FINISH everything that the stream still holds back.
 * deflate() cannot fail: the stream is valid and always has space. */
static void pack(struct gm_view_columns *columns, int flush)
{
	z_stream *stream = &columns->stream;
	stream->next_in = columns->in;
	stream->avail_in = (uInt)columns->in_count;
	int state;
	do {
		stream->next_out = columns->packed + columns->out_count;
		stream->avail_out = (uInt)(OUT - columns->out_count);
		state = deflate(stream, flush);
		columns->out_count = OUT - stream->avail_out;
		if (columns->out_count == OUT) {
			put_base64(columns->out, columns->packed, OUT);
			columns->out_count = 0;
		}
	} while (flush == Z_FINISH ? state == Z_OK : stream->avail_in > 0);
	columns->in_count = 0;
}

void gm_view_column_begin(struct gm_view_columns *columns, const char *name, enum gm_view_form form)
{
	deflateReset(&columns->stream);
	columns->form = form;
	columns->before = 0;
	columns->in_count = columns->out_count = 0;
	fprintf(columns->out,
	        "<script type=\"application/x-gpumem-column\" data-name=\"%s\" data-form=\"%s\">",
	        name, form_names[form]);
}

void gm_view_put(struct gm_view_columns *columns, uint64_t number)
{
	if (columns->in_count + VARINT_MOST > IN)
		pack(columns, Z_NO_FLUSH);
	uint64_t written = number;
	if (columns->form == GM_VIEW_DIFFERENCES)
		written = gm_zigzag((int64_t)(number - columns->before));
	columns->before = number;
	unsigned char *at = columns->in + columns->in_count;
	columns->in_count += (size_t)(gm_put_varint(at, written) - at);
}

void gm_view_put_bytes(struct gm_view_columns *columns, const void *bytes, size_t size)
{
	const unsigned char *from = bytes;
	while (size) {
		size_t left = IN - columns->in_count, some = size < left ? size : left;
		memcpy(columns->in + columns->in_count, from, some);
		columns->in_count += some;
		from += some;
		size -= some;
		if (columns->in_count == IN)
			pack(columns, Z_NO_FLUSH);
	}
}

void gm_view_column_end(struct gm_view_columns *columns)
{
	pack(columns, Z_FINISH);
	put_base64(columns->out, columns->packed, columns->out_count);
	columns->out_count = 0;
	fputs("</script>\n", columns->out);
}
