/*
 * safetensors: a length of 8 bytes (little endian), then that many bytes of JSON, with one member
 * for each tensor: {"dtype": "BF16", "shape": [4096, 1024], "data_offsets": [begin, end]}, and
 * perhaps "__metadata__". The tensors follow and are not read.
 *
 * The product of a shape must agree with the offsets, as in the format's own reader. Integer
 * tensors (positions, tables of quantization) are not parameters.
 */
#include <string.h>

#include "base/cleanup.h"
#include "estimate/internal.h"

enum { MOST_HEADER = 32 << 20, MOST_FILES = 4096, MOST_DIMENSIONS = 64 };

static const struct {
	const char *name;
	unsigned bits;
	bool weights;
	enum gm_estimate_dtype dtype;
} dtypes[] = {
        {"F32", 32, true, GM_ESTIMATE_FLOAT32},
        {"BF16", 16, true, GM_ESTIMATE_BFLOAT16},
        {"F16", 16, true, GM_ESTIMATE_FLOAT16},
        {"F64", 64, true, GM_ESTIMATE_NO_DTYPE},
        {"F8_E4M3", 8, true, GM_ESTIMATE_NO_DTYPE},
        {"F8_E5M2", 8, true, GM_ESTIMATE_NO_DTYPE},
        {"F8_E8M0", 8, false, GM_ESTIMATE_NO_DTYPE},
        {"BOOL", 8, false, GM_ESTIMATE_NO_DTYPE},
        {"I8", 8, false, GM_ESTIMATE_NO_DTYPE},
        {"U8", 8, false, GM_ESTIMATE_NO_DTYPE},
        {"I16", 16, false, GM_ESTIMATE_NO_DTYPE},
        {"U16", 16, false, GM_ESTIMATE_NO_DTYPE},
        {"I32", 32, false, GM_ESTIMATE_NO_DTYPE},
        {"U32", 32, false, GM_ESTIMATE_NO_DTYPE},
        {"I64", 64, false, GM_ESTIMATE_NO_DTYPE},
        {"U64", 64, false, GM_ESTIMATE_NO_DTYPE},
};

struct sums {
	uint64_t parameters, bytes;
	uint64_t of_dtype[sizeof(dtypes) / sizeof(*dtypes)];
};

static struct gm_error *bad(const char *path, const char *tensor, const char *why)
{
	return gm_error_in_file(
	        gm_error_create(GM_CORRUPT, "%s: tensor '%.200s': %s: the file is damaged", path,
	                tensor, why),
	        path);
}

static struct gm_error *add_tensor(
        const char *path, const char *name, const json_t *tensor, struct sums *sums)
{
	const char *dtype = json_string_value(json_object_get(tensor, "dtype"));
	const json_t *shape = json_object_get(tensor, "shape"),
	             *offsets = json_object_get(tensor, "data_offsets");
	uint64_t elements = 1;
	size_t kind = 0, kinds = sizeof(dtypes) / sizeof(*dtypes);
	while (dtype && kind < kinds && strcmp(dtypes[kind].name, dtype) != 0)
		kind++;
	if (!dtype || kind == kinds)
		return bad(path, name, "its dtype is missing or not known");
	if (!json_is_array(shape) || json_array_size(shape) > MOST_DIMENSIONS)
		return bad(path, name, "its shape is not a list");
	for (size_t i = 0; i < json_array_size(shape); i++) {
		const json_t *size = json_array_get(shape, i);
		if (!json_is_integer(size) || json_integer_value(size) < 0)
			return bad(path, name, "its shape has something else than sizes");
		elements = gm_times(elements, (uint64_t)json_integer_value(size));
	}
	const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
	if (!json_is_integer(begin) || !json_is_integer(end) || json_array_size(offsets) != 2 ||
	        json_integer_value(begin) < 0 ||
	        json_integer_value(end) < json_integer_value(begin))
		return bad(path, name, "its offsets are not a beginning and an end");
	uint64_t bytes = gm_share(gm_times(elements, dtypes[kind].bits), 8);
	if (bytes != (uint64_t)json_integer_value(end) - (uint64_t)json_integer_value(begin))
		return bad(path, name, "its shape and its offsets differ");
	sums->bytes = gm_plus(sums->bytes, bytes);
	if (dtypes[kind].weights) {
		sums->parameters = gm_plus(sums->parameters, elements);
		sums->of_dtype[kind] = gm_plus(sums->of_dtype[kind], elements);
	}
	return NULL;
}

static struct gm_error *header_of(
        const char *bytes, size_t size, const char *path, json_t **ret_root)
{
	uint64_t length = 0;
	for (size_t i = 8; size >= 8 && i-- > 0;)
		length = length << 8 | (uint8_t)bytes[i];
	if (size < 9 || bytes[8] != '{')
		return gm_error_in_file(
		        gm_error_create(GM_CORRUPT,
		                "%s: it is neither JSON nor a safetensors file: name a "
		                "config.json or a safetensors file",
		                path),
		        path);
	if (length > MOST_HEADER - 8 || length > size - 8)
		return gm_error_at_offset(
		        gm_error_create(GM_CORRUPT,
		                "%s: its header has %llu bytes, more than %s: the file is damaged "
		                "or cut off",
		                path, (unsigned long long)length,
		                length > MOST_HEADER - 8 ? "gpumem reads" : "the file"),
		        path, 0);
	return gm_estimate_json(bytes + 8, (size_t)length, path, ret_root);
}

