#include "cli/edit_distance.h"

#include <stdint.h>
#include <string.h>

enum { WORD_MAX = 63 };

size_t gm_edit_distance(const char *a, const char *b)
{
	size_t length_a = strlen(a), length_b = strlen(b);
	if (length_a > WORD_MAX || length_b > WORD_MAX)
		return SIZE_MAX;
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
