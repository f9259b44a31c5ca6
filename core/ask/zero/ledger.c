#include "ask/zero/ledger.h"

void gm_zero_ledger_deinit(struct gm_zero_ledger *ledger)
{
	gm_map_deinit(&ledger->storages);
	for (int part = 0; part < GM_ZERO_PART_COUNT; part++)
		gm_map_deinit(&ledger->tensors[part]);
}

bool gm_zero_ledger_add(struct gm_zero_ledger *ledger, struct gm_zero_sharding *sharding,
        enum gm_zero_part part, const struct gm_tensor *tensor, uint64_t *ret_bytes)
{
	struct gm_zero_term *term = &sharding->terms[part];
	struct gm_storage storage;
	uint64_t bytes = gm_zero_tensor_bytes(tensor);
	bool is_new = false;
	if (!gm_map_put(&ledger->tensors[part], tensor->address, &is_new))
		ledger->no_memory = true;
	if (!is_new)
		return false;
	if (!gm_torch_storage(ledger->torch, tensor->storage, &storage)) {
		sharding->unread++;
		return false;
	}
	uint64_t *counted = gm_map_put(&ledger->storages, storage.address, &is_new);
	if (!counted) {
		ledger->no_memory = true;
		return false;
	}
	if (is_new) {
		*counted = (uint64_t)part + 1;
		term->storages++;
		term->bytes += storage.size;
		if (ledger->on_device && storage.device_type == GM_DEVICE_CPU)
			term->host_bytes += storage.size;
	}
	term->tensors++;
	if (*counted == (uint64_t)part + 1)
		ledger->claimed[part] += bytes;
	else
		term->differences[GM_ZERO_SHARED] -= (int64_t)bytes;
	*ret_bytes = bytes;
	return true;
}

void gm_zero_ledger_close(struct gm_zero_ledger *ledger, struct gm_zero_sharding *sharding)
{
	for (int part = 0; part < GM_ZERO_PART_COUNT; part++) {
		struct gm_zero_term *term = &sharding->terms[part];
		term->differences[GM_ZERO_REST] += (int64_t)(term->bytes - ledger->claimed[part]);
	}
}