static struct gm_error *add_file(
        const char *bytes, size_t size, const char *path, struct sums *sums)
{
	json_t *root, *tensor;
	const char *name;
	gm_try(header_of(bytes, size, path, &root));
	struct gm_error *error = NULL;
	json_object_foreach(root, name, tensor)
	{
		if (strcmp(name, "__metadata__") == 0)
			continue;
		error = add_tensor(path, name, tensor, sums);
		if (error)
			break;
	}
	json_decref(root);
	return error;
}

static void put_sums(const struct sums *sums, struct gm_estimate_model *model)
{
	uint64_t most = 0;
	model->counts.total = sums->parameters;
	model->stored_bytes = sums->bytes;
	for (size_t i = 0; i < sizeof(dtypes) / sizeof(*dtypes); i++) {
		if (sums->of_dtype[i] <= most)
			continue;
		most = sums->of_dtype[i];
		model->dtype = dtypes[i].dtype;
	}
}

static struct gm_error *some(const struct sums *sums, const char *path)
{
	return sums->parameters
	               ? NULL
	               : gm_error_in_file(
	                         gm_error_create(GM_CORRUPT,
	                                 "%s: it has no tensor of floating-point numbers: name "
	                                 "the file of a model",
	                                 path),
	                         path);
}

struct gm_error *gm_estimate_safetensors(
        const char *bytes, size_t size, const char *path, struct gm_estimate_model *model)
{
	struct sums sums = {0};
	gm_try(add_file(bytes, size, path, &sums));
	gm_try(some(&sums, path));
	put_sums(&sums, model);
	return NULL;
}

/* --- several files ------------------------------------------------------------------------------
 */

/* The name of a file, which must be in the index's own folder. */
static bool is_plain(const char *name)
{
	return name && *name && !strchr(name, '/') && strcmp(name, "..") != 0 &&
	       strcmp(name, ".") != 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Each file once; *ret_missing: one of them does not exist. */
static struct gm_error *add_files(
        const char **names, size_t count, const char *index, struct sums *sums, bool *ret_missing)
{
	const char *slash = strrchr(index, '/');
	size_t files = 0;
	*ret_missing = false;
	for (size_t i = 0; i < count && !*ret_missing; i++) {
		_cleanup_free_ char *path = NULL, *bytes = NULL;
		size_t size;
		if (i && strcmp(names[i], names[i - 1]) == 0)
			continue;
		if (++files > MOST_FILES)
			return gm_error_in_file(
			        gm_error_create(GM_CORRUPT,
			                "%s: weight_map: it names more than 4,096 files: the file "
			                "is damaged",
			                index),
			        index);
		if (asprintf(&path, "%.*s%s", slash ? (int)(slash - index + 1) : 0, index,
		            names[i]) < 0)
			return &gm_error_no_memory;
		*ret_missing = access(path, F_OK) != 0;
		if (*ret_missing)
			break;
		gm_try(gm_estimate_file(path, MOST_HEADER, true, &bytes, &size));
		gm_try(add_file(bytes, size, path, sums));
	}
	return NULL;
}

static struct gm_error *take_total(
        const json_t *root, const char *path, struct gm_estimate_model *model)
{
	const json_t *metadata = json_object_get(root, "metadata"),
	             *parameters = json_object_get(metadata, "total_parameters");
	json_int_t number = json_integer_value(parameters);
	if (!json_is_integer(parameters) || number <= 0)
		return gm_error_in_file(
		        gm_error_create(GM_CORRUPT,
		                "%s: the files that it names are missing, and "
		                "metadata.total_parameters is not a number: name the config.json",
		                path),
		        path);
	model->counts.total = gm_least((uint64_t)number, GM_TOO_MUCH);
	model->index_alone = true;
	return NULL;
}

struct gm_error *gm_estimate_index(
        const json_t *root, const char *path, struct gm_estimate_model *model)
{
	json_t *map = json_object_get(root, "weight_map"), *file;
	const char *tensor;
	size_t count = json_object_size(map), i = 0;
	struct sums sums = {0};
	bool missing;
	_cleanup_free_ const char **names = calloc(count ? count : 1, sizeof(*names));
	if (!names)
		return &gm_error_no_memory;
	json_object_foreach(map, tensor, file)
	{
		names[i] = json_string_value(file);
		if (!is_plain(names[i++]))
			return gm_error_in_file(
			        gm_error_create(GM_CORRUPT,
			                "%s: weight_map: '%.200s': it is not a file name in the "
			                "index's folder: the file is damaged",
			                path, tensor),
			        path);
	}
	qsort(names, count, sizeof(*names), by_name);
	gm_try(add_files(names, count, path, &sums, &missing));
	if (missing || !count)
		return take_total(root, path, model);
	gm_try(some(&sums, path));
	put_sums(&sums, model);
	return NULL;
}
