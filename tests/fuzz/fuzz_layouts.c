/*
 * Any bytes as a file of learned layouts: it is read or refused, and a row that is taken says the
 * same when it is written and read again. The first byte chooses: odd, the rest is the whole text;
 * even, it gets a head and the checksum that belongs to it, as hardly any random bytes would have
 * one. From EDITS on the rest are changes to the row of a shipped CPython.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "cpython/versions/learned.h"
#include "cpython/versions/versions.h"
#include "image/layouts_file.h"
#include "torch/learned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* With its NUL; the caller frees it. */
static char *whole(const char *sections, size_t size, size_t *ret_size)
{
	static const char head[] = GM_LAYOUTS_HEAD "\n";
	size_t length = sizeof(head) - 1 + size;
	char *text = malloc(length + 16);
	memcpy(text, head, sizeof(head) - 1);
	memcpy(text + sizeof(head) - 1, sections, size);
	if (text[length - 1] != '\n')
		text[length++] = '\n';
	snprintf(text + length, 15, "end %08lx\n", crc32(0, (const Bytef *)text, (uInt)length));
	*ret_size = length + 13;
	return text;
}

enum { EDITS = 128 };

/* The row of a CPython as a section, "" where there is none of that number; kept. */
static const char *shipped(size_t number)
{
	enum { MOST = 16 };
	static char *rows[MOST];
	size_t count, size = 0;
	const struct gm_python_tables *all = gm_python_tables_all(&count);
	if (number >= count || number >= MOST)
		return "";
	if (rows[number])
		return rows[number];
	struct gm_python_layout layout = *all[number].layout;
	char line[256];
	FILE *out = open_memstream(&rows[number], &size);
	fprintf(out, "[python]\nhexversion %d\nbuild 0123456789abcdef\nfields 7\n",
	        all[number].version << 16);
	for (size_t i = 0; gm_python_field_name(i); i++) {
		int32_t value = *gm_python_field(&layout, i);
		if (strcmp(gm_python_field_name(i), "thread_size") == 0 && value > 512)
			value = 512;
		if (value != GM_NO_FIELD)
			fprintf(out, "field %s %d\n", gm_python_field_name(i), value);
	}
	for (int i = 0; i < 256; i++)
		if (gm_python_opcode_line(&all[number], (uint8_t)i, line, sizeof(line)))
			fprintf(out, "opcode %s\n", line);
	fclose(out);
	return rows[number];
}

/* A shipped row with changes of three bytes each: a place, and what stands there then; zero: the
 * line's rest is left out. */
static char *edited(const uint8_t *data, size_t size, size_t *ret_size)
{
	const char *row = shipped(data[0] - EDITS);
	size_t length = strlen(row), left = 0;
	char *text = strdup(row);
	for (size_t i = 1; i + 2 < size && length > 0; i += 3)
		text[(data[i] | data[i + 1] << 8) % length] = (char)data[i + 2];
	for (size_t i = 0; i < length; i++) {
		if (!text[i])
			while (i + 1 < length && text[i + 1] != '\n')
				i++;
		else
			text[left++] = text[i];
	}
	char *file = whole(text, left, ret_size);
	free(text);
	return file;
}

/* What is not refused as it is to be: with a reason. */
static bool refused(struct gm_error *error)
{
	if (!error)
		return false;
	if (error->status != GM_CORRUPT || !error->message || !*error->message)
		abort();
	gm_error_destroy(error);
	return true;
}

static void same(const char *one, const char *other)
{
	if (strcmp(one, other) == 0)
		return;
	fprintf(stderr, "written:\n%s\nread and written again:\n%s\n", one, other);
	abort();
}

static void look_at_python(const char *text, size_t size)
{
	struct gm_python_learned *learned = NULL, *again = NULL;
	if (refused(gm_python_learned_parse("python", text, size, &learned)) || !learned)
		return;
	char *written, *twice;
	if (gm_python_learned_text(learned, &written))
		abort();
	char *file = whole(written, strlen(written), &size);
	if (gm_python_learned_parse("again", file, size, &again) || !again ||
	        gm_python_learned_text(again, &twice))
		abort();
	same(written, twice);
	free(twice);
	free(file);
	free(written);
	free(again);
	free(learned);
}

static void look_at_torch(const char *text, size_t size)
{
	struct gm_torch_learned learned, again;
	if (refused(gm_torch_learned_parse("torch", text, size, &learned)))
		return;
	char *written, *twice;
	if (gm_torch_learned_text(&learned, &written))
		abort();
	char *file = whole(written, strlen(written), &size);
	if (gm_torch_learned_parse("again", file, size, &again) ||
	        gm_torch_learned_text(&again, &twice))
		abort();
	same(written, twice);
	if (gm_torch_builds_differ(&learned.builds, &again.builds))
		abort();
	free(twice);
	free(file);
	free(written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	char *text;
	if (data[0] >= EDITS) {
		text = edited(data, size, &size);
	} else if (data[0] % 2) {
		text = malloc(size);
		memcpy(text, data + 1, --size);
	} else {
		text = whole((const char *)data + 1, size - 1, &size);
	}
	look_at_python(text, size);
	look_at_torch(text, size);
	free(text);
	return 0;
}
