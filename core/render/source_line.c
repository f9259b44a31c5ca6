#include "render/source_line.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/regular_file.h"

enum { FILE_MAX_READ = 16 << 20 };

bool gm_source_line(const char *path, uint32_t number, char line[GM_SOURCE_LINE])
{
	if (path[0] != '/' || number == 0)
		return false;
	_cleanup_fclose_ FILE *file = gm_regular_file_stream(path);
	if (!file)
		return false;
	uint32_t at = 1;
	size_t length = 0;
	bool begun = false;
	for (long read = 0; read < FILE_MAX_READ; read++) {
		int c = fgetc(file);
		if (c == EOF || (c == '\n' && at == number))
			break;
		if (c == '\n') {
			at++;
			continue;
		}
		begun = at == number && (begun || (c != ' ' && c != '\t'));
		if (begun && length < GM_SOURCE_LINE - 1)
			line[length++] = (char)c;
	}
	while (length > 0 && strchr(" \t\r", line[length - 1]))
		length--;
	line[length] = '\0';
	return at == number && length > 0;
}
