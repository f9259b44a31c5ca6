/* One function for each question: it converts its options to the command's. */
#include <inttypes.h>

#include "api/question.h"

/* Copies the caller's options to `own`, which the rest of a function uses; returns if that fails.
 * */
#define TAKE(options, own)                                                                  \
	do {                                                                                \
		struct gm_error *taken = gm_api_take_options(options, own, sizeof(*(own))); \
		if (taken)                                                                  \
			return gm_api_fail(taken, ret_error);                               \
	} while (0)

static int ask_plain(
        gpumem_session *session, const char *question, char **ret_json, gpumem_error **ret_error)
{
	struct gm_api_words words;
	gm_api_question_begin(session, question, &words);
	return gm_api_question_ask(session, &words, ret_json, ret_error);
}

static void add_text(struct gm_api_words *words, const char *option, const char *value)
{
	if (value)
		gm_api_words_add(words, "--%s=%s", option, value);
}

static void add_number(struct gm_api_words *words, bool given, const char *option, uint64_t value)
{
	if (given)
		gm_api_words_add(words, "--%s=%" PRIu64, option, value);
}

static void add_moment(struct gm_api_words *words, enum gpumem_moment moment, uint64_t event)
{
	if (moment == GPUMEM_AT_PEAK)
		gm_api_words_add(words, "--at-peak");
	add_number(words, moment == GPUMEM_AT_EVENT, "at", event);
}

static void add_device(struct gm_api_words *words, bool given, int device)
{
	if (given)
		gm_api_words_add(words, "--device=%d", device);
}

int gpumem_info_json(gpumem_session *session, char **ret_json, gpumem_error **ret_error)
{
	return ask_plain(session, "info", ret_json, ret_error);
}

int gpumem_events_json(gpumem_session *session, const struct gpumem_events_options *options,
        char **ret_json, gpumem_error **ret_error)
{
	struct gpumem_events_options own;
	struct gm_api_words words;
	TAKE(options, &own);
	gm_api_question_begin(session, "events", &words);
	add_number(&words, own.from != 0, "from", own.from);
	add_number(&words, own.count != 0, "to", own.from + own.count - 1);
	return gm_api_question_ask(session, &words, ret_json, ret_error);
}

int gpumem_blocks_json(gpumem_session *session, const struct gpumem_blocks_options *options,
        char **ret_json, gpumem_error **ret_error)
{
	struct gpumem_blocks_options own;
	struct gm_api_words words;
	TAKE(options, &own);
	gm_api_question_begin(session, "blocks", &words);
	add_text(&words, "by", own.by);
	add_moment(&words, own.moment, own.event);
	add_number(&words, own.history != 0, "history", own.history);
	if (own.tree)
		gm_api_words_add(&words, "--tree");
	add_device(&words, own.has_device, own.device);
	return gm_api_question_ask(session, &words, ret_json, ret_error);
}

int gpumem_timeline_json(gpumem_session *session, const struct gpumem_timeline_options *options,
        char **ret_json, gpumem_error **ret_error)
{
	struct gpumem_timeline_options own;
	struct gm_api_words words;
	TAKE(options, &own);
	gm_api_question_begin(session, "timeline", &words);
	add_number(&words, own.width != 0, "width", own.width);
	return gm_api_question_ask(session, &words, ret_json, ret_error);
}

int gpumem_peak_json(gpumem_session *session, const struct gpumem_peak_options *options,
        char **ret_json, gpumem_error **ret_error)
{
	struct gpumem_peak_options own;
	struct gm_api_words words;
	TAKE(options, &own);
	gm_api_question_begin(session, "peak", &words);
	add_text(&words, "by", own.by);
	if (own.tree)
		gm_api_words_add(&words, "--tree");
	add_device(&words, own.has_device, own.device);
	return gm_api_question_ask(session, &words, ret_json, ret_error);
}

int gpumem_steps_json(gpumem_session *session, char **ret_json, gpumem_error **ret_error)
{
	return ask_plain(session, "steps", ret_json, ret_error);
}

int gpumem_amp_json(gpumem_session *session, char **ret_json, gpumem_error **ret_error)
{
	return ask_plain(session, "amp", ret_json, ret_error);
}

int gpumem_zero_json(gpumem_session *session, char **ret_json, gpumem_error **ret_error)
{
	return ask_plain(session, "zero", ret_json, ret_error);
}

int gpumem_phases_json(gpumem_session *session, const struct gpumem_phases_options *options,
        char **ret_json, gpumem_error **ret_error)
{
	struct gpumem_phases_options own;
	struct gm_api_words words;
	TAKE(options, &own);
	gm_api_question_begin(session, "phases", &words);
	add_number(&words, own.step != 0, "step", own.step);
	return gm_api_question_ask(session, &words, ret_json, ret_error);
}

