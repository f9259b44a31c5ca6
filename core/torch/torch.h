/*
 * PyTorch's C++ objects, read from an image: c10::StorageImpl, c10::TensorImpl and its subclasses,
 * Python wrappers, and the CUDA caching allocator's Block records. Layouts come from tables, one
 * per range of versions, each with its source.
 *
 * This room may include base, image, symbols and cpython.
 */
#ifndef GM_TORCH_TORCH_H
#define GM_TORCH_TORCH_H

#include "cpython/cpython.h"

struct gm_torch;

enum gm_device_type { /* c10::DeviceType, c10/core/DeviceType.h */
	GM_DEVICE_CPU = 0,
	GM_DEVICE_CUDA = 1,
	GM_DEVICE_META = 14,
};

struct gm_storage {
	uint64_t address;  /* StorageImpl */
	uint64_t data;     /* first byte */
	uint64_t size;     /* bytes */
	uint32_t refcount; /* strong */
	uint32_t weakcount;
	int8_t device_type, device;
	uint64_t python;   /* wrapper object, 0: none */
	bool python_holds; /* the wrapper owns one of refcount */
	bool holds_python; /* the storage owns one of the wrapper's */
};

enum { GM_TENSOR_MAX_DIMENSIONS = 16 };
struct gm_tensor {
	uint64_t address;        /* TensorImpl or a subclass */
	uint64_t storage;        /* StorageImpl, 0: none */
	uint64_t storage_offset; /* elements */
	uint32_t refcount, weakcount;
	uint64_t python;     /* wrapper object, 0: none */
	bool python_holds;   /* the wrapper owns one of refcount */
	bool holds_python;   /* the tensor owns one of the wrapper's; from 2.10 on both may be */
	uint32_t dimensions; /* may exceed GM_TENSOR_MAX_DIMENSIONS: then the shape is cut */
	int64_t shape[GM_TENSOR_MAX_DIMENSIONS];
	uint64_t numel;
	const char *dtype;    /* "float32" */
	uint8_t element_bits; /* 0: not known */
	int8_t device_type, device;
	bool requires_grad; /* as set on the leaf */
	bool is_leaf;       /* no grad_fn */
	uint64_t autograd_meta, grad_fn,
	        grad;       /* addresses: AutogradMeta, Node, TensorImpl; 0: none */
	uint64_t view_base; /* TensorImpl; 0: none */
};

/* One Block record of the caching allocator (c10/cuda/CUDACachingAllocator.cpp, struct Block). */
struct gm_block_record {
	uint64_t record; /* its own address */
	uint64_t address, size, requested;
	uint64_t stream;
	int8_t device;
	bool allocated, mapped;
	bool expandable; /* of an expandable segment; false where the version's table does not tell
	                  */
	int32_t event_count; /* > 0: a free that waits for so many streams, or is put off while a
	                        graph is captured */
	uint64_t pool, previous, next;
};

/*
 * GM_TARGET: torch not loaded yet ("torch is not loaded yet: ..."), a version without a table
 * (names it), or an allocator that is not the caching one (gm_torch_allocator_kind tells).
 */
struct gm_error *gm_torch_open(struct gm_image *image, struct gm_symbols *symbols,
        struct gm_python *python /* may be NULL */, struct gm_torch **ret_torch);
/* The same with the row of a file that `gpumem learn` wrote; NULL: one that is shipped or kept.
 * GM_CORRUPT: the file is damaged, or of another build. */
struct gm_error *gm_torch_open_with(struct gm_image *image, struct gm_symbols *symbols,
        struct gm_python *python, const char *layouts, struct gm_torch **ret_torch);
/* Would gm_torch_open_with() find a row? Errors are those that it would return for another
 * reason. */
struct gm_error *gm_torch_is_known(
        struct gm_image *image, struct gm_symbols *symbols, const char *layouts, bool *ret_known);
void gm_torch_close(struct gm_torch *torch);

const char *gm_torch_version(const struct gm_torch *torch); /* "2.11.0+cu130" */

/* "native" (the caching allocator), "cudaMallocAsync", "pluggable", "none" (CUDA not
 * initialised). */
const char *gm_torch_allocator_kind(struct gm_torch *torch);

/* Is there a StorageImpl / a TensorImpl at this address? False where the layout does not fit. */
bool gm_torch_storage(struct gm_torch *torch, uint64_t address, struct gm_storage *ret_storage);
bool gm_torch_tensor(struct gm_torch *torch, uint64_t address, struct gm_tensor *ret_tensor);
/* The TensorImpl behind a Python Tensor (or Parameter, or subclass) object; 0: it is none. */
uint64_t gm_torch_unwrap(struct gm_torch *torch, uint64_t python_object);
/* The storage behind a Python UntypedStorage, or behind a TypedStorage (which holds one); false: it
 * is none. */
