#include "cpython/versions/versions.h"

#include <string.h>

#define VERSION(tag, hex)                                                           \
	{                                                                           \
		hex, &gm_python_layout_##tag, gm_opcodes_##tag, gm_published_##tag, \
		        &gm_script_##tag                                            \
	}

/* A new version is added here, and to GM_PYTHON_VERSIONS: versions are listed nowhere else. */
static const struct gm_python_tables all[] = {
        VERSION(309, 0x0309),
        VERSION(310, 0x030a),
        VERSION(311, 0x030b),
        VERSION(312, 0x030c),
        VERSION(313, 0x030d),
        VERSION(314, 0x030e),
        VERSION(315, 0x030f),
};

const struct gm_python_tables *gm_python_tables_of(int version)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i].version == version)
			return &all[i];
	}
	return NULL;
}

const struct gm_python_tables *gm_python_tables_all(size_t *ret_count)
{
	*ret_count = sizeof(all) / sizeof(all[0]);
	return all;
}

void gm_python_put_published(const struct gm_python_tables *tables, struct gm_python_layout *layout,
        const uint8_t *bytes)
{
	enum { STRUCT_MOST = 8 << 20 };
	const int32_t chunk = layout->thread_chunk, gc = layout->interpreter_gc;
	const struct gm_published_field *field;

	if (memcmp(bytes, "xdebugpy", 8) != 0)
		return;
	for (field = tables->published; field->size_at; field++) {
		uint64_t offset, size;
		memcpy(&offset, bytes + field->at, 8);
		memcpy(&size, bytes + field->size_at, 8);
		if (offset >= size || size > STRUCT_MOST)
			return;
	}
	for (field = tables->published; field->size_at; field++) {
		uint64_t offset;
		memcpy(&offset, bytes + field->at, 8);
		*(int32_t *)(void *)((char *)layout + field->field) = (int32_t)offset;
	}
	/* later fields of the same struct move with them */
	layout->thread_chunk_top += layout->thread_chunk - chunk;
	layout->thread_chunk_limit += layout->thread_chunk - chunk;
	layout->interpreter_generations += layout->interpreter_gc - gc;
	layout->interpreter_permanent += layout->interpreter_gc - gc;
}
