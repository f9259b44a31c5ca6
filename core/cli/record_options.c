#include "cli/record_options.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/nearest_word.h"
#include "base/size.h"

struct gm_error *gm_record_check_on_oom(const char *text)
{
	static const char *const words[] = {"report", "core", "stop", "none", NULL};
	size_t ignored;
	return text ? gm_word_choose("--on-oom", text, words, &ignored) : NULL;
}

struct gm_error *gm_record_check_devices(const char *list)
{
	static const char *const words[] = {"cuda", "cpu", NULL};
	return list ? gm_words_check("--devices", list, words) : NULL;
}

struct gm_error *gm_record_check_stacks(const char *list)
{
	static const char *const words[] = {"python", "native", "none", NULL};
	if (list && strcmp(list, "none") != 0 && strstr(list, "none"))
		return gm_error_create(GM_USAGE,
		        "--stacks %s: none excludes the others: use python, native, python,native "
		        "or none",
		        list);
	return list ? gm_words_check("--stacks", list, words) : NULL;
}

struct gm_error *gm_record_check_keep(const char *text, bool has_max_size)
{
	static const char *const words[] = {"newest", "oldest", NULL};
	size_t ignored;
	if (text && !has_max_size)
		return gm_error_create(
		        GM_USAGE, "--keep %s: needs --max-size: add it, or leave --keep out", text);
	return text ? gm_word_choose("--keep", text, words, &ignored) : NULL;
}

struct gm_error *gm_record_max_size(const char *text, uint64_t *ret_bytes)
{
	*ret_bytes = 0;
	if (!text)
		return NULL;
	gm_try(gm_error_prefix(gm_parse_bytes(text, ret_bytes), "--max-size"));
	return *ret_bytes ? NULL
	                  : gm_error_create(GM_USAGE,
	                            "--max-size %s: nothing could be recorded: give a size, such "
	                            "as 1GiB",
	                            text);
}
