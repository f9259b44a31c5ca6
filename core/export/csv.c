#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "export/export.h"
#include "export/text.h"

/* A cell that a spreadsheet would take for a formula gets a quote before it, as usual: then it is
 * text. */
static bool is_formula(const char *text)
{
	return *text && strchr("=+-@", *text);
}

static void put_field(FILE *out, const char *name)
{
	_cleanup_free_ char *made;
	const char *text = gm_export_visible(name, &made);
	fputs(is_formula(text) ? "\"'" : "\"", out);
	for (; *text; text++) {
		if (*text == '"')
			putc('"', out);
		putc(*text, out);
	}
	putc('"', out);
}

/* The name of the first tensor in the event's block, if names were read. */
static void put_name(FILE *out, const struct gm_model *model, uint32_t block)
{
	struct gm_block_name first;
	if (block != GM_NO_BLOCK && gm_model_names(model, block, &first, 1) > 0)
		put_field(out, first.name);
}

struct gm_error *gm_export_csv(struct gm_model *model, FILE *out)
{
	const struct gm_log *log = gm_model_log(model);
	uint64_t count = gm_log_event_count(log);
	fputs("event,action,block,device,address,size,requested,stream,time_ns,thread,step,phase,"
	      "file,"
	      "line,function,name\r\n",
	        out);
	for (uint64_t number = 0; number < count; number++) {
		struct gm_event event;
		struct gm_export_frame frame = {"", "", 0};
		char name[32];
		gm_log_event(log, number, &event);
		gm_export_site(log, event.python_stack, &frame);
		const struct gm_model_device device = {
		        .type = event.device_type, .index = event.device};
		gm_export_device_name(&device, name);
		uint32_t block = gm_model_event_block(model, number);
		const char *action = gm_action_name((enum gm_action)event.action);
		fprintf(out, "%" PRIu64 ",%s,", number, action ? action : "");
		if (block != GM_NO_BLOCK)
			fprintf(out, "%u", block);
		fprintf(out,
		        ",%s,0x%" PRIx64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
		        ",%u,%s,",
		        name, event.address, event.size, event.requested, event.stream,
		        event.time_ns, event.thread, gm_model_step(model, number),
		        gm_phase_name(gm_model_phase(model, number)));
		put_field(out, frame.file);
		fprintf(out, ",%u,", frame.line);
		put_field(out, frame.name);
		putc(',', out);
		put_name(out, model, block);
		fputs("\r\n", out);
	}
	return NULL;
}
