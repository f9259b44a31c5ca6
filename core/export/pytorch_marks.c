#include "export/pytorch_marks.h"

#include "base/array.h"

struct open_range {
	uint64_t thread;
	uint32_t name;
};

/* A mark comes before its event. A range that begins there begins with that event; one that ends
 * there has the previous event as its last. */
static uint64_t time_of(const struct gm_log *log, uint64_t event, bool ends)
{
	struct gm_event one;
	uint64_t count = gm_log_event_count(log);
	if (count == 0)
		return 0;
	if (event && (ends || event >= count))
		event = event < count ? event - 1 : count - 1;
	gm_log_event(log, event, &one);
	return one.time_ns / 1000;
}

static void put_annotation(struct gm_pickler *pickler, const struct gm_log *log, uint32_t name,
        uint64_t event, bool ends)
{
	gm_pickler_dict_begin(pickler);
	gm_pickler_string(pickler, "stage");
	gm_pickler_string(pickler, ends ? "END" : "START");
	gm_pickler_string(pickler, "name");
	gm_pickler_string(pickler, gm_log_string(log, name));
	gm_pickler_string(pickler, "device");
	gm_pickler_number(pickler, 0); /* a range belongs to the program, not to a device */
	gm_pickler_string(pickler, "time_us");
	gm_pickler_number(pickler, time_of(log, event, ends));
	gm_pickler_dict_end(pickler);
}

bool gm_pytorch_put_annotations(struct gm_pickler *pickler, const struct gm_log *log)
{
	GM_ARRAY(struct open_range) open = {0};
	bool fits = true;
	gm_pickler_list_begin(pickler);
	for (size_t i = 0; i < gm_log_mark_count(log) && fits; i++) {
		struct gm_log_mark mark;
		gm_log_mark(log, i, &mark);
		if (mark.kind == GM_MARK_PUSH) {
			put_annotation(pickler, log, mark.name, mark.event, false);
			fits = gm_array_push(&open, ((struct open_range){mark.thread, mark.name}));
		}
		if (mark.kind != GM_MARK_POP)
			continue;
		size_t at = open.count;
		while (at > 0 && open.items[at - 1].thread != mark.thread)
			at--;
		if (!at)
			continue; /* it began before the recording */
		put_annotation(pickler, log, open.items[at - 1].name, mark.event, true);
		for (open.count--; at < open.count + 1; at++)
			open.items[at - 1] = open.items[at];
	}
	gm_pickler_list_end(pickler);
	gm_array_deinit(&open);
	return fits;
}
