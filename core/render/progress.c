#include "render/progress.h"

#include <stddef.h>

const char *gm_text_progress(enum gm_progress_kind kind)
{
	static const char *const texts[] = {
	        [GM_PROGRESS_DONE] = NULL,
	        [GM_PROGRESS_UNPACKING_CORE] = "decompressing the core",
	        [GM_PROGRESS_READING_REMOTE] = "reading the process through the debugger",
	        [GM_PROGRESS_WRITING_CORE] = "copying memory",
	        [GM_PROGRESS_LEARNING_TORCH] = "learning this PyTorch, once",
	        [GM_PROGRESS_LEARNING_PYTHON] = "learning this CPython, once",
	        [GM_PROGRESS_REPLAYING] = "replaying, settings done",
	        [GM_PROGRESS_TRYING] = "trying, rows done",
	};
	return texts[kind];
}
