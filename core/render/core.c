#include "render/core.h"

#include "base/put.h"
#include "base/size.h"
#include "render/json.h"

void gm_render_core(const char *path, int pid, const struct gm_core_written *written, FILE *out)
{
	char size[GM_SIZE_TEXT];
	gm_put(out, "%s: core of process %d: %zu thread%s, %s of memory", path, pid,
	        written->threads, written->threads == 1 ? "" : "s",
	        gm_text_size(written->memory, size));
	gm_put(out, ", %s on disk\n", gm_text_size(written->disk, size));
	gm_put(out, "left out: %s of device memory", gm_text_size(written->device, size));
	gm_put(out, ", %s never touched", gm_text_size(written->untouched, size));
	gm_put(out, ", %s that is in files on disk\n", gm_text_size(written->files, size));
	if (written->unread > 0)
		gm_put(out, "not readable, zero in the core: %s\n",
		        gm_text_size(written->unread, size));
	gm_put(out, "the process was stopped for %.2f s\n", written->stopped);
}

struct gm_error *gm_render_core_json(
        const char *path, int pid, const struct gm_core_written *written, FILE *out)
{
	json_t *left_out = json_pack("{s:I,s:I,s:I}", "device", (json_int_t)written->device,
	        "untouched", (json_int_t)written->untouched, "files", (json_int_t)written->files);
	json_t *answer = json_pack("{s:o,s:i,s:I,s:I,s:I,s:I,s:f,s:I,s:o}", "core",
	        gm_json_string(path), "pid", pid, "threads", (json_int_t)written->threads, "memory",
	        (json_int_t)written->memory, "length", (json_int_t)written->length, "disk",
	        (json_int_t)written->disk, "stopped_seconds", written->stopped, "unread",
	        (json_int_t)written->unread, "left_out", left_out);
	return gm_json_write(answer, false, out);
}
