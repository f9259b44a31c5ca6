#include "cli/replace.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/put.h"
#include "base/size.h"

struct gm_error *gm_replace_ask(const struct gm_context *context, const char *path)
{
	struct stat status;
	char size[GM_SIZE_TEXT], answer[16] = "";
	if (!context->shell || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO) ||
	        stat(path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0)
		return NULL;
	gm_put(stderr, "%s exists (%s): replace it? [y/N] ", path,
	        gm_text_size((uint64_t)status.st_size, size));
	fflush(stderr);
	if (fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
		return NULL;
	return gm_error_create(
	        GM_NEGATIVE, "%s: not replaced: name another file, or add --force", path);
}
