#include "base/nearest_word.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { WORD_MAX = 63 };

/* Only lower-case letters and digits; SIZE_MAX: too many. */
static size_t letters(const char *word, char *ret)
{
	size_t length = 0;
	for (; *word; word++) {
		if (*word == '-' || *word == '_')
			continue;
		if (length == WORD_MAX)
			return SIZE_MAX;
		ret[length++] = (char)tolower((unsigned char)*word);
	}
	return length;
}

static size_t edits(const char *a, size_t length_a, const char *b, size_t length_b)
{
	size_t row[WORD_MAX + 1];
	for (size_t j = 0; j <= length_b; j++)
		row[j] = j;
	for (size_t i = 1; i <= length_a; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= length_b; j++) {
			size_t above = row[j];
			size_t best = diagonal + (a[i - 1] != b[j - 1]);
			if (above + 1 < best)
				best = above + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diagonal = above;
			row[j] = best;
		}
	}
	return row[length_b];
}

size_t gm_word_distance(const char *typed, const char *word)
{
	char a[WORD_MAX], b[WORD_MAX];
	size_t length_a = letters(typed, a), length_b = letters(word, b);
	if (length_a == 0 || length_a == SIZE_MAX || length_b == SIZE_MAX)
		return SIZE_MAX;
	size_t distance = edits(a, length_a, b, length_b);
	if (distance > 1 && length_a < length_b && memcmp(a, b, length_a) == 0)
		distance = 1;
	size_t most = length_a <= 3 ? 1 : length_a <= 5 ? 2 : 3;
	return distance <= most ? distance : SIZE_MAX;
}

const char *gm_word_nearest(const char *typed, size_t length, const char *const *known)
{
	char word[WORD_MAX + 1];
	const char *best = NULL;
	size_t best_distance = SIZE_MAX;
	if (length > WORD_MAX)
		return NULL;
	memcpy(word, typed, length);
	word[length] = 0;
	for (size_t i = 0; known[i]; i++) {
		size_t distance = gm_word_distance(word, known[i]);
		if (distance < best_distance) {
			best = known[i];
			best_distance = distance;
		}
	}
	return best;
}

static struct gm_error *refuse(
        const char *what, const char *text, size_t length, const char *const *known)
{
	const char *meant = gm_word_nearest(text, length, known);
	char all[512] = "";
	for (size_t i = 0; known[i] && !meant; i++) {
		size_t end = strlen(all);
		snprintf(all + end, sizeof(all) - end, "%s%s",
		        i == 0         ? ""
		        : known[i + 1] ? ", "
		                       : " or ",
		        known[i]);
	}
	return gm_error_create(GM_USAGE, "%s%sunknown word '%.*s': %s %s%s", what ? what : "",
	        what ? ": " : "", (int)length, text, meant ? "did you mean" : "use",
	        meant ? meant : all, meant ? "?" : "");
}

struct gm_error *gm_word_choose(
        const char *what, const char *text, const char *const *known, size_t *ret_index)
{
	for (size_t i = 0; known[i]; i++)
		if (strcmp(known[i], text) == 0) {
			*ret_index = i;
			return NULL;
		}
	return refuse(what, text, strlen(text), known);
}

struct gm_error *gm_words_check(const char *what, const char *text, const char *const *known)
{
	for (const char *at = text;; at++) {
		size_t length = strcspn(at, ","), i = 0;
		while (known[i] &&
		        (strlen(known[i]) != length || strncmp(known[i], at, length) != 0))
			i++;
		if (!known[i])
			return refuse(what, at, length, known);
		at += length;
		if (!*at)
			return NULL;
	}
}
