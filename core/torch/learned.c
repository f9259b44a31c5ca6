#include "torch/learned.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "torch/fields.h"

enum { MAX_FILE = 64 * 1024, MAX_LINE = 512 };
static const char HEAD[] = "gpumem layouts 1";

const char *const gm_torch_libraries[GM_TORCH_LIBRARIES] = {
        "libc10.so", "libtorch_cpu.so", "libc10_cuda.so", "libtorch_python.so"};

void gm_torch_builds_read(const struct gm_symbols *symbols, struct gm_torch_builds *builds)
{
	size_t count;
	const struct gm_module *modules = gm_symbols_modules(symbols, &count);
	for (size_t library = 0; library < GM_TORCH_LIBRARIES; library++) {
		struct gm_build_id *id = &builds->ids[library];
		id->size = 0;
		for (size_t i = 0; i < count; i++) {
			if (strcmp(modules[i].name, gm_torch_libraries[library]) != 0)
				continue;
			id->size = modules[i].build_id_size;
			memcpy(id->bytes, modules[i].build_id, id->size);
			break;
		}
	}
}

const char *gm_torch_builds_differ(
        const struct gm_torch_builds *left, const struct gm_torch_builds *right)
{
	for (size_t i = 0; i < GM_TORCH_LIBRARIES; i++)
		if (left->ids[i].size == 0 || !gm_build_id_equal(&left->ids[i], &right->ids[i]))
			return gm_torch_libraries[i];
	return NULL;
}

/* --- reading ---------------------------------------------------------------------------------------- */

struct reader {
	const char *path;
	unsigned line;
	bool torch, seen_torch;
	struct gm_torch_learned *learned;
	bool *has; /* of gm_torch_fields */
};

static struct gm_error *refuse(const struct reader *reader, const char *why)
{
	return gm_error_create(GM_CORRUPT,
	        "%s: line %u: %s: not a file of layouts as gpumem writes it: remove it and learn "
	        "again with `gpumem learn`",
	        reader->path, reader->line, why);
}

static bool parse_id(const char *text, struct gm_build_id *id)
{
	size_t length = strlen(text);
	if (length == 0 || length % 2 || length / 2 > GM_BUILD_ID_MAX)
		return false;
	for (size_t i = 0; i < length / 2; i++) {
		unsigned byte;
		if (!isxdigit((unsigned char)text[2 * i]) ||
		        !isxdigit((unsigned char)text[2 * i + 1]) ||
		        sscanf(text + 2 * i, "%2x", &byte) != 1)
			return false;
		id->bytes[i] = (uint8_t)byte;
	}
	id->size = length / 2;
	return true;
}

static struct gm_error *read_field(struct reader *reader, const char *name, const char *number)
{
	const struct gm_torch_field *field = gm_torch_field_find(name);
	char *end;
	errno = 0;
	unsigned long value = strtoul(number, &end, 10);
	if (errno || end == number || *end || !isdigit((unsigned char)number[0]) ||
	        value > UINT32_MAX)
		return refuse(reader, "a field's value is no number");
	if (!field) /* of a newer gpumem */
		return NULL;
	if (reader->has[field - gm_torch_fields])
		return refuse(reader, "a field stands there twice");
	if (value > field->most)
		return refuse(reader, "a field's value is too large");
	reader->has[field - gm_torch_fields] = true;
	gm_torch_field_set(&reader->learned->layout, field, (uint32_t)value);
	return NULL;
}

static struct gm_error *read_line(struct reader *reader, char *line)
{
	if (line[0] == '[') {
		reader->torch = strcmp(line, "[torch]") == 0;
		if (reader->torch && reader->seen_torch)
			return refuse(reader, "a second [torch]");
		reader->seen_torch |= reader->torch;
		return NULL;
	}
	if (!reader->torch)
		return NULL;
	char *save, *word = strtok_r(line, " ", &save), *name = strtok_r(NULL, " ", &save),
	            *value = strtok_r(NULL, " ", &save);
	if (!word || !name)
		return refuse(reader, "half a line");
	struct gm_torch_builds *builds = &reader->learned->builds;
	if (strcmp(word, "version") == 0) {
		if (strlen(name) >= sizeof(builds->version))
			return refuse(reader, "a version too long");
		strcpy(builds->version, name);
	} else if (strcmp(word, "build") == 0) {
		if (!value)
			return refuse(reader, "half a line");
		for (size_t i = 0; i < GM_TORCH_LIBRARIES; i++)
			if (strcmp(name, gm_torch_libraries[i]) == 0 &&
			        !parse_id(value, &builds->ids[i]))
				return refuse(reader, "no build-id");
	} else if (strcmp(word, "field") == 0) {
		return value ? read_field(reader, name, value) : refuse(reader, "half a line");
	} else if (strcmp(word, "missing") != 0) {
		return refuse(reader, "a word that is not known");
	}
	return NULL;
}

/* The last line is "end CRC": what stands before it is as it was written. *ret_size: of that. */
static struct gm_error *check_whole(
        struct reader *reader, const char *text, size_t size, size_t *ret_size)
{
	size_t begin = size > 0 && text[size - 1] == '\n' ? size - 1 : size;
	unsigned said;
	char last[16] = "";
	for (size_t i = 0; i < size; i++)
		reader->line += text[i] == '\n';
	if (memchr(text, 0, size))
		return refuse(reader, "a byte that is no text");
	while (begin > 0 && text[begin - 1] != '\n')
		begin--;
	memcpy(last, text + begin, size - begin < sizeof(last) ? size - begin : sizeof(last) - 1);
	if (begin == size || text[size - 1] != '\n' || strncmp(last, "end ", 4) != 0 ||
	        sscanf(last + 4, "%8x", &said) != 1)
		return refuse(reader, "its end is missing: it was cut");
	if (said != crc32(0, (const Bytef *)text, (uInt)begin))
		return refuse(reader, "the checksum is of other text: it was edited or damaged");
	*ret_size = begin;
	return NULL;
}