bool gm_torch_unwrap_storage(
        struct gm_torch *torch, uint64_t python_object, struct gm_storage *ret_storage);
/*
 * What DistributedDataParallel gathers gradients in (reducer.c): of the Python object of its
 * Reducer. A bucket's tensor is flat; variables are the parameters whose gradients go through it.
 * False: none is there, or where it keeps them is not known of this version. Addresses of tensors;
 * the caller frees both.
 */
struct gm_ddp_bucket {
	uint64_t gradients;
	size_t first, count; /* of the variables */
};
bool gm_torch_ddp_buckets(struct gm_torch *torch, uint64_t reducer,
        struct gm_ddp_bucket **ret_buckets, size_t *ret_count, uint64_t **ret_variables);
/* Class name of an autograd Node by its vtable ("AddmmBackward0"); false: no Node. Owned by
 * torch. */
bool gm_torch_node_name(struct gm_torch *torch, uint64_t node, const char **ret_name);

/*
 * The Block record of an allocation in progress: searched in the callee-saved registers and the
 * first words of the stack at the allocator's report, checked field by field against (address,
 * size). Then remembered by address until forgotten. Hot path.
 */
bool gm_torch_block_at_report(struct gm_torch *torch, const struct gm_registers *registers,
        uint64_t address, uint64_t size, struct gm_block_record *ret_block);
/* Reads one Block record again; false where it no longer describes a block. */
bool gm_torch_block(struct gm_torch *torch, uint64_t record, struct gm_block_record *ret_block);
/* Every Block of every pool of a device, through the exported allocator object; needs no recording.
 * For the state before recording started. The caller frees the array. */
struct gm_error *gm_torch_blocks(
        struct gm_torch *torch, struct gm_block_record **ret_blocks, size_t *ret_count);

/* The allocator's own statistics of one device (c10/core/CachingDeviceAllocator.h, DeviceStats:
 * .current of all pools): what sizes have to add up to. GM_TARGET as gm_torch_blocks. */
struct gm_allocator_bytes {
	uint64_t allocated, reserved, active, requested;
};
struct gm_error *gm_torch_allocator_bytes(
        struct gm_torch *torch, int device, struct gm_allocator_bytes *ret_bytes);

/* The number of devices that the allocator knows; not all need to have memory. GM_TARGET as
 * gm_torch_blocks. */
struct gm_error *gm_torch_allocator_devices(struct gm_torch *torch, size_t *ret_count);

/* What the allocator knows of one device, beyond its blocks. */
#define GM_NOT_KNOWN UINT64_MAX
struct gm_allocator_device {
	struct gm_allocator_bytes now, peak;
	uint64_t retries;   /* num_alloc_retries: cudaMalloc refused, the cache was emptied, asked
	                       again */
	uint64_t ooms;      /* num_ooms: errors raised */
	uint64_t max_split; /* bytes; 0: no such setting */
	uint64_t limit;     /* set_per_process_memory_fraction's, bytes; 0: none; GM_NOT_KNOWN */
	uint64_t total;     /* of the device; GM_NOT_KNOWN */
	bool has_uuid;
	unsigned char uuid[16]; /* cudaDeviceProp's */
};
struct gm_error *gm_torch_allocator_device(
        struct gm_torch *torch, int device, struct gm_allocator_device *ret_device);

/* The pool of a Block record. False where nothing of that kind is there. */
struct gm_pool_record {
	bool small;      /* of requests up to 1 MiB */
	bool is_private; /* a CUDA graph's or a torch.cuda.MemPool's: others may not use it */
};
bool gm_torch_pool(struct gm_torch *torch, uint64_t pool, struct gm_pool_record *ret_pool);

/*
 * PyTorch's own trace of one device (torch.cuda.memory._record_memory_history), oldest entry first.
 * None: *ret_count is 0. Times are of the processor's counter, which means nothing outside the
 * process: they are left out. GM_TARGET: the version's table does not tell where it is.
 */
struct gm_trace_entry {
	uint32_t action; /* TraceEntry::Action: alloc, free_requested, free_completed,
	                    segment_alloc, _free, _map, _unmap, snapshot, oom, from 0 on */
	uint64_t address, size, stream;
	uint64_t context; /* its call stack, for gm_torch_trace_frames(); 0: none */
};
struct gm_error *gm_torch_trace(
        struct gm_torch *torch, int device, struct gm_trace_entry **ret_entries, size_t *ret_count);
/* A Python frame of an entry: a code object, and where in it, in bytes. */
struct gm_trace_frame {
	uint64_t code;
	uint32_t lasti;
};
/* Innermost first; 0: no Python stack was kept. */
size_t gm_torch_trace_frames(
        struct gm_torch *torch, uint64_t context, struct gm_trace_frame *ret_frames, size_t max);

#endif
