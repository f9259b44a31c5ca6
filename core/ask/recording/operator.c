#include "ask/recording/operator.h"

#include <stdio.h>
#include <string.h>

#include "ask/recording/place.h"
#include "base/text.h"

bool gm_operator_of(const struct gm_log *log, uint32_t native_stack, char name[GM_OPERATOR_MAX])
{
	/* aten/src/ATen/ops/NAME_ops.h, which torchgen makes: struct at::_ops::NAME with call() and
	 * redispatch() */
	static const char begin[] = "at::_ops::";
	size_t count;
	const uint64_t *addresses = gm_log_native_stack(log, native_stack, &count);
	for (size_t i = count; i-- > 0;) {
		struct gm_native_place place;
		gm_place_native(log, addresses[i], &place);
		if (!place.function || strncmp(place.function, begin, sizeof(begin) - 1) != 0)
			continue;
		const char *from = place.function + sizeof(begin) - 1;
		snprintf(name, GM_OPERATOR_MAX, "%.*s", (int)strcspn(from, ":"), from);
		return name[0] != 0;
	}
	return false;
}

/*
 * "torch::autograd::generated::MmBackward0::apply(std::vector<...>&&)": the class before apply().
 * That of a custom function in C++ is "torch::autograd::CppNode<vision::ops::RoIAlign>"; one in
 * Python (PyNode) has frames of its own.
 */
static bool node_of_function(const char *function, char name[GM_OPERATOR_MAX])
{
	static const char before[] = "torch::autograd::", custom[] = "CppNode<";
	const char *from = strstr(function, before);
	if (!from)
		return false;
	from += sizeof(before) - 1;
	const char *end = strstr(from, "::apply(");
	if (!end && gm_text_ends_with(from, "::apply"))
		end = from + strlen(from) - 7;
	if (!end)
		return false;
	if (strncmp(from, custom, sizeof(custom) - 1) == 0) {
		from += sizeof(custom) - 1;
		end = from + strcspn(from, "<>(");
	}
	for (const char *at = from; at < end; at++)
		from = *at == ':' ? at + 1 : from;
	if (end == from)
		return false;
	snprintf(name, GM_OPERATOR_MAX, "%.*s", (int)(end - from), from);
	return true;
}

bool gm_node_of(const struct gm_log *log, uint32_t native_stack, char name[GM_OPERATOR_MAX])
{
	size_t count;
	const uint64_t *addresses = gm_log_native_stack(log, native_stack, &count);
	for (size_t i = 0; i < count; i++) {
		struct gm_native_place place;
		gm_place_native(log, addresses[i], &place);
		if (place.function && node_of_function(place.function, name))
			return true;
	}
	return false;
}

static bool is_loss(const char *name)
{
	return strcmp(name, "cross_entropy_loss") == 0 || strcmp(name, "cross_entropy") == 0 ||
	       strcmp(name, "nll_loss") == 0 || strcmp(name, "log_softmax") == 0;
}

bool gm_operator_is_loss(const struct gm_log *log, const struct gm_event *event)
{
	char name[GM_OPERATOR_MAX];
	struct gm_frame_place place;
	if (gm_operator_of(log, event->native_stack, name) && is_loss(name))
		return true;
	for (size_t i = 0; gm_place_frame(log, event->python_stack, i, &place); i++)
		if (is_loss(place.function))
			return true;
	return false;
}
