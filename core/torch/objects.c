/* Storages, tensors, autograd nodes and Python wrappers: one object read at a time, field by
 * field. */
#include "torch/dtypes.h"
#include "torch/internal.h"
#include "torch/readers.h"
#include "torch/torch.h"

#include <stdio.h>

enum {
	MAX_DIMENSIONS = 1024,
	MAX_OBJECT = 512, /* the largest object that is read at once */
	MAX_REFCOUNT =
	        0x0FFFFFFF + 1024, /* c10: kImpracticallyHugeReferenceCount marks stack objects */
};

static const uint64_t HAS_PYTHON_OBJECT = UINT64_C(1) << 63;

static const struct gm_class *class_of(
        struct gm_torch *torch, const void *object, enum gm_class_kind kind)
{
	const struct gm_class *class = gm_classes_at(&torch->classes, gm_word(object, 0));
	return class && class->kind == kind ? class : NULL;
}

/* Splits the packed counts; false if they cannot be those of a live object. */
static bool read_counts(struct gm_torch *torch, uint64_t packed, uint32_t *ret_strong,
        uint32_t *ret_weak, bool *ret_python)
{
	bool python = torch->layout->packed_python_bit && (packed & HAS_PYTHON_OBJECT);
	if (python)
		packed &= ~HAS_PYTHON_OBJECT;
	uint32_t strong = (uint32_t)packed, weak = (uint32_t)(packed >> 32);
	if (strong == 0 || strong > MAX_REFCOUNT || weak == 0 || weak > MAX_REFCOUNT)
		return false;
	*ret_strong = strong;
	*ret_weak = weak;
	*ret_python = python;
	return true;
}

/* Until 2.9 the low bit of the wrapper's pointer says that the C++ object owns the wrapper;
 * otherwise, and from 2.10 on always, the wrapper owns the C++ object. */
static uint64_t wrapper(struct gm_torch *torch, uint64_t word, bool has_python, uint32_t strong,
        bool *ret_python_holds, bool *ret_holds_python)
{
	*ret_python_holds = *ret_holds_python = false;
	if (torch->layout->packed_python_bit) {
		if (!has_python)
			return 0;
		*ret_python_holds = true;
		*ret_holds_python = strong > 1;
		return word;
	}
	bool owned = word & 1;
	word &= ~UINT64_C(1);
	if (word == 0)
		return 0;
	*ret_python_holds = !owned;
	*ret_holds_python = owned;
	return word;
}

bool gm_torch_storage(struct gm_torch *torch, uint64_t address, struct gm_storage *ret_storage)
{
	const struct gm_torch_layout *layout = torch->layout;
	unsigned char object[MAX_OBJECT];
	if (!gm_is_object_address(address) ||
	        !gm_image_try_read(torch->image, address, object, layout->storage.size_of) ||
	        !class_of(torch, object, GM_CLASS_STORAGE))
		return false;
	struct gm_storage storage = {.address = address};
	bool has_python;
	if (!read_counts(torch, gm_word(object, layout->storage.counts), &storage.refcount,
	            &storage.weakcount, &has_python))
		return false;
	storage.data = gm_word(object, layout->storage.data);
	storage.size = gm_word(object, layout->storage.size_bytes);
	/* a c10::SymInt whose top bits say that it is symbolic, not a number (c10/core/SymInt.h,
	 * MAX_UNREPRESENTABLE_INT) */
	if (storage.size >> 62 == 2)
		storage.size = 0;
	if (storage.size > UINT64_C(1) << 48)
		return false;
	storage.device_type = (int8_t)object[layout->storage.device];
	storage.device = (int8_t)object[layout->storage.device + 1];
	storage.python = wrapper(torch, gm_word(object, layout->storage.python), has_python,
	        storage.refcount, &storage.python_holds, &storage.holds_python);
	*ret_storage = storage;
	return true;
}

/* Shape: five dimensions are inline, more are in a separate array (sizes, then strides). */
static bool read_shape(struct gm_torch *torch, const void *object, struct gm_tensor *tensor)
{
	const struct gm_torch_layout *layout = torch->layout;
	uint64_t dimensions = gm_word(object, layout->tensor.dimensions);
	if (dimensions > MAX_DIMENSIONS)
		return false;
	tensor->dimensions = (uint32_t)dimensions;
	size_t kept = dimensions < GM_TENSOR_MAX_DIMENSIONS ? dimensions : GM_TENSOR_MAX_DIMENSIONS;
	if (dimensions <= layout->tensor.inline_dimensions) {
		memcpy(tensor->shape, (const char *)object + layout->tensor.sizes, kept * 8);
		return true;
	}
	return gm_image_try_read(torch->image, gm_word(object, layout->tensor.sizes), tensor->shape,
	        kept * sizeof(tensor->shape[0]));
}

