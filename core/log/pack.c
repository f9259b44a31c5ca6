#include "log/pack.h"

#include <stdlib.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "log/format.h"

enum { LEVEL = 3 };

struct gm_packer {
	ZSTD_CCtx *context;
	GM_ARRAY(uint8_t) out;
};

struct gm_packer *gm_packer_create(void)
{
	struct gm_packer *packer = calloc(1, sizeof(*packer));
	if (packer && !(packer->context = ZSTD_createCCtx())) {
		free(packer);
		packer = NULL;
	}
	return packer;
}

void gm_packer_destroy(struct gm_packer *packer)
{
	if (!packer)
		return;
	ZSTD_freeCCtx(packer->context);
	gm_array_deinit(&packer->out);
	free(packer);
}

const uint8_t *gm_packer_pack(
        struct gm_packer *packer, const uint8_t *bytes, size_t size, size_t *ret_size)
{
	packer->out.count = 0;
	if (!gm_array_reserve(&packer->out, ZSTD_compressBound(size)))
		return NULL;
	size_t packed = ZSTD_compressCCtx(
	        packer->context, packer->out.items, ZSTD_compressBound(size), bytes, size, LEVEL);
	if (ZSTD_isError(packed) || packed >= size || size > packed * GM_PACK_MOST)
		return NULL;
	*ret_size = packed;
	return packer->out.items;
}

const char *gm_unpack(
        const uint8_t *bytes, size_t size, struct gm_unpacked *unpacked, bool *ret_no_memory)
{
	unsigned long long whole = ZSTD_getFrameContentSize(bytes, size);
	if (whole > GM_CHUNK_MAX ||
	        whole > size * GM_PACK_MOST) /* an unknown value is greater, too */
		return "it is not a packed payload, or too long";
	if (!unpacked->context)
		unpacked->context = ZSTD_createDCtx();
	if (!unpacked->context || !gm_array_grow((void **)&unpacked->bytes, &unpacked->capacity, 0,
	                                  (size_t)whole + 1, 1)) {
		*ret_no_memory = true;
		return "no memory";
	}
	size_t got =
	        ZSTD_decompressDCtx(unpacked->context, unpacked->bytes, (size_t)whole, bytes, size);
	if (ZSTD_isError(got) || got != whole)
		return "its packed payload is damaged";
	unpacked->size = got;
	return NULL;
}

void gm_unpacked_deinit(struct gm_unpacked *unpacked)
{
	ZSTD_freeDCtx(unpacked->context);
	free(unpacked->bytes);
	*unpacked = (struct gm_unpacked){0};
}