int gpumem_leaks_json(gpumem_session *session, char **ret_json, gpumem_error **ret_error)
{
	return ask_plain(session, "leaks", ret_json, ret_error);
}

int gpumem_diff_json(gpumem_session *session, const char *const *recordings, size_t count,
        const struct gpumem_diff_options *options, char **ret_json, gpumem_error **ret_error)
{
	struct gpumem_diff_options own;
	struct gm_api_words words;
	TAKE(options, &own);
	gm_api_question_begin(session, "diff", &words);
	for (size_t i = 0; i < count; i++)
		gm_api_words_add_path(&words, recordings[i]);
	add_text(&words, "by", own.by);
	add_number(&words, own.step != 0, "step", own.step);
	return gm_api_question_ask(session, &words, ret_json, ret_error);
}

int gpumem_segments_json(gpumem_session *session, const struct gpumem_segments_options *options,
        char **ret_json, gpumem_error **ret_error)
{
	struct gpumem_segments_options own;
	struct gm_api_words words;
	TAKE(options, &own);
	gm_api_question_begin(session, "segments", &words);
	add_moment(&words, own.moment, own.event);
	add_number(&words, own.request != 0, "request", own.request);
	add_number(&words, own.stream != 0, "stream", own.stream);
	add_device(&words, own.has_device, own.device);
	return gm_api_question_ask(session, &words, ret_json, ret_error);
}

int gpumem_oom_json(gpumem_session *session, const struct gpumem_oom_options *options,
        char **ret_json, gpumem_error **ret_error)
{
	struct gpumem_oom_options own;
	struct gm_api_words words;
	TAKE(options, &own);
	gm_api_question_begin(session, "oom", &words);
	add_number(&words, own.has_event, "at", own.event);
	add_device(&words, own.has_device, own.device);
	return gm_api_question_ask(session, &words, ret_json, ret_error);
}

int gpumem_why_json(gpumem_session *session, const char *block,
        const struct gpumem_why_options *options, char **ret_json, gpumem_error **ret_error)
{
	struct gpumem_why_options own;
	struct gm_api_words words;
	TAKE(options, &own);
	struct gm_error *wrong = gm_api_check_word(block, "block");
	if (wrong)
		return gm_api_fail(wrong, ret_error);
	gm_api_question_begin(session, "why", &words);
	gm_api_words_add(&words, "%s", block);
	add_number(&words, own.has_event, "at", own.event);
	return gm_api_question_ask(session, &words, ret_json, ret_error);
}

int gpumem_who_holds_json(
        gpumem_session *session, const char *block, char **ret_json, gpumem_error **ret_error)
{
	struct gm_api_words words;
	struct gm_error *wrong = gm_api_check_word(block, "block");
	if (wrong)
		return gm_api_fail(wrong, ret_error);
	gm_api_question_begin(session, "who-holds", &words);
	gm_api_words_add(&words, "%s", block);
	return gm_api_question_ask(session, &words, ret_json, ret_error);
}

int gpumem_retained_json(gpumem_session *session, const struct gpumem_retained_options *options,
        char **ret_json, gpumem_error **ret_error)
{
	struct gpumem_retained_options own;
	struct gm_api_words words;
	TAKE(options, &own);
	gm_api_question_begin(session, "retained", &words);
	add_number(&words, own.depth != 0, "depth", own.depth);
	add_number(&words, own.least != 0, "min", own.least);
	if (own.cpu)
		gm_api_words_add(&words, "--cpu");
	add_text(&words, "save", own.save);
	add_text(&words, "diff", own.before);
	return gm_api_question_ask(session, &words, ret_json, ret_error);
}

int gpumem_doctor_json(gpumem_session *session, char **ret_json, gpumem_error **ret_error)
{
	return ask_plain(session, "doctor", ret_json, ret_error);
}

int gpumem_question_json(gpumem_session *session, const char *question,
        const char *const *arguments, size_t count, char **ret_json, gpumem_error **ret_error)
{
	struct gm_api_words words;
	struct gm_error *wrong = gm_api_check_word(question, "question");
	if (wrong)
		return gm_api_fail(wrong, ret_error);
	gm_api_question_begin(session, question, &words);
	for (size_t i = 0; i < count; i++)
		gm_api_words_add(&words, "%s", arguments[i]);
	return gm_api_question_ask(session, &words, ret_json, ret_error);
}

int gpumem_export(
        gpumem_session *session, const char *form, const char *path, gpumem_error **ret_error)
{
	struct gm_api_words words;
	gm_api_question_begin(session, "export", &words);
	add_text(&words, "to", form);
	add_text(&words, "output", path);
	return gm_api_question_ask(session, &words, NULL, ret_error);
}

int gpumem_json_version(void)
{
	return 1;
}