static uint64_t defined_tensor(struct gm_torch *torch, uint64_t address)
{
	if (!gm_is_object_address(address) || gm_torch_is_undefined(torch, address))
		return 0;
	return address;
}

static void read_meta(struct gm_torch *torch, struct gm_tensor *tensor)
{
	const struct gm_torch_layout *layout = torch->layout;
	unsigned char meta[MAX_OBJECT];
	tensor->is_leaf = true;
	if (!gm_is_object_address(tensor->autograd_meta) ||
	        !gm_image_try_read(torch->image, tensor->autograd_meta, meta, layout->meta.size_of))
		return;
	const struct gm_class *class = class_of(torch, meta, GM_CLASS_META);
	if (!class)
		return;
	tensor->requires_grad = meta[layout->meta.requires_grad] != 0;
	tensor->grad_fn = gm_word(meta, layout->meta.grad_fn);
	tensor->is_leaf = tensor->grad_fn == 0;
	tensor->grad = defined_tensor(torch, gm_word(meta, layout->meta.grad));
	if (!class->view_meta || !gm_image_try_read(torch->image, tensor->autograd_meta, meta,
	                                 layout->meta.view_size_of))
		return;
	if (meta[layout->meta.view_backward_set])
		tensor->view_base =
		        defined_tensor(torch, gm_word(meta, layout->meta.view_backward));
	else if (layout->meta.view_forward_set && meta[layout->meta.view_forward_set])
		tensor->view_base = defined_tensor(torch, gm_word(meta, layout->meta.view_forward));
}

bool gm_torch_tensor(struct gm_torch *torch, uint64_t address, struct gm_tensor *ret_tensor)
{
	const struct gm_torch_layout *layout = torch->layout;
	unsigned char object[MAX_OBJECT];
	if (!gm_is_object_address(address) ||
	        !gm_image_try_read(torch->image, address, object, layout->tensor.size_of))
		return false;
	const struct gm_class *class = class_of(torch, object, GM_CLASS_TENSOR);
	if (!class || class->undefined)
		return false;
	struct gm_tensor tensor = {.address = address};
	bool has_python;
	if (!read_counts(torch, gm_word(object, layout->tensor.counts), &tensor.refcount,
	            &tensor.weakcount, &has_python) ||
	        !read_shape(torch, object, &tensor))
		return false;
	tensor.storage = gm_word(object, layout->tensor.storage);
	tensor.storage_offset = gm_word(object, layout->tensor.storage_offset);
	tensor.numel = gm_word(object, layout->tensor.numel);
	uint16_t dtype;
	memcpy(&dtype, object + layout->tensor.dtype, sizeof(dtype));
	tensor.dtype = gm_torch_dtype_name(dtype);
	if (!tensor.dtype)
		return false;
	tensor.element_bits = (uint8_t)gm_torch_dtype_bits(dtype);
	tensor.device_type = (int8_t)object[layout->tensor.device];
	tensor.device = (int8_t)object[layout->tensor.device + 1];
	tensor.python = wrapper(torch, gm_word(object, layout->tensor.python), has_python,
	        tensor.refcount, &tensor.python_holds, &tensor.holds_python);
	tensor.autograd_meta = gm_word(object, layout->tensor.autograd_meta);
	read_meta(torch, &tensor);
	*ret_tensor = tensor;
	return true;
}

bool gm_torch_is_undefined(struct gm_torch *torch, uint64_t tensor)
{
	uint64_t vtable;
	if (!gm_image_try_u64(torch->image, tensor, &vtable))
		return false;
	const struct gm_class *class = gm_classes_at(&torch->classes, vtable);
	return class && class->undefined;
}

/* A wrapper and its tensor point at each other: the type need not be known. */
uint64_t gm_torch_unwrap(struct gm_torch *torch, uint64_t python_object)
{
	uint64_t address;
	struct gm_tensor tensor;
	size_t offset = torch->layout->python.tensor_cdata;
	if (torch->layout->python.tensor_maybe_owned)
		offset += 8;
	if (!gm_is_object_address(python_object) ||
	        !gm_image_try_u64(torch->image, python_object + offset, &address) ||
	        !gm_torch_tensor(torch, address, &tensor) || tensor.python != python_object)
		return 0;
	return address;
}

struct typed {
	uint64_t untyped, dict; /* 0: it has none */
};

