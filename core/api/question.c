#include "api/question.h"

#include <string.h>

#include "base/cleanup.h"
#include "cli/session.h"

/* The possible subjects of a question, and its additional parameters. */
enum {
	RECORDING = 1,
	TARGET = 2, /* a process or a core */
	BOTH = 4,   /* a recording and a target together */
	LOOP = 8,
	THREAD = 16,
};

static const struct {
	const char *name;
	unsigned takes;
} questions[] = {
        {"info", RECORDING | TARGET | LOOP},
        {"events", RECORDING | TARGET | LOOP},
        {"blocks", RECORDING | TARGET | LOOP},
        {"timeline", RECORDING | TARGET | LOOP},
        {"peak", RECORDING | TARGET | BOTH | LOOP},
        {"steps", RECORDING | TARGET | LOOP},
        {"phases", RECORDING | TARGET | LOOP},
        {"amp", RECORDING | TARGET | LOOP},
        {"zero", TARGET},
        {"leaks", RECORDING | TARGET | BOTH | LOOP},
        {"segments", RECORDING | TARGET},
        {"oom", RECORDING | TARGET},
        {"why", RECORDING | TARGET},
        {"export", RECORDING},
        {"view", RECORDING | LOOP},
        {"who-holds", TARGET | THREAD},
        {"retained", TARGET},
        {"doctor", TARGET},
};

static unsigned takes(const char *question)
{
	for (size_t i = 0; i < sizeof(questions) / sizeof(*questions); i++)
		if (strcmp(questions[i].name, question) == 0)
			return questions[i].takes;
	return 0;
}

void gm_api_question_begin(
        const gpumem_session *session, const char *question, struct gm_api_words *ret_words)
{
	const struct gm_session_source *source = &session->source;
	unsigned what = takes(question);
	bool recording = source->recording && what & RECORDING;
	bool target = what & TARGET && (!recording || what & BOTH);
	*ret_words = (struct gm_api_words){0};
	gm_api_words_add(ret_words, "%s", question);
	if (recording)
		gm_api_words_add_path(ret_words, source->recording);
	if (target && source->process)
		gm_api_words_add(ret_words, "--pid=%d", source->process);
	if (target && source->core)
		gm_api_words_add(ret_words, "--core=%s", source->core);
	if (what & TARGET && source->sysroot)
		gm_api_words_add(ret_words, "--sysroot=%s", source->sysroot);
	if (what & TARGET && source->layouts)
		gm_api_words_add(ret_words, "--layouts=%s", source->layouts);
	if (what & TARGET && source->no_learn)
		gm_api_words_add(ret_words, "--no-learn");
	if (what & TARGET && source->no_pause)
		gm_api_words_add(ret_words, "--no-pause");
	if (what & LOOP && source->loop)
		gm_api_words_add(ret_words, "--loop=%s", source->loop);
	if (what & THREAD && source->thread)
		gm_api_words_add(ret_words, "--thread=%d", source->thread);
}

struct gm_error *gm_api_check_word(const char *word, const char *what)
{
	if (!word || !word[0] || word[0] == '-')
		return gm_error_create(GM_USAGE, "'%s' is not a %s", word ? word : "", what);
	return NULL;
}

/* The texts of the streams; the caller owns both, even if this fails. */
static struct gm_error *run(gpumem_session *session, const struct gm_api_words *words,
        char **ret_out, char **ret_err, int *ret_status)
{
	size_t out_size, err_size;
	FILE *out = open_memstream(ret_out, &out_size);
	FILE *err = open_memstream(ret_err, &err_size);
	struct gm_error *error = &gm_error_no_memory;
	if (out && err)
		error = gm_session_ask(session, (int)words->items.count,
		        (const char *const *)words->items.items, out, err, ret_status);
	/* a stream that could not grow has lost text: the answer is incomplete and is discarded */
	bool lost = out && fclose(out) != 0;
	lost |= err && fclose(err) != 0;
	return lost && !error ? &gm_error_no_memory : error;
}

int gm_api_question_ask(gpumem_session *session, struct gm_api_words *words, char **ret_json,
        gpumem_error **ret_error)
{
	_cleanup_free_ char *out = NULL, *err = NULL;
	int status = GM_OK;
	if (ret_json)
		gm_api_words_add(words, "--json");
	/* The process has run since, and the recording may have grown. */
	gpumem_session_invalidate(session);
	struct gm_error *error =
	        words->failed ? &gm_error_no_memory : run(session, words, &out, &err, &status);
	gm_api_words_deinit(words);
	free(session->notes);
	session->notes = err && err[0] ? gm_take(err) : NULL;
	if (!error && !out)
		error = &gm_error_no_memory;
	if (error)
		return gm_api_fail(error, ret_error);
	if (ret_json)
		*ret_json = gm_take(out);
	return status;
}
