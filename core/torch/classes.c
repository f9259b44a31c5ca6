#include "torch/classes.h"

#include "base/allocation.h"

#include <stdlib.h>
#include <string.h>

enum {
	SHORT_NAME = 128,
	MAX_NAME = 4096, /* of a mangled name; those of templates are long */
	MAX_DEPTH = 16,  /* of base classes */
	MAX_BASES = 16,
	MAX_CLASSES = 1 << 20,
};

extern char *__cxa_demangle(const char *name, char *buffer, size_t *length, int *status);

static uint64_t vtable_of(struct gm_symbols *symbols, const char *linkage_name)
{
	uint64_t address = 0;
	const struct gm_module *module = gm_symbols_find_module(symbols, "libstdc++.so");
	if (!module || !gm_symbols_lookup(symbols, module, linkage_name, &address, NULL))
		if (!gm_symbols_lookup_any(symbols, linkage_name, &address, NULL))
			return 0;
	return address + 16; /* after offset-to-top and type_info */
}

void gm_classes_init(struct gm_classes *classes, struct gm_image *image, struct gm_symbols *symbols)
{
	*classes = (struct gm_classes){.image = image, .symbols = symbols};
	classes->type_info_plain = vtable_of(symbols, "_ZTVN10__cxxabiv117__class_type_infoE");
	classes->type_info_single = vtable_of(symbols, "_ZTVN10__cxxabiv120__si_class_type_infoE");
	classes->type_info_multiple =
	        vtable_of(symbols, "_ZTVN10__cxxabiv121__vmi_class_type_infoE");
}

void gm_classes_deinit(struct gm_classes *classes)
{
	for (size_t i = 0; i < classes->classes.count; i++) {
		free(classes->classes.items[i]->linkage_name);
		free(classes->classes.items[i]->name);
		free(classes->classes.items[i]->slots);
		free(classes->classes.items[i]);
	}
	gm_array_deinit(&classes->classes);
	gm_map_deinit(&classes->by_vtable);
	gm_map_deinit(&classes->traits);
}

/* vtables and type_info are in a file's data that is read-only after relocation. */
static bool in_read_only_data(struct gm_classes *classes, uint64_t address)
{
	if (address & 7)
		return false;
	const struct gm_mapping *mapping = gm_image_find_mapping(classes->image, address);
	return mapping && mapping->path[0] == '/' &&
	       !(mapping->flags & (GM_MAPPING_EXEC | GM_MAPPING_DEVICE));
}

struct known_base {
	const char *name;
	enum gm_class_kind kind;
};

static const struct known_base known_bases[] = {
        {"N3c1011StorageImplE", GM_CLASS_STORAGE},
        {"N3c1010TensorImplE", GM_CLASS_TENSOR},
        {"N5torch8autograd12AutogradMetaE", GM_CLASS_META},
        {"N5torch8autograd4NodeE", GM_CLASS_NODE},
        {"St16_Sp_counted_baseILN9__gnu_cxx12_Lock_policyE2EE", GM_CLASS_SHARED},
};

static bool read_name(struct gm_classes *classes, uint64_t type_info, char *buffer)
{
	uint64_t address;
	if (!gm_image_try_u64(classes->image, type_info + 8, &address) || address == 0)
		return false;
	/* most are short */
	size_t got = gm_image_read_some(classes->image, address, buffer, SHORT_NAME);
	if (got == SHORT_NAME && !memchr(buffer, 0, got))
		got = gm_image_read_some(classes->image, address, buffer, MAX_NAME);
	if (got == 0 || !memchr(buffer, 0, got))
		return false;
	if (buffer[0] == '*') /* a name that is compared only by its address */
		memmove(buffer, buffer + 1, strlen(buffer));
	return buffer[0] != 0;
}

/* What is known of a class, directly or by its bases, in one word: its kind and its parts. */
enum {
	TRAIT_KIND = 0xff,
	TRAIT_VIEW_META = 0x100,
	TRAIT_PYTHON_NODE = 0x200,
	TRAIT_ACCUMULATE = 0x400,
	TRAIT_UNDEFINED = 0x800
};

static const struct known_trait {
	const char *name;
	uint32_t trait;
} known_traits[] = {
        {"N5torch8autograd22DifferentiableViewMetaE", TRAIT_VIEW_META},
        {"N5torch8autograd6PyNodeE", TRAIT_PYTHON_NODE},
        {"N5torch8autograd14AccumulateGradE", TRAIT_ACCUMULATE},
        {"N3c1019UndefinedTensorImplE", TRAIT_UNDEFINED},
};

static uint32_t traits_of_name(const char *name)
{
	for (size_t i = 0; i < sizeof(known_bases) / sizeof(known_bases[0]); i++)
		if (strcmp(name, known_bases[i].name) == 0)
			return known_bases[i].kind;
	for (size_t i = 0; i < sizeof(known_traits) / sizeof(known_traits[0]); i++)
		if (strcmp(name, known_traits[i].name) == 0)
			return GM_CLASS_OTHER | known_traits[i].trait;
	return GM_CLASS_OTHER;
}

static uint32_t traits_of(
        struct gm_classes *classes, uint64_t type_info, char *buffer, unsigned depth);

static uint32_t with_base(struct gm_classes *classes, uint32_t traits, uint64_t type_info,
        char *buffer, unsigned depth)
{
	uint32_t base = traits_of(classes, type_info, buffer, depth);
	uint32_t kind = base & TRAIT_KIND;
	if (kind == GM_CLASS_OTHER)
		kind = traits & TRAIT_KIND;
	return kind | ((traits | base) & ~(uint32_t)TRAIT_KIND);
}

