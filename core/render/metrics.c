/*
 * Each family of samples has its HELP and TYPE once, and its samples after that. OpenMetrics names
 * the family of a counter without "_total", and ends with "# EOF". In the value of a label a
 * backslash, a quote and a newline are escaped; control characters and what is not UTF-8 are made
 * visible before (base/visible.h), as names of libraries come from the program.
 */
#include "render/metrics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/put.h"

struct writer {
	FILE *out;
	int pid;
	bool open_metrics;
};

enum type { GAUGE, COUNTER };

static void put_family(
        const struct writer *writer, const char *name, enum type type, const char *help)
{
	const char *total = type == COUNTER && !writer->open_metrics ? "_total" : "";
	gm_put(writer->out, "# HELP %s%s %s\n", name, total, help);
	gm_put(writer->out, "# TYPE %s%s %s\n", name, total, type == COUNTER ? "counter" : "gauge");
}

static void put_label(FILE *out, const char *name, const char *value)
{
	_cleanup_free_ char *visible = gm_put_string("%s", value);
	gm_put(out, ",%s=\"", name);
	for (const char *at = visible ? visible : ""; *at; at++) {
		int plain = (int)strcspn(at, "\\\"");
		gm_put(out, "%.*s", plain, at);
		at += plain;
		if (!*at)
			break;
		if (*at == '"')
			gm_put(out, "\\\"");
		else
			gm_put(out, "\\\\");
	}
	gm_put(out, "\"");
}

static void put_start(const struct writer *writer, const char *name, enum type type)
{
	gm_put(writer->out, "%s%s{pid=\"%d\"", name, type == COUNTER ? "_total" : "", writer->pid);
}

static void put_end(const struct writer *writer, uint64_t value)
{
	gm_put(writer->out, "} %" PRIu64 "\n", value);
}

static void put_device(const struct writer *writer, const struct gm_model_device *device)
{
	gm_put(writer->out, ",device=\"%d\"", device->index);
}

static void put_single(const struct writer *writer, const char *name, enum type type,
        const char *help, uint64_t value)
{
	put_family(writer, name, type, help);
	put_start(writer, name, type);
	put_end(writer, value);
}

/* ---- devices --------------------------------------------------------------------------------- */

static const struct {
	const char *name, *help;
	size_t offset; /* in struct gm_metrics_device */
} figures[] = {
        {"gpumem_allocated_bytes", "Device memory in tensors: rounded blocks that are allocated.",
                offsetof(struct gm_metrics_device, allocated)},
        {"gpumem_reserved_bytes", "Device memory that PyTorch's allocator has from CUDA.",
                offsetof(struct gm_metrics_device, reserved)},
        {"gpumem_peak_allocated_bytes", "The highest gpumem_allocated_bytes so far.",
                offsetof(struct gm_metrics_device, peak_allocated)},
        {"gpumem_peak_reserved_bytes", "The highest gpumem_reserved_bytes so far.",
                offsetof(struct gm_metrics_device, peak_reserved)},
};

