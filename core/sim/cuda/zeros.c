/*
 * Copies of zeros take no memory of the host.
 *
 * Most of what a simulated program computes is zeros that were never computed. A program that
 * moves activations to the host and back copies gigabytes of them. Memory that nobody has written
 * reads as zero: a page of it that is only read takes no memory, neither of the device's file nor
 * of the program's own.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "sim/cuda/sim.h"
#include "sim/cuda/zeros.h"

enum { HOST_PAGE = 4096 };

static bool is_zeros(const unsigned char *at, uint64_t size)
{
	return !at[0] && !memcmp(at, at + 1, size - 1);
}

void gm_sim_zeros_write(void *to, uint64_t size)
{
	unsigned char *at = to, *end = at + size;
	while (at < end) {
		uint64_t n = HOST_PAGE - (uintptr_t)at % HOST_PAGE;
		if (n > (uint64_t)(end - at))
			n = (uint64_t)(end - at);
		if (!is_zeros(at, n))
			memset(at, 0, n);
		at += n;
	}
}

uint64_t gm_sim_zeros_in_source(const void *from, uint64_t size, uint64_t offset, bool *ret_zeros)
{
	const unsigned char *bytes = from;
	uint64_t start = -offset % HOST_PAGE, at = start; /* zeros: from start to at */
	for (; at + HOST_PAGE <= size; at += HOST_PAGE) {
		if (is_zeros(bytes + at, HOST_PAGE))
			continue;
		if (at - start >= GM_SIM_ZEROS)
			break;
		start = at + HOST_PAGE;
	}
	bool found = at >= start + GM_SIM_ZEROS;
	*ret_zeros = found && start == 0;
	return !found ? size : start ? start : at;
}

/* The length of the next part of a device's file: *ret_zeros says whether it is a hole. */
static uint64_t next_part(int file, uint64_t offset, uint64_t size, bool *ret_zeros)
{
	*ret_zeros = false;
	if (size < GM_SIM_ZEROS)
		return size;
	off_t next = lseek(file, (off_t)offset, SEEK_DATA);
	if (next < 0 && errno != ENXIO)
		return size;
	*ret_zeros = next < 0 || (uint64_t)next > offset;
	if (!*ret_zeros)
		next = lseek(file, (off_t)offset, SEEK_HOLE);
	return next < 0 || (uint64_t)next - offset > size ? size : (uint64_t)next - offset;
}

void gm_sim_zeros_read(const struct gm_sim_device *device, void *to, uint64_t offset, uint64_t size)
{
	for (uint64_t n, done = 0; done < size; done += n) {
		unsigned char *at = (unsigned char *)to + done;
		bool zeros;
		n = next_part(device->memory, offset + done, size - done, &zeros);
		if (zeros)
			gm_sim_zeros_write(at, n);
		else
			memcpy(at, device->base + offset + done, n);
	}
}
