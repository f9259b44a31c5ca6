/* Zeros that need not be written, since memory that nobody has written reads as zero. */
#ifndef GM_SIM_ZEROS_H
#define GM_SIM_ZEROS_H

#include <stdbool.h>
#include <stdint.h>

struct gm_sim_device;

/* Fewer bytes are written: a system call costs more. */
enum { GM_SIM_ZEROS = 64 << 10 };

/* Makes memory of the host zero. Pages that are zero already are only read. */
void gm_sim_zeros_write(void *to, uint64_t size);

/*
 * The length of the next part of a copy to `offset` of a device's file: *ret_zeros says whether it
 * consists of whole pages of zeros, at least GM_SIM_ZEROS bytes.
 */
uint64_t gm_sim_zeros_in_source(const void *from, uint64_t size, uint64_t offset, bool *ret_zeros);

/* Copies bytes of a device to the host, except for the holes of its file. */
void gm_sim_zeros_read(
        const struct gm_sim_device *device, void *to, uint64_t offset, uint64_t size);

#endif
