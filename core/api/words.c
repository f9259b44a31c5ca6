#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"

void gm_api_words_deinit(struct gm_api_words *words)
{
	for (size_t i = 0; i < words->items.count; i++)
		free(words->items.items[i]);
	gm_array_deinit(&words->items);
}

void gm_api_words_add(struct gm_api_words *words, const char *format, ...)
{
	char *word = NULL;
	va_list args;
	va_start(args, format);
	int length = vasprintf(&word, format, args);
	va_end(args);
	if (length < 0) {
		words->failed = true;
	} else if (!gm_array_push(&words->items, word)) {
		words->failed = true;
		free(word);
	}
}

void gm_api_words_add_path(struct gm_api_words *words, const char *path)
{
	gm_api_words_add(words, "%s%s", path[0] == '-' ? "./" : "", path);
}

struct gm_error *gm_api_take_options(const void *given, void *own, size_t size)
{
	size_t there = size;
	memset(own, 0, size);
	if (given)
		memcpy(&there, given, sizeof(there));
	if (there < sizeof(there))
		return gm_error_create(GM_USAGE,
		        "a struct of options: its size is %zu: set it to sizeof the struct", there);
	if (given)
		memcpy(own, given, there < size ? there : size);
	for (size_t i = size; i < there; i++)
		if (((const unsigned char *)given)[i] != 0)
			return gm_error_create(GM_USAGE,
			        "a struct of options: byte %zu is an option that gpumem %s does "
			        "not "
			        "know: leave it 0, or use a newer library",
			        i, GPUMEM_VERSION);
	return NULL;
}

struct gm_error *gm_api_give_result(const void *own, size_t size, void *given)
{
	size_t there;
	memcpy(&there, given, sizeof(there));
	if (there < sizeof(there))
		return gm_error_create(GM_USAGE,
		        "a struct for a result: its size is %zu: set it to sizeof the struct",
		        there);
	there = there < size ? there : size;
	memcpy((char *)given + sizeof(there), (const char *)own + sizeof(there),
	        there - sizeof(there));
	memcpy(given, &there, sizeof(there));
	return NULL;
}
