#include "ask/target/command_line.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"

char *gm_command_line(int pid, size_t most)
{
	char path[40];
	char *line = malloc(most + 1);
	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	_cleanup_fclose_ FILE *file = line ? fopen(path, "re") : NULL;
	size_t length = file ? fread(line, 1, most, file) : 0;
	while (length && !line[length - 1])
		length--;
	for (size_t i = 0; i < length; i++)
		if (iscntrl((unsigned char)line[i]))
			line[i] = ' ';
	if (line)
		line[length] = 0;
	return line;
}
