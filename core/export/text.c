#include "export/text.h"

#include <string.h>

#include "base/put.h"
#include "base/utf8.h"
#include "base/visible.h"
#include "model/site.h"

void gm_export_json_string(FILE *out, const char *text)
{
	size_t length = strlen(text);
	putc('"', out);
	for (size_t i = 0; i < length;) {
		size_t valid = gm_utf8_length(text + i, length - i);
		unsigned char byte = (unsigned char)text[i];
		if (valid > 1)
			fwrite(text + i, 1, valid, out);
		else if (!valid)
			putc('?', out);
		else if (byte == '"' || byte == '\\')
			fprintf(out, "\\%c", byte);
		else if (byte < 0x20)
			fprintf(out, "\\u%04x", byte);
		else
			putc(byte, out);
		i += valid ? valid : 1;
	}
	putc('"', out);
}

const char *gm_export_visible(const char *text, char **ret_made)
{
	*ret_made = NULL;
	if (gm_is_visible(text, strlen(text)))
		return text;
	*ret_made = gm_put_string("%s", text);
	return *ret_made ? *ret_made : "?"; /* the session has recorded that memory ran out */
}

void gm_export_device_name(const struct gm_model_device *device, char name[32])
{
	const char *type = gm_device_type_name(device->type);
	if (device->type == 0)
		snprintf(name, 32, "cpu");
	else if (type)
		snprintf(name, 32, "%s:%d", type, device->index);
	else if (device->type == GM_LOG_DEVICE_UNKNOWN)
		snprintf(name, 32, "device:%d", device->index);
	else if (device->type == GM_LOG_DEVICE_EXTERNAL)
		snprintf(name, 32, "cuda:%d-beside", device->index);
	else if (device->type == GM_LOG_DEVICE_PINNED)
		snprintf(name, 32, "pinned");
	else
		snprintf(name, 32, "device%u:%d", device->type, device->index);
}

bool gm_export_frame(
        const struct gm_log *log, uint32_t stack, size_t index, struct gm_export_frame *ret_frame)
{
	size_t count;
	const uint32_t *frames = gm_log_python_stack(log, stack, &count);
	struct gm_log_frame frame;
	struct gm_log_code code = {0};
	if (index >= count || !gm_log_frame(log, frames[index], &frame))
		return false;
	gm_log_code(log, frame.code, &code);
	*ret_frame = (struct gm_export_frame){
	        gm_log_string(log, code.file), gm_log_string(log, code.name), frame.line};
	return true;
}

bool gm_export_site(const struct gm_log *log, uint32_t stack, struct gm_export_frame *ret_frame)
{
	return gm_export_frame(log, stack, gm_site_index(log, stack), ret_frame);
}
