/* The kind of a file, and the model in it. */
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "estimate/internal.h"

enum { MOST_JSON = 32 << 20 };

static bool is_json(const char *bytes, size_t size)
{
	size_t at = 0;
	while (at < size && strchr(" \t\r\n", bytes[at]) && bytes[at])
		at++;
	return at < size && (bytes[at] == '{' || bytes[at] == '[');
}

static void free_root(json_t **root)
{
	json_decref(*root);
}

struct gm_error *gm_estimate_model_read_bytes(const char *bytes, size_t size, const char *path,
        const struct gm_estimate_numbers *given, struct gm_estimate_model *model)
{
	_cleanup_(free_root) json_t *root = NULL;
	/* A safetensors file begins with the length of the header: its ninth byte is the header's
	 * "{". */
	if (!is_json(bytes, size) || (size > 8 && bytes[8] == '{' && bytes[7] == 0)) {
		model->input = GM_ESTIMATE_SAFETENSORS;
		return gm_estimate_safetensors(bytes, size, path, model);
	}
	if (size > MOST_JSON)
		return gm_error_in_file(gm_error_create(GM_CORRUPT,
		                                "%s: it is too large for a config: name a "
		                                "config.json or a safetensors file",
		                                path),
		        path);
	gm_try(gm_estimate_json(bytes, size, path, &root));
	model->input = json_object_get(root, "weight_map") ? GM_ESTIMATE_INDEX : GM_ESTIMATE_CONFIG;
	return model->input == GM_ESTIMATE_INDEX ? gm_estimate_index(root, path, model)
	                                         : gm_estimate_config(root, path, given, model);
}

static char *config_of(const char *path)
{
	char *made;
	struct stat info;
	if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
		return strdup(path);
	return asprintf(&made, "%s/config.json", path) < 0 ? NULL : made;
}

/* A safetensors file has no shape; it comes from the config next to it, or from the numbers. */
static struct gm_error *add_shape(
        const struct gm_estimate_numbers *given, struct gm_estimate_model *model)
{
	struct gm_estimate_model config = {0};
	_cleanup_free_ char *path = NULL, *bytes = NULL;
	size_t size;
	const char *slash = strrchr(model->path, '/');
	if (asprintf(&path, "%.*sconfig.json", slash ? (int)(slash - model->path + 1) : 0,
	            model->path) < 0)
		return &gm_error_no_memory;
	if (access(path, F_OK) != 0)
		return NULL;
	gm_try(gm_estimate_file(path, MOST_JSON, false, &bytes, &size));
	struct gm_error *error = gm_estimate_model_read_bytes(bytes, size, path, given, &config);
	if (!error && config.has_shape) {
		model->shape = config.shape;
		model->has_shape = true;
		model->quantized = config.quantized;
		memset(&config.shape, 0, sizeof(config.shape));
		config.counts.total =
		        model->counts.total; /* the file's own number takes precedence */
		model->counts = config.counts;
	}
	gm_estimate_model_deinit(&config);
	return error;
}

static bool shape_given(const struct gm_estimate_numbers *given)
{
	return given->layers || given->hidden || given->heads || given->vocab ||
	       given->intermediate || given->architecture;
}

static struct gm_error *read_any(
        const char *path, const struct gm_estimate_numbers *given, struct gm_estimate_model *model)
{
	_cleanup_free_ char *bytes = NULL;
	size_t size;
	if (!path) {
		model->input = GM_ESTIMATE_NUMBERS;
		if (shape_given(given))
			return gm_estimate_config(NULL, NULL, given, model);
		return given->parameters
		               ? NULL
		               : gm_error_create(GM_USAGE,
		                         "estimate: no model: name a config.json or a safetensors "
		                         "file, or give --parameters");
	}
	model->path = config_of(path);
	if (!model->path)
		return &gm_error_no_memory;
	gm_try(gm_estimate_file(model->path, MOST_JSON, true, &bytes, &size));
	gm_try(gm_estimate_model_read_bytes(bytes, size, model->path, given, model));
	return model->has_shape ? NULL : add_shape(given, model);
}

struct gm_error *gm_estimate_model_read(const char *path, const struct gm_estimate_numbers *given,
        struct gm_estimate_model *ret_model)
{
	memset(ret_model, 0, sizeof(*ret_model));
	struct gm_error *error = read_any(path, given, ret_model);
	if (given->parameters)
		ret_model->counts.total = given->parameters;
	if (!error && ret_model->counts.total == GM_TOO_MUCH)
		error = gm_error_in_file(
		        gm_error_create(path ? GM_CORRUPT : GM_USAGE,
		                "%s: the model has more parameters than 64 bits count: check the "
		                "numbers",
		                path ? ret_model->path : "estimate"),
		        path);
	if (error)
		gm_estimate_model_deinit(ret_model);
	return error;
}

void gm_estimate_model_deinit(struct gm_estimate_model *model)
{
	free(model->path);
	free(model->shape.dense_layers);
	memset(model, 0, sizeof(*model));
}
