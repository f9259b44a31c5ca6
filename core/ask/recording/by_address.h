/* The blocks of a recording by address: which one was at an address at a moment. Internal to
 * core/ask. */
#ifndef GM_ASK_BY_ADDRESS_H
#define GM_ASK_BY_ADDRESS_H

#include "model/model.h"

struct gm_by_address_entry {
	uint64_t address;
	uint32_t alloc, block;
};
struct gm_by_address {
	const struct gm_model *model;
	struct gm_by_address_entry *entries; /* at one address in the order of their lives */
	size_t count;
};

/* The model must outlive it. */
struct gm_error *gm_by_address_init(struct gm_by_address *by_address, const struct gm_model *model);
void gm_by_address_deinit(struct gm_by_address *by_address);
/* The block that begins at an address and was alive before an event; GM_NO_BLOCK: there is none. */
uint32_t gm_block_at_address(
        const struct gm_by_address *by_address, uint64_t address, uint32_t event);

#endif
