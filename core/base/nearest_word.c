#include "base/nearest_word.h"

#include <ctype.h>
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
