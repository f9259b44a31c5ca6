#include "model/native_names.h"
#include "base/packages.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static bool give(const char *from, size_t length, char ret_name[GM_NATIVE_NAME_MAX])
{
	int most = length < GM_NATIVE_NAME_MAX ? (int)length : GM_NATIVE_NAME_MAX;
	snprintf(ret_name, GM_NATIVE_NAME_MAX, "%.*s", most, from);
	return length > 0;
}

bool gm_native_operator(const char *function, char ret_name[GM_NATIVE_NAME_MAX])
{
	/* aten/src/ATen/ops/NAME_ops.h, which torchgen makes: struct at::_ops::NAME with call() and
	 * redispatch() */
	static const char begin[] = "at::_ops::";
	if (strncmp(function, begin, sizeof(begin) - 1) != 0)
		return false;
	const char *from = function + sizeof(begin) - 1;
	return give(from, strcspn(from, ":"), ret_name);
}

/*
 * "torch::autograd::generated::MmBackward0::apply(std::vector<...>&&)": the class before apply().
 * That of a custom function in C++ is "torch::autograd::CppNode<vision::ops::RoIAlign>"; one in
 * Python (PyNode) has frames of its own.
 */
bool gm_native_node(const char *function, char ret_name[GM_NATIVE_NAME_MAX])
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
	return give(from, (size_t)(end - from), ret_name);
}

/* torch/csrc/distributed/c10d: "c10d::ProcessGroupNCCL::allgather(...)",
 * "c10d::broadcast_coalesced(
 * ...)"; no destructor */
bool gm_native_collective(const char *function, char ret_name[GM_NATIVE_NAME_MAX])
{
	static const char space[] = "c10d::";
	if (strncmp(function, space, sizeof(space) - 1) != 0)
		return false;
	const char *from = function + sizeof(space) - 1, *end = from + strcspn(from, "(<~");
	for (const char *at = from; at < end; at++)
		from = *at == ':' ? at + 1 : from;
	return give(from, (size_t)(end - from), ret_name);
}

bool gm_file_is_collectives(const char *file)
{
	return gm_file_is_of_torch(file, "/torch/distributed/distributed_c10d.py") ||
	       gm_file_is_in_torch(file, "/torch/distributed/_functional_collectives");
}
