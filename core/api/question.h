/* Inside of the api room: one question, as the command that answers it. */
#ifndef GM_API_QUESTION_H
#define GM_API_QUESTION_H

#include "api/internal.h"

/* The arguments of a question so far: its name, and what the session is about. */
void gm_api_question_begin(
        const gpumem_session *session, const char *question, struct gm_api_words *ret_words);
/* Adds --json, asks, and ends the words. */
int gm_api_question_ask(gpumem_session *session, struct gm_api_words *words, char **ret_json,
        gpumem_error **ret_error);
/* A text of the caller's that is an argument of its own. GM_USAGE where it would be read as an
 * option. */
struct gm_error *gm_api_check_word(const char *word, const char *what);

#endif
