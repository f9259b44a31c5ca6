/*
 * What PyTorch's caching allocator does by rule, for any room that follows or explains it. Includes
 * nothing, so that the agent, which runs inside the program, may use it too.
 *
 * c10/cuda/CUDACachingAllocator.cpp, c10/core/AllocatorConfig.h (2.4 to 2.15): kMinBlockSize,
 * kSmallSize, kSmallBuffer, kMinLargeAlloc, kLargeBuffer, kRoundLarge. From 2.11 on the large
 * segment's size can be set (large_segment_size_mb).
 */
#ifndef GM_TORCH_ALLOCATOR_H
#define GM_TORCH_ALLOCATOR_H

enum {
	/* c10::DeviceIndex is an int8_t (c10/core/Device.h) */
	GM_TORCH_DEVICES_MAX = 128,
	/* every block's address and size are multiples of it */
	GM_TORCH_BLOCK_STEP = 512,
	/* requests up to this, in bytes, are served by segments of the second size, from the pool
	   of small blocks */
	GM_TORCH_SMALL_REQUEST = 1 << 20,
	GM_TORCH_SMALL_SEGMENT = 2 << 20,
	/* requests below this get a segment of the second size; others one of their own, rounded up
	 * to a multiple of the third */
	GM_TORCH_MIDDLE_REQUEST = 10 << 20,
	GM_TORCH_LARGE_SEGMENT = 20 << 20,
	GM_TORCH_SEGMENT_STEP = 2 << 20,
	/* cuBLAS's workspaces, by the device's generation, and by default cuBLASLt's
	 * (aten/src/ATen/cuda/CublasHandlePool.cpp: parseChosenWorkspaceSize,
	 * _parseChosenWorkspaceSize) */
	GM_TORCH_WORKSPACE_HOPPER = 32 << 20,
	GM_TORCH_WORKSPACE = 8519680,
	GM_TORCH_LT_WORKSPACE = 1 << 20,
	GM_TORCH_LT_WORKSPACE_LARGE = 4 << 20,
};

/* TraceEntry::Action (c10/core/CachingDeviceAllocator.h; until 2.10
 * c10/cuda/CUDACachingAllocator.h). */
enum gm_torch_action {
	GM_TORCH_ALLOC,
	GM_TORCH_FREE_REQUESTED,
	GM_TORCH_FREE_COMPLETED,
	GM_TORCH_SEGMENT_ALLOC,
	GM_TORCH_SEGMENT_FREE,
	GM_TORCH_SEGMENT_MAP,
	GM_TORCH_SEGMENT_UNMAP,
	GM_TORCH_SNAPSHOT,
	GM_TORCH_OOM,
	GM_TORCH_ANNOTATE, /* 2.15 */
};

#endif
