/* What a device has beside the terms of shardings. */
#ifndef GM_ASK_ZERO_DEVICES_H
#define GM_ASK_ZERO_DEVICES_H

#include "ask/zero/facts.h"
#include "base/map.h"

/* storages: of the terms of all shardings. False: no memory. */
bool gm_zero_devices(struct gm_torch *torch, const struct gm_map *storages,
        struct gm_zero_device **ret_devices, size_t *ret_count);

#endif
