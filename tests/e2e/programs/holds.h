/* For programs that hold what CUDA does against what is said of it: they print each line that did
 * not hold. */
#ifndef HOLDS_H
#define HOLDS_H

#include <stdio.h>

static int held, failed;

static void check(int holds, int line, const char *text)
{
	if (holds) {
		held++;
	} else {
		failed++;
		printf("line %d: %s\n", line, text);
	}
}

#define HOLDS(condition) check((condition), __LINE__, #condition)

#endif