static struct gm_error *check_row(struct reader *reader)
{
	const struct gm_torch_learned *learned = reader->learned;
	const char *why;
	if (!reader->seen_torch)
		return refuse(reader, "no [torch] in it");
	if (!learned->builds.version[0])
		return refuse(reader, "no version");
	for (size_t i = 0; i < GM_TORCH_LIBRARIES; i++)
		if (learned->builds.ids[i].size == 0)
			return refuse(reader, "a library's build-id is missing");
	const struct gm_torch_field *field = gm_torch_layout_unsound(&learned->layout, &why);
	if (field)
		return gm_error_create(GM_CORRUPT,
		        "%s: field %s %s: the row cannot be used: remove the file and learn again "
		        "with `gpumem learn`",
		        reader->path, field->name, why);
	return NULL;
}

struct gm_error *gm_torch_learned_parse(
        const char *path, const char *text, size_t size, struct gm_torch_learned *ret_learned)
{
	struct gm_torch_learned learned = {0};
	_cleanup_free_ bool *has = calloc(gm_torch_field_count, sizeof(*has));
	struct reader reader = {.path = path, .learned = &learned, .has = has};
	if (!has)
		return &gm_error_no_memory;
	gm_try(check_whole(&reader, text, size, &size));
	reader.line = 0;
	for (size_t at = 0; at < size;) {
		char line[MAX_LINE];
		size_t length =
		        (size_t)((const char *)memchr(text + at, '\n', size - at) - (text + at));
		reader.line++;
		if (length >= sizeof(line))
			return refuse(&reader, "a line too long");
		memcpy(line, text + at, length);
		line[length] = 0;
		at += length + 1;
		if (reader.line == 1 && strcmp(line, HEAD) != 0)
			return refuse(&reader, "another kind of file, or of a newer gpumem");
		if (reader.line > 1)
			gm_try(read_line(&reader, line));
	}
	gm_try(check_row(&reader));
	if (sscanf(learned.builds.version, "%d.%d", &learned.layout.major,
	            &learned.layout.minor_first) != 2)
		return refuse(&reader, "no version");
	learned.layout.minor_last = learned.layout.minor_first;
	learned.builds.old_strings = learned.layout.old_strings;
	*ret_learned = learned;
	return NULL;
}

struct gm_error *gm_torch_learned_load(const char *path, struct gm_torch_learned *ret_learned)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat status;
	if (fd < 0 || fstat(fd, &status) != 0)
		return gm_error_os(GM_CORRUPT, errno, "%s: cannot be read", path);
	if (!S_ISREG(status.st_mode) || status.st_size > MAX_FILE)
		return gm_error_create(GM_CORRUPT,
		        "%s: no file of layouts: it is %s: name one that `gpumem learn` wrote",
		        path, S_ISREG(status.st_mode) ? "too large" : "no file");
	_cleanup_free_ char *text = malloc(MAX_FILE);
	if (!text)
		return &gm_error_no_memory;
	ssize_t size = pread(fd, text, MAX_FILE, 0);
	if (size < 0)
		return gm_error_os(GM_CORRUPT, errno, "%s: cannot be read", path);
	return gm_torch_learned_parse(path, text, (size_t)size, ret_learned);
}

/* --- writing ---------------------------------------------------------------------------------------- */

struct gm_error *gm_torch_learned_text(
        const struct gm_torch_learned *learned, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	char id[GM_BUILD_ID_TEXT];
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return &gm_error_no_memory;
	fprintf(out, "%s\n[torch]\nversion %s\n", HEAD, learned->builds.version);
	for (size_t i = 0; i < GM_TORCH_LIBRARIES; i++)
		if (learned->builds.ids[i].size)
			fprintf(out, "build %s %s\n", gm_torch_libraries[i],
			        gm_build_id_text(&learned->builds.ids[i], id));
	for (size_t i = 0; i < gm_torch_field_count; i++) {
		uint32_t value = gm_torch_field_get(&learned->layout, &gm_torch_fields[i]);
		if (value)
			fprintf(out, "field %s %u\n", gm_torch_fields[i].name, (unsigned)value);
	}
	fflush(out);
	fprintf(out, "end %08lx\n", crc32(0, (const Bytef *)text, (uInt)size));
	if (fclose(out) != 0)
		return &gm_error_no_memory;
	*ret_text = gm_take(text);
	*ret_size = size;
	return NULL;
}

struct gm_error *gm_torch_learned_save(const char *path, const struct gm_torch_learned *learned)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	gm_try(gm_torch_learned_text(learned, &text, &size));
	FILE *file = fopen(path, "we");
	if (!file)
		return gm_error_os(GM_USAGE, errno, "%s: cannot be written", path);
	bool wrote = fwrite(text, 1, size, file) == size;
	if (fclose(file) != 0 || !wrote)
		return gm_error_os(GM_USAGE, errno, "%s: cannot be written", path);
	return NULL;
}