/* For the class at `type_info`, whose name is in `buffer`. */
static uint32_t traits_with_bases(
        struct gm_classes *classes, uint64_t type_info, char *buffer, unsigned depth)
{
	uint32_t traits = traits_of_name(buffer), kind = traits & TRAIT_KIND;
	uint64_t own, base;
	if ((kind != GM_CLASS_OTHER && kind != GM_CLASS_META && kind != GM_CLASS_NODE) ||
	        !gm_image_try_u64(classes->image, type_info, &own))
		return traits;
	if (own == classes->type_info_single) {
		if (gm_image_try_u64(classes->image, type_info + 16, &base))
			traits = with_base(classes, traits, base, buffer, depth + 1);
	} else if (own == classes->type_info_multiple) {
		uint32_t count = 0;
		if (!gm_image_try_u32(classes->image, type_info + 20, &count))
			return traits;
		for (uint32_t i = 0; i < count && i < MAX_BASES; i++) {
			if (gm_image_try_u64(
			            classes->image, type_info + 24 + 16 * (uint64_t)i, &base))
				traits = with_base(classes, traits, base, buffer, depth + 1);
		}
	}
	return traits;
}

/* Many classes have the same base: it is examined once. `buffer` is for names. */
static uint32_t traits_of(
        struct gm_classes *classes, uint64_t type_info, char *buffer, unsigned depth)
{
	const uint64_t *known = gm_map_find(&classes->traits, type_info);
	if (known)
		return (uint32_t)*known;
	if (depth > MAX_DEPTH || !in_read_only_data(classes, type_info) ||
	        !read_name(classes, type_info, buffer) || classes->traits.count >= MAX_CLASSES)
		return GM_CLASS_OTHER;
	uint64_t *slot = gm_map_put(&classes->traits, type_info, NULL);
	if (!slot)
		return GM_CLASS_OTHER;
	*slot = GM_CLASS_OTHER; /* a base that has itself as a base: damaged */
	uint32_t traits = traits_with_bases(classes, type_info, buffer, depth);
	slot = gm_map_find(&classes->traits, type_info);
	*slot = traits;
	return traits;
}

/* "torch::autograd::generated::AddmmBackward0" -> "AddmmBackward0"; template arguments stay
 * complete. */
static char *last_component(char *name)
{
	unsigned depth = 0;
	char *last = name;
	for (char *cursor = name; *cursor; cursor++) {
		if (*cursor == '<' || *cursor == '(')
			depth++;
		else if ((*cursor == '>' || *cursor == ')') && depth > 0)
			depth--;
		else if (depth == 0 && cursor[0] == ':' && cursor[1] == ':')
			last = cursor + 2;
	}
	memmove(name, last, strlen(last) + 1);
	return name;
}

static struct gm_class *class_create(struct gm_classes *classes, uint64_t vtable)
{
	uint64_t words[2]; /* offset to top, type_info */
	char buffer[MAX_NAME];
	if (!in_read_only_data(classes, vtable) ||
	        !gm_image_try_read(classes->image, vtable - 16, words, sizeof(words)) ||
	        words[0] != 0 || !in_read_only_data(classes, words[1]))
		return NULL;
	uint64_t own;
	if (!gm_image_try_u64(classes->image, words[1], &own) || own == 0 ||
	        (own != classes->type_info_plain && own != classes->type_info_single &&
	                own != classes->type_info_multiple))
		return NULL;
	if (!read_name(classes, words[1], buffer))
		return NULL;
	struct gm_class *class = calloc(1, sizeof(*class));
	if (!class)
		return NULL;
	class->linkage_name = strdup(buffer);
	class->vtable = vtable;
	uint32_t traits = traits_with_bases(classes, words[1], buffer, 0);
	class->kind = (enum gm_class_kind)(traits & TRAIT_KIND);
	class->view_meta = traits & TRAIT_VIEW_META;
	class->python_node = traits & TRAIT_PYTHON_NODE;
	class->accumulate_grad = traits & TRAIT_ACCUMULATE;
	class->undefined = traits & TRAIT_UNDEFINED;
	if (!class->linkage_name || !gm_array_push(&classes->classes, class)) {
		free(class->linkage_name);
		free(class);
		return NULL;
	}
	return class;
}

const char *gm_class_name(const struct gm_class *class)
{
	struct gm_class *known = (struct gm_class *)(uintptr_t) class;
	int status;
	if (!known->name) {
		known->name = __cxa_demangle(known->linkage_name, NULL, NULL, &status);
		if (!known->name && status == -1) /* no memory */
			gm_allocation_note_failure();
		if (known->name && known->kind == GM_CLASS_NODE)
			last_component(known->name);
	}
	return known->name ? known->name : known->linkage_name;
}

const struct gm_class *gm_classes_at(struct gm_classes *classes, uint64_t vtable)
{
	uint64_t *known = gm_map_find(&classes->by_vtable, vtable);
	if (known)
		return *known ? classes->classes.items[*known - 1] : NULL;
	if (classes->by_vtable.count >= MAX_CLASSES)
		return NULL;
	struct gm_class *class = class_create(classes, vtable);
	uint64_t *slot = gm_map_put(&classes->by_vtable, vtable, NULL);
	if (slot && class)
		*slot = classes->classes.count;
	return slot ? class : NULL;
}