static void put_devices(const struct writer *writer, const struct gm_metrics *metrics)
{
	for (size_t f = 0; f < sizeof(figures) / sizeof(figures[0]); f++) {
		put_family(writer, figures[f].name, GAUGE, figures[f].help);
		for (size_t i = 0; i < metrics->device_count; i++) {
			const struct gm_metrics_device *one = &metrics->devices[i];
			uint64_t value;
			if (one->beside)
				continue;
			memcpy(&value, (const char *)one + figures[f].offset, sizeof(value));
			put_start(writer, figures[f].name, GAUGE);
			put_device(writer, gm_model_device(metrics->model, one->device));
			put_end(writer, value);
		}
	}
	put_family(writer, "gpumem_category_bytes", GAUGE,
	        "gpumem_allocated_bytes by use; the sum over all categories is the same.");
	for (size_t i = 0; i < metrics->device_count; i++) {
		const struct gm_metrics_device *one = &metrics->devices[i];
		for (int c = 0; c < GM_CATEGORY_COUNT && !one->beside; c++) {
			put_start(writer, "gpumem_category_bytes", GAUGE);
			put_device(writer, gm_model_device(metrics->model, one->device));
			put_label(writer->out, "category", gm_category_name((enum gm_category)c));
			put_end(writer, one->by_category[c]);
		}
	}
	put_family(writer, "gpumem_out_of_memory", COUNTER,
	        "Requests that PyTorch's allocator could not serve.");
	for (size_t i = 0; i < metrics->device_count; i++) {
		const struct gm_model_device *device =
		        gm_model_device(metrics->model, metrics->devices[i].device);
		if (metrics->devices[i].beside)
			continue;
		put_start(writer, "gpumem_out_of_memory", COUNTER);
		put_device(writer, device);
		put_end(writer, device->ooms);
	}
}

static void put_libraries(const struct writer *writer, const struct gm_metrics *metrics)
{
	put_family(writer, "gpumem_library_bytes", GAUGE,
	        "Device memory that other libraries got from CUDA, beside PyTorch's allocator.");
	for (size_t i = 0; i < metrics->library_count; i++) {
		const struct gm_metrics_library *one = &metrics->libraries[i];
		put_start(writer, "gpumem_library_bytes", GAUGE);
		put_device(writer, gm_model_device(metrics->model, one->device));
		put_label(writer->out, "library", *one->name ? one->name : "unknown");
		put_end(writer, one->bytes);
	}
}

static void put_collectives(const struct writer *writer, const struct gm_metrics *metrics)
{
	static const struct {
		const char *name, *help;
		size_t offset;
	} counters[] = {
	        {"gpumem_collective_calls", "Calls of NCCL by communicator and kind.",
	                offsetof(struct gm_metrics_collective, calls)},
	        {"gpumem_collective_sent_bytes", "Bytes that this rank gave to these calls.",
	                offsetof(struct gm_metrics_collective, send_bytes)},
	        {"gpumem_collective_received_bytes", "Bytes that these calls filled on this rank.",
	                offsetof(struct gm_metrics_collective, receive_bytes)},
	};
	for (size_t f = 0; f < sizeof(counters) / sizeof(counters[0]); f++) {
		put_family(writer, counters[f].name, COUNTER, counters[f].help);
		for (size_t i = 0; i < metrics->collective_count; i++) {
			const struct gm_metrics_collective *one = &metrics->collectives[i];
			const char *kind = gm_collective_kind_name(one->kind);
			uint64_t value;
			memcpy(&value, (const char *)one + counters[f].offset, sizeof(value));
			put_start(writer, counters[f].name, COUNTER);
			gm_put(writer->out, ",communicator=\"%u\",ranks=\"%u\"", one->group,
			        one->ranks);
			put_label(writer->out, "kind", kind ? kind : "unknown");
			put_end(writer, value);
		}
	}
}

void gm_render_metrics(const struct gm_metrics *metrics, int pid, bool open_metrics, FILE *out)
{
	const struct writer writer = {out, pid, open_metrics};
	const struct gm_log *log = gm_model_log(metrics->model);
	put_devices(&writer, metrics);
	put_libraries(&writer, metrics);
	put_collectives(&writer, metrics);
	put_single(&writer, "gpumem_events", COUNTER, "Recorded events of the allocator.",
	        gm_log_event_count(log));
	put_single(&writer, "gpumem_step", GAUGE,
	        "The iteration of the training loop, from 1; 0: no loop was found.",
	        gm_model_step_count(metrics->model));
	put_single(&writer, "gpumem_recording_gaps", GAUGE,
	        "Reasons for which the recording is not complete; 0: it is.", metrics->gaps);
	if (open_metrics)
		fputs("# EOF\n", out);
}
