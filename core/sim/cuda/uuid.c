/* The identity of a device. */
#include <stdio.h>
#include <string.h>

#include "sim/cuda/sim.h"

/* A UUID that is the same in every run, differs between devices and spells its origin in
 * hexadecimal. */
void gm_sim_uuid(const struct gm_sim_profile *profile, uint32_t physical, unsigned char ret[16])
{
	memcpy(ret, "gpumem-sim\0\0\0\0\0", 16);
	ret[14] = (unsigned char)profile->column;
	ret[15] = (unsigned char)physical;
}

void gm_sim_uuid_text(
        const struct gm_sim_profile *profile, uint32_t physical, char ret[GM_SIM_UUID_TEXT])
{
	unsigned char uuid[16];
	gm_sim_uuid(profile, physical, uuid);
	char *at = stpcpy(ret, "GPU-");
	for (int i = 0; i < 16; i++)
		at += sprintf(
		        at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}
