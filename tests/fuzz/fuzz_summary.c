/*
 * Any bytes as a kept summary: it is read or refused; what is read is decoded section by section,
 * and what is whole says the same when it is written and read again. The hash at its end is set
 * right, so that more than the hash is tested.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "ranks/analysis.h"
#include "ranks/keep.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_at(const struct gm_rank_summary *summary)
{
	for (unsigned i = 0; i < GM_SECTIONS; i++) {
		bool no_memory;
		void *section = calloc(1, gm_sections[i]->size);
		if (!section)
			abort();
		if (gm_summary_section(summary, i, section, &no_memory))
			gm_sections[i]->deinit(section);
		free(section);
	}
}

/* From table to table and back, the sections are the same bytes. */
static void move(const struct gm_rank_summary *summary, const struct gm_strings *strings)
{
	struct gm_strings other = {0}, again = {0};
	struct gm_rank_summary moved, back;
	if (gm_summary_move(summary, strings, &other, &moved)) {
		if (!gm_summary_move(&moved, &other, &again, &back))
			abort();
		for (unsigned i = 0; i < GM_SECTIONS; i++)
			if (back.sections[i].there != summary->sections[i].there)
				abort();
		gm_rank_summary_deinit(&back);
		gm_rank_summary_deinit(&moved);
	}
	gm_strings_deinit(&other);
	gm_strings_deinit(&again);
}

/* What a summary of this build begins with is put in front: seeds do not change with the build. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *analysis = gm_ranks_analysis();
	size_t head = strlen(analysis) + 1, length = head + size + sizeof(uint64_t);
	uint8_t *bytes = malloc(length);
	struct gm_strings strings = {0};
	struct gm_string_numbers numbers = {0};
	struct gm_rank_summary summary;
	if (!bytes || head > 0x80)
		abort();
	bytes[0] = (uint8_t)(head - 1);
	memcpy(bytes + 1, analysis, head - 1);
	memcpy(bytes + head, data, size);
	uint64_t hash = gm_hash_bytes(bytes, length - sizeof(hash), 0);
	memcpy(bytes + length - sizeof(hash), &hash, sizeof(hash));
	if (gm_kept_decode(bytes, length, &strings, &numbers, &summary)) {
		summary.strings = &numbers;
		look_at(&summary);
		summary.strings = NULL;
		move(&summary, &strings);
	}
	gm_array_deinit(&numbers.of);
	gm_strings_deinit(&strings);
	free(bytes);
	return 0;
}
