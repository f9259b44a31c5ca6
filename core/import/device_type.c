/*
 * The accelerator of a snapshot. torch.cuda, torch.xpu and backends outside PyTorch write the same
 * form, and none names the device's type. It is recognized by keys that only one of them writes, or
 * by the libraries and packages in frames.
 */
#include "import/device_type.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "import/values.h"

enum { CUDA = 1, XPU = 12, HPU = 15, MTIA = 19, PRIVATE_USE = 20 }; /* c10::DeviceType */

/* torch_cuda matches "libtorch_cuda.so", "/torch/xpu/" matches "/opt/torch/xpu/memory.py". */
static const struct {
	const char *part;
	uint8_t type;
} signs[] = {
        {"/libc10_xpu.", XPU},
        {"/libtorch_xpu.", XPU},
        {"/torch/xpu/", XPU},
        {"/torch/mtia/", MTIA},
        {"/habana_frameworks/", HPU},
        {"/libtorch_npu.", PRIVATE_USE}, /* Ascend's torch_npu */
        {"/torch_npu/", PRIVATE_USE},
        {"/libc10_cuda.", CUDA},
        {"/libtorch_cuda.", CUDA},
        {"/libc10_hip.", CUDA}, /* the name of devices in ROCm's PyTorch */
        {"/libtorch_hip.", CUDA},
        {"/torch/cuda/", CUDA},
};

static uint8_t type_of_file(const char *file, size_t length)
{
	for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++)
		if (memmem(file, length, signs[i].part, strlen(signs[i].part)))
			return signs[i].type;
	return 0;
}

/* 0: no frame shows it. */
static uint8_t type_of_frames(const struct gm_pickle *pickle)
{
	uint8_t found = 0;
	_cleanup_free_ bool *seen = calloc(pickle->strings.count + 1, sizeof(*seen));
	for (size_t i = 0; seen && i < pickle->frames.count; i++) {
		uint32_t id = pickle->frames.items[i].file;
		size_t length;
		if (seen[id])
			continue;
		seen[id] = true;
		const char *file = gm_pickle_string(pickle, id, &length);
		uint8_t type = type_of_file(file, length);
		/* a program with another accelerator may still use torch.cuda */
		if (type && (!found || found == CUDA))
			found = type;
	}
	return found;
}

uint8_t gm_snapshot_device_type(const struct gm_pickle *pickle, gm_value root)
{
	gm_value settings = gm_pickle_get(pickle, root, GM_KEY_ALLOCATOR_SETTINGS);
	/* torch/csrc/cuda/memory_snapshot.cpp and torch/csrc/xpu/Module.cpp name the variable
	 * differently */
	if (gm_pickle_get(pickle, settings, GM_KEY_PYTORCH_CUDA_ALLOC_CONF))
		return CUDA;
	uint8_t found = type_of_frames(pickle);
	if (found)
		return found;
	if (gm_pickle_get(pickle, settings, GM_KEY_PYTORCH_ALLOC_CONF))
		return gm_pickle_get(pickle, root, GM_KEY_EXTERNAL_ANNOTATIONS) ? CUDA : XPU;
	/* only CUDA's snapshots had none of these, before torch 2.2 */
	return settings && !gm_pickle_get(pickle, root, GM_KEY_EXTERNAL_ANNOTATIONS) &&
	                       gm_pickle_first(pickle, settings).chunk
	               ? GM_LOG_DEVICE_UNKNOWN
	               : CUDA;
}

const char *gm_snapshot_device_name(
        const struct gm_trace_device *device, char name[GM_SNAPSHOT_DEVICE_NAME])
{
	const char *type = gm_device_type_name(device->type);
	if (device->type == GM_LOG_DEVICE_PINNED)
		snprintf(name, GM_SNAPSHOT_DEVICE_NAME, "pinned");
	else if (type)
		snprintf(name, GM_SNAPSHOT_DEVICE_NAME, "%s:%d", type, device->index);
	else
		snprintf(name, GM_SNAPSHOT_DEVICE_NAME, "device %d", device->index);
	return name;
}
