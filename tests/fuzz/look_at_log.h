/* Everything that a log has, looked at once: for the fuzzers of what becomes a log. */
#ifndef GM_FUZZ_LOOK_AT_LOG_H
#define GM_FUZZ_LOOK_AT_LOG_H

#include "log/log.h"

static inline void look_at_all(const struct gm_log *log)
{
	uint64_t count = gm_log_event_count(log);
	for (uint64_t i = 0; i < count; i++) {
		struct gm_event event;
		gm_log_event(log, i, &event);
		size_t frames;
		const uint32_t *python = gm_log_python_stack(log, event.python_stack, &frames);
		for (size_t f = 0; python && f < frames; f++) {
			struct gm_log_frame frame;
			struct gm_log_code code;
			if (gm_log_frame(log, python[f], &frame) &&
			        gm_log_code(log, frame.code, &code))
				gm_log_string(log, code.name);
		}
		const uint64_t *native = gm_log_native_stack(log, event.native_stack, &frames);
		for (size_t f = 0; native && f < frames; f++) {
			uint32_t function, file, line;
			if (gm_log_symbol(log, native[f], &function, &file, &line))
				gm_log_string(log, function);
			gm_log_module_at(log, native[f]);
		}
		struct gm_log_evidence evidence;
		gm_log_evidence(log, event.evidence, &evidence);
	}
	for (size_t i = 0; i < gm_log_gap_count(log); i++)
		gm_log_gap(log, i);
	for (uint32_t i = 0; i <= gm_log_module_count(log); i++) {
		struct gm_log_module module;
		gm_log_module(log, i, &module);
	}
	for (size_t i = 0; i <= gm_log_name_count(log); i++) {
		struct gm_log_name name;
		gm_log_name(log, i, &name);
		gm_log_string(log, name.name);
	}
	uint64_t offset, value;
	gm_log_truncated(log, &offset);
	gm_log_counter(log, "sim.kernels_not_computed", &value);
}

#endif
