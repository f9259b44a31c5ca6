#include "ranks/sections/peak.h"

#include <stdlib.h>
#include <string.h>

static int compare_shares(const void *a, const void *b)
{
	const struct gm_compared_share *left = a, *right = b;
	if (left->bytes != right->bytes)
		return left->bytes > right->bytes ? -1 : 1;
	return (left->key > right->key) - (left->key < right->key);
}

static bool bound(struct gm_compared_one *one)
{
	bool cut = false;
	for (size_t i = 0; i < GM_COMPARED_TABLES_MAX; i++) {
		if (one->shares[i].count <= GM_PEAK_SHARES_MOST)
			continue;
		qsort(one->shares[i].items, one->shares[i].count, sizeof(*one->shares[i].items),
		        compare_shares);
		one->shares[i].count = GM_PEAK_SHARES_MOST;
		cut = true;
	}
	if (one->file.step_count > GM_PEAK_STEPS_MOST)
		one->file.step_count = GM_PEAK_STEPS_MOST;
	return cut;
}

static struct gm_error *read_peak(
        struct gm_context *context, struct gm_strings *strings, void *section, bool *ret_cut)
{
	static const struct gm_compare_options options = {.by = GM_BY_NONE};
	struct gm_peak_section *peak = section;
	struct gm_error *error = gm_compare_read(context, &options, strings, &peak->one);
	if (error)
		return error;
	peak->one.file.path = NULL;
	*ret_cut = bound(&peak->one);
	return NULL;
}

static void code_share(struct gm_codec *codec, struct gm_compared_share *share)
{
	unsigned kind = share->kind;
	gm_code_enum(codec, &kind, GM_GROUP_ROOT_MODULE);
	share->kind = kind;
	gm_code_string(codec, &share->key);
	gm_code_string(codec, &share->line);
	gm_code_u64(codec, &share->bytes);
	gm_code_u64(codec, &share->blocks);
	if (!share->key)
		codec->bad = true;
}

static void code_steps(struct gm_codec *codec, struct gm_compared_file *file)
{
	struct gm_compared_step before = {0};
	size_t count = gm_code_count(codec, file->step_count, GM_PEAK_STEPS_MOST);
	if (!codec->writing && !(file->steps = calloc(count + 1, sizeof(*file->steps)))) {
		codec->bad = codec->no_memory = true;
		return;
	}
	file->step_count = count;
	for (size_t i = 0; i < count && !codec->bad; i++) {
		gm_code_difference(codec, &file->steps[i].peak, &before.peak);
		gm_code_difference(codec, &file->steps[i].kept, &before.kept);
	}
}

static void code_others(struct gm_codec *codec, struct gm_compared_file *file)
{
	unsigned type = file->other_type, device = (uint16_t)file->other;
	gm_code_u32(codec, &file->others);
	gm_code_enum(codec, &type, UINT8_MAX);
	gm_code_enum(codec, &device, UINT16_MAX);
	file->other_type = (uint8_t)type;
	file->other = (int16_t)device;
	gm_code_u64(codec, &file->other_peak);
}

static void code_file(struct gm_codec *codec, struct gm_compared_file *file)
{
	unsigned type = file->device_type, device = (uint16_t)file->device, phase = file->phase;
	gm_code_bool(codec, &file->has_device);
	gm_code_enum(codec, &type, UINT8_MAX);
	gm_code_enum(codec, &device, UINT16_MAX);
	file->device_type = (uint8_t)type;
	file->device = (int16_t)device;
	code_others(codec, file);
	gm_code_bool(codec, &file->complete);
	gm_code_u64(codec, &file->events);
	gm_code_u64(codec, &file->reserved);
	gm_code_u64(codec, &file->allocated);
	gm_code_u32(codec, &file->event);
	gm_code_u32(codec, &file->step);
	gm_code_enum(codec, &phase, GM_PHASE_COUNT - 1);
	file->phase = phase;
	gm_code_u32(codec, &file->steps_all);
	gm_code_u64(codec, &file->steps_value);
	code_steps(codec, file);
}

static void code_peak(struct gm_codec *codec, void *section)
{
	struct gm_peak_section *peak = section;
	code_file(codec, &peak->one.file);
	for (size_t i = 0; i < GM_COMPARED_TABLES_MAX; i++)
		gm_code_array(codec, &peak->one.shares[i], GM_PEAK_SHARES_MOST, code_share);
}

static void deinit_peak(void *section)
{
	gm_compared_one_deinit(&((struct gm_peak_section *)section)->one);
}

const struct gm_section_kind gm_section_peak = {
        sizeof(struct gm_peak_section), read_peak, code_peak, deinit_peak};