static bool keep_untyped(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct typed *typed = context;
	if (kind == GM_EDGE_OTHER && name && strcmp(name, "__dict__") == 0)
		typed->dict = target;
	if (!name || strcmp(name, "_untyped_storage") != 0)
		return true;
	typed->untyped = target;
	return false;
}

/* For a torch.storage.TypedStorage, which is a Python class: attributes may be in a dict of their
 * own. */
static uint64_t untyped_of(struct gm_python *python, uint64_t object)
{
	struct typed typed = {0};
	gm_python_references(python, object, keep_untyped, &typed);
	if (!typed.untyped && typed.dict)
		gm_python_references(python, typed.dict, keep_untyped, &typed);
	return typed.untyped;
}

bool gm_torch_unwrap_storage(
        struct gm_torch *torch, uint64_t python_object, struct gm_storage *ret_storage)
{
	uint64_t address, untyped = 0;
	if (!gm_is_object_address(python_object))
		return false;
	if (gm_image_try_u64(
	            torch->image, python_object + torch->layout->python.storage_cdata, &address) &&
	        gm_torch_storage(torch, address, ret_storage) &&
	        ret_storage->python == python_object)
		return true;
	if (torch->python && gm_python_is_instance(torch->python, python_object, "TypedStorage"))
		untyped = untyped_of(torch->python, python_object);
	return untyped && untyped != python_object &&
	       gm_torch_unwrap_storage(torch, untyped, ret_storage);
}

/* Until 2.12 a std::shared_ptr owns a node, and the node has a pointer to its control block. */
static bool read_shared_counts(struct gm_torch *torch, const void *object, struct gm_node *node)
{
	const struct gm_torch_layout *layout = torch->layout;
	uint64_t control[2];
	uint32_t weak;
	bool python;
	if (gm_word(object, layout->node.self) != node->address ||
	        !gm_image_try_read(torch->image, gm_word(object, layout->node.control), control,
	                sizeof(control)))
		return false;
	/* libstdc++'s _Sp_counted_base: vtable, use count, weak count (bits/shared_ptr_base.h) */
	const struct gm_class *shared = gm_classes_at(&torch->classes, control[0]);
	return shared && shared->kind == GM_CLASS_SHARED &&
	       read_counts(torch, control[1], &node->refcount, &weak, &python) && !python;
}

/* From 2.13 on it has its own count, and its Python object owns it, as for a tensor. */
static bool read_own_counts(struct gm_torch *torch, const void *object, struct gm_node *node)
{
	const struct gm_torch_layout *layout = torch->layout;
	uint32_t weak;
	bool python;
	if (!read_counts(
	            torch, gm_word(object, layout->node.counts), &node->refcount, &weak, &python))
		return false;
	node->python = wrapper(torch, gm_word(object, layout->node.python), python, node->refcount,
	        &node->python_holds, &node->holds_python);
	if (node->class->python_node)
		node->python_object = node->python;
	return true;
}

bool gm_torch_node(struct gm_torch *torch, uint64_t address, struct gm_node *ret_node)
{
	const struct gm_torch_layout *layout = torch->layout;
	unsigned char object[MAX_OBJECT];
	if (!gm_is_object_address(address) ||
	        !gm_image_try_read(torch->image, address, object, layout->node.size_of))
		return false;
	struct gm_node node = {.address = address};
	node.class = class_of(torch, object, GM_CLASS_NODE);
	if (!node.class || !(layout->node.counts ? read_own_counts(torch, object, &node)
	                                         : read_shared_counts(torch, object, &node)))
		return false;
	uint64_t first = gm_word(object, layout->node.next_edges);
	uint64_t last = gm_word(object, layout->node.next_edges + 8u);
	if (last < first || (last - first) % layout->node.edge_size != 0 ||
	        (last - first) / layout->node.edge_size > GM_NODE_MAX_EDGES)
		return false;
	node.edges = first;
	node.edge_count = (uint32_t)((last - first) / layout->node.edge_size);
	if (node.class->python_node && layout->node.python_object &&
	        !gm_image_try_u64(
	                torch->image, address + layout->node.python_object, &node.python_object))
		return false;
	*ret_node = node;
	return true;
}

bool gm_torch_node_name(struct gm_torch *torch, uint64_t address, const char **ret_name)
{
	struct gm_node node;
	if (!gm_torch_node(torch, address, &node))
		return false;
	/* a Python autograd.Function: the type of its context object has the name */
	if (node.python_object != 0 && torch->python &&
	        gm_python_type_name(torch->python, node.python_object, ret_name))
		return true;
	*ret_name = gm_class_name(node.class);
	return true;
}
