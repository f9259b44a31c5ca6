#include "torch/classes.h"

#include "torch/slots.h"

#include <stdlib.h>
#include <string.h>

enum {
	SHORT_NAME = 128,
	MAX_NAME = 4096, /* of a mangled name; templates make long ones */
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
	return address + 16; /* past offset-to-top and type_info */
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
		gm_slots_destroy(classes->classes.items[i]->slots);
		free(classes->classes.items[i]);
	}
	gm_array_deinit(&classes->classes);
	gm_map_deinit(&classes->by_vtable);
}

/* vtables and type_info live in a file's data that is read-only after relocation. */
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
	if (buffer[0] == '*') /* a name that is compared by address only */
		memmove(buffer, buffer + 1, strlen(buffer));
	return buffer[0] != 0;
}

/* Notes what the class at `type_info` is known as, then looks at its bases. */
static void classify(struct gm_classes *classes, uint64_t type_info, struct gm_class *class,
        char *buffer, unsigned depth)
{
	uint64_t own;
	if (depth > MAX_DEPTH || !in_read_only_data(classes, type_info) ||
	        !gm_image_try_u64(classes->image, type_info, &own) ||
	        !read_name(classes, type_info, buffer))
		return;
	for (size_t i = 0; i < sizeof(known_bases) / sizeof(known_bases[0]); i++)
		if (strcmp(buffer, known_bases[i].name) == 0)
			class->kind = known_bases[i].kind;
	if (strcmp(buffer, "N5torch8autograd22DifferentiableViewMetaE") == 0)
		class->view_meta = true;
	else if (strcmp(buffer, "N5torch8autograd6PyNodeE") == 0)
		class->python_node = true;
	else if (strcmp(buffer, "N5torch8autograd14AccumulateGradE") == 0)
		class->accumulate_grad = true;
	else if (strcmp(buffer, "N3c1019UndefinedTensorImplE") == 0)
		class->undefined = true;
	if (class->kind != GM_CLASS_OTHER && class->kind != GM_CLASS_META &&
	        class->kind != GM_CLASS_NODE)
		return;

	uint64_t base;
	if (own == classes->type_info_single) {
		if (gm_image_try_u64(classes->image, type_info + 16, &base))
			classify(classes, base, class, buffer, depth + 1);
	} else if (own == classes->type_info_multiple) {
		uint32_t count = 0;
		if (!gm_image_try_u32(classes->image, type_info + 20, &count))
			return;
		for (uint32_t i = 0; i < count && i < MAX_BASES; i++) {
			if (gm_image_try_u64(
			            classes->image, type_info + 24 + 16 * (uint64_t)i, &base))
				classify(classes, base, class, buffer, depth + 1);
		}
	}
}

/* "torch::autograd::generated::AddmmBackward0" -> "AddmmBackward0"; template arguments are kept whole. */
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
	class->kind = GM_CLASS_OTHER;
	classify(classes, words[1], class, buffer, 0);
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
