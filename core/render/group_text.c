#include "render/group_text.h"

const char *gm_text_group(enum gm_group_kind kind, const char *key)
{
	switch (kind) {
	case GM_GROUP_BEFORE_RECORDING:
		return "unknown (allocated before the recording began)";
	case GM_GROUP_NO_LABEL:
		return "(no label)";
	case GM_GROUP_NO_TENSOR:
		return "no tensor is known";
	case GM_GROUP_NO_LIVE_TENSOR:
		return "no live tensor";
	case GM_GROUP_NO_OPERATOR:
		return "no operator is known";
	case GM_GROUP_NO_FORWARD:
		return "(in no module's forward)";
	case GM_GROUP_NO_MODULE:
		return "(kept by no module)";
	case GM_GROUP_ROOT_MODULE:
		return "(the root module)";
	default:
		return key;
	}
}
