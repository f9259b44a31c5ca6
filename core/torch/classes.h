/*
 * C++ classes by their run-time type information. Internal to core/torch and core/holders.
 *
 * Every object of a class with virtual functions starts with a pointer into its vtable; the word
 * before that place points to the class's std::type_info, which has the mangled name and the base
 * classes (Itanium C++ ABI, 2.9.5; libstdc++ <cxxabi.h>). This tells classes of hidden symbols and
 * of users' own extensions as well, and needs no symbol table: libtorch_cpu.so's has half a million
 * entries.
 */
#ifndef GM_TORCH_CLASSES_H
#define GM_TORCH_CLASSES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "symbols/symbols.h"
#include "base/map.h"

enum gm_class_kind {
	GM_CLASS_NONE = 0, /* no vtable there */
	GM_CLASS_OTHER,    /* a class of no interest here; its name is known */
	GM_CLASS_STORAGE,
	GM_CLASS_TENSOR, /* TensorImpl or derived */
	GM_CLASS_META,   /* AutogradMeta or derived */
	GM_CLASS_NODE,   /* torch::autograd::Node or derived */
	GM_CLASS_SHARED, /* a std::shared_ptr's control block */
};

struct gm_class {
	uint64_t vtable; /* what the object's first word holds */
	enum gm_class_kind kind;
	/* DifferentiableViewMeta, PyNode, AccumulateGrad, UndefinedTensorImpl */
	bool view_meta, python_node, accumulate_grad, undefined;
	char *linkage_name;
	char *name;             /* demangled when first asked for: see gm_class_name() */
	struct gm_slots *slots; /* of a node: see slots.h; one allocation, owned by the class */
};

struct gm_classes {
	struct gm_image *image;
	struct gm_symbols *symbols;
	struct gm_map traits;    /* of bases, by type_info: see classes.c */
	struct gm_map by_vtable; /* -> index + 1 in `classes`; 0: none */
	GM_ARRAY(struct gm_class *) classes;
	uint64_t type_info_plain, type_info_single, type_info_multiple; /* their own vtables */
};

void gm_classes_init(
        struct gm_classes *classes, struct gm_image *image, struct gm_symbols *symbols);
void gm_classes_deinit(struct gm_classes *classes);
/* The class whose vtable begins at `vtable`; NULL: none is there. Not thread-safe (a cache). */
const struct gm_class *gm_classes_at(struct gm_classes *classes, uint64_t vtable);

/* "c10::TensorImpl"; of nodes the last component, as PyTorch names them: "AddmmBackward0". Not
 * thread-safe; lives as long as the class. */
const char *gm_class_name(const struct gm_class *class);

#endif
