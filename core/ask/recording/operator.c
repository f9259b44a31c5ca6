#include "ask/recording/operator.h"

#include <string.h>

#include "ask/recording/place.h"

bool gm_operator_of(const struct gm_log *log, uint32_t native_stack, char name[GM_OPERATOR_MAX])
{
	size_t count;
	const uint64_t *addresses = gm_log_native_stack(log, native_stack, &count);
	for (size_t i = count; i-- > 0;) {
		struct gm_native_place place;
		gm_place_native(log, addresses[i], &place);
		if (place.function && gm_native_operator(place.function, name))
			return true;
	}
	return false;
}

bool gm_node_of(const struct gm_log *log, uint32_t native_stack, char name[GM_OPERATOR_MAX])
{
	size_t count;
	const uint64_t *addresses = gm_log_native_stack(log, native_stack, &count);
	for (size_t i = 0; i < count; i++) {
		struct gm_native_place place;
		gm_place_native(log, addresses[i], &place);
		if (place.function && gm_native_node(place.function, name))
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
