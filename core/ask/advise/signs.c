#include "ask/advise/signs.h"

#include <string.h>

#include "ask/recording/operator.h"
#include "ask/recording/place.h"

static bool is_one_of(const char *name, const char *const *names)
{
	for (; *names; names++)
		if (strcmp(name, *names) == 0)
			return true;
	return false;
}

static uint8_t look(const struct gm_log *log, uint32_t native_stack)
{
	static const char *const softmax[] = {
	        "softmax", "softmax_int", "_softmax", "_safe_softmax", NULL};
	static const char *const matmul[] = {
	        "matmul", "linear", "mm", "bmm", "addmm", "baddbmm", NULL};
	static const char *const follows[] = {"gelu", "gelu_backward", "relu", "threshold_backward",
	        "silu", "silu_backward", "dropout", "native_dropout", "flatten",
	        "flatten_using_ints", "reshape", "contiguous", "clone",
	        "scaled_dot_product_attention", "conv1d", "conv2d", "conv3d",
	        "convolution_backward", NULL};
	static const char *const norm[] = {
	        "layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm", NULL};
	char name[GM_OPERATOR_MAX];
	const struct gm_event event = {.native_stack = native_stack};
	uint8_t signs = GM_SIGN_LOOKED_AT;
	if (!gm_operator_of(log, native_stack, name))
		return signs;
	signs |= is_one_of(name, softmax) ? GM_SIGN_SOFTMAX : 0;
	signs |= is_one_of(name, matmul) ? GM_SIGN_MATMUL : 0;
	signs |= is_one_of(name, follows) ? GM_SIGN_FOLLOWS : 0;
	signs |= is_one_of(name, norm) ? GM_SIGN_NORM : 0;
	signs |= gm_operator_is_loss(log, &event) ? GM_SIGN_LOSS : 0;
	size_t count;
	const uint64_t *addresses = gm_log_native_stack(log, native_stack, &count);
	for (size_t i = 0; i < count; i++) {
		struct gm_native_place place;
		gm_place_native(log, addresses[i], &place);
		if (place.function && gm_native_operator(place.function, name) &&
		        (strcmp(name, "clone") == 0 || strcmp(name, "contiguous") == 0))
			signs |= GM_SIGN_COPIES;
	}
	return signs;
}

uint8_t gm_advise_signs_of(
        struct gm_advise_signs *signs, const struct gm_log *log, uint32_t native_stack)
{
	if (!gm_array_reach(&signs->items, native_stack))
		return 0;
	uint8_t *of = &signs->items.items[native_stack];
	if (!*of)
		*of = look(log, native_stack);
	return *of;
}
