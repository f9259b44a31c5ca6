/*
 * The bytes of a device: which were written, and copies between them.
 *
 * Bytes that were never written read as zero and have no host memory. Reading them through the
 * mapping would allocate some (a read fault fills a shared file's hole), so every reader here uses
 * the `written` bits and does not touch unwritten parts. So a copy of a gigabyte from a tensor that
 * only kernels "computed" is free.
 */
#include <fcntl.h>
#include <string.h>

#include "sim/cuda/sim.h"
#include "sim/cuda/zeros.h"

enum {
	GRANULES_A_CHUNK = GM_SIM_PAGE / GM_SIM_GRANULE,
	HOST_PAGE = 4096,
};

static bool bit(const _Atomic uint64_t *bits, uint64_t n)
{
	return atomic_load_explicit(&bits[n / 64], memory_order_relaxed) >> (n % 64) & 1;
}

/* Sets or clears the bits [from, to). Threads share words, so every change is atomic. */
static void change(_Atomic uint64_t *bits, uint64_t from, uint64_t to, bool set)
{
	while (from < to) {
		uint64_t first = from % 64, n = 64 - first;
		if (n > to - from)
			n = to - from;
		uint64_t mask = (n == 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1) << first;
		_Atomic uint64_t *word = &bits[from / 64];
		if (set) {
			if ((atomic_load_explicit(word, memory_order_relaxed) & mask) != mask)
				atomic_fetch_or_explicit(word, mask, memory_order_relaxed);
		} else if (atomic_load_explicit(word, memory_order_relaxed) & mask) {
			atomic_fetch_and_explicit(word, ~mask, memory_order_relaxed);
		}
		from += n;
	}
}

/*
 * The next run of equal granules in [from, to): returns its end, *ret_written its kind. Skips whole
 * words, and whole chunks without written bytes.
 */
static uint64_t run(struct gm_sim_device *device, uint64_t from, uint64_t to, bool *ret_written)
{
	bool kind = bit(device->chunks, from / GRANULES_A_CHUNK) && bit(device->written, from);
	*ret_written = kind;
	uint64_t at = from;
	while (at < to) {
		if (!bit(device->chunks, at / GRANULES_A_CHUNK)) {
			if (kind)
				break;
			at = (at / GRANULES_A_CHUNK + 1) * GRANULES_A_CHUNK;
			continue;
		}
		uint64_t word =
		        atomic_load_explicit(&device->written[at / 64], memory_order_relaxed);
		if (kind)
			word = ~word;
		word >>= at % 64;
		if (word) {
			at += (uint64_t)__builtin_ctzll(word);
			break;
		}
		at = (at / 64 + 1) * 64;
	}
	return at < to ? at : to;
}

static void mark_range(struct gm_sim_device *device, const void *to, uint64_t size)
{
	if (!size)
		return;
	uint64_t offset = (uint64_t)((const unsigned char *)to - device->base);
	uint64_t first = offset / GM_SIM_GRANULE, end = (offset + size - 1) / GM_SIM_GRANULE + 1;
	change(device->chunks, first / GRANULES_A_CHUNK, (end - 1) / GRANULES_A_CHUNK + 1, true);
	change(device->written, first, end, true);
	change(device->doubtful, first, end, false);
}

/* Marks the written bytes there as computed from unwritten ones. */
static void doubt_range(struct gm_sim_device *device, const void *to, uint64_t size)
{
	if (!size)
		return;
	uint64_t offset = (uint64_t)((const unsigned char *)to - device->base);
	change(device->doubtful, offset / GM_SIM_GRANULE, (offset + size - 1) / GM_SIM_GRANULE + 1,
	        true);
}

static bool range_doubtful(struct gm_sim_device *device, const void *at, uint64_t size)
{
	uint64_t offset = (uint64_t)((const unsigned char *)at - device->base);
	uint64_t end = size ? (offset + size - 1) / GM_SIM_GRANULE + 1 : 0;
	for (uint64_t n = offset / GM_SIM_GRANULE; n < end;) {
		if (n % 64 == 0 && n + 64 <= end &&
		        !atomic_load_explicit(&device->doubtful[n / 64], memory_order_relaxed)) {
			n += 64;
			continue;
		}
		if (bit(device->doubtful, n++))
			return true;
	}
	return false;
}

static bool range_written(struct gm_sim_device *device, const void *at, uint64_t size)
{
	uint64_t offset = (uint64_t)((const unsigned char *)at - device->base);
	uint64_t last = (offset + size - 1) / GM_SIM_GRANULE + 1;
	bool written;
	return run(device, offset / GM_SIM_GRANULE, last, &written) == last && written;
}

/* Zeros the written bytes: if they are enough whole pages, these are returned to the system. */
static void wipe(struct gm_sim_device *device, uint64_t offset, uint64_t size)
{
	uint64_t first = (offset + HOST_PAGE - 1) & ~(uint64_t)(HOST_PAGE - 1);
	uint64_t end = (offset + size) & ~(uint64_t)(HOST_PAGE - 1);
	if (end > first && end - first >= GM_SIM_ZEROS &&
	        fallocate(device->memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first,
	                (off_t)(end - first)) == 0) {
		memset(device->base + offset, 0, first - offset);
		memset(device->base + end, 0, offset + size - end);
		return;
	}
	memset(device->base + offset, 0, size);
}

static void zero_range(struct gm_sim_device *device, void *to, uint64_t size)
{
	if (!size)
		return;
	uint64_t offset = (uint64_t)((unsigned char *)to - device->base), end = offset + size;
	uint64_t last = (end - 1) / GM_SIM_GRANULE + 1;
	for (uint64_t at = offset / GM_SIM_GRANULE; at < last;) {
		bool written;
		uint64_t next = run(device, at, last, &written);
		if (written) {
			uint64_t from = at * GM_SIM_GRANULE, until = next * GM_SIM_GRANULE;
			if (from < offset)
				from = offset;
			if (until > end)
				until = end;
			wipe(device, from, until - from);
			if (until - from > GM_SIM_SMALL)
				gm_sim_host_capacity_give(until - from);
		}
		at = next;
	}
	/* A granule that is partly outside keeps its mark: the rest of it may have content. */
	uint64_t whole = (offset + GM_SIM_GRANULE - 1) / GM_SIM_GRANULE,
	         whole_end = end / GM_SIM_GRANULE;
	if (whole >= whole_end)
		return;
	uint64_t chunk = whole / GRANULES_A_CHUNK,
	         chunk_end = (whole_end - 1) / GRANULES_A_CHUNK + 1;
	for (; chunk < chunk_end; chunk++) {
		if (!bit(device->chunks, chunk))
			continue;
		uint64_t from = chunk * GRANULES_A_CHUNK, until = from + GRANULES_A_CHUNK;
		/*
		 * The chunk's bit is cleared only if the whole chunk is cleared here: another
		 * thread may be marking the rest, and a mark without the chunk's bit would be lost.
		 */
		bool all = from >= whole && until <= whole_end;
		change(device->written, from < whole ? whole : from,
		        until > whole_end ? whole_end : until, false);
		if (all)
			change(device->chunks, chunk, chunk + 1, false);
	}
}

/* False if the host has no memory for the bytes: then they count as never written. */
static bool take_capacity(struct gm_sim_device *device, void *to, uint64_t size)
{
	if (size <= GM_SIM_SMALL)
		return true;
	uint64_t offset = (uint64_t)((unsigned char *)to - device->base), more = 0;
	uint64_t last = (offset + size - 1) / GM_SIM_GRANULE + 1;
	for (uint64_t at = offset / GM_SIM_GRANULE; at < last;) {
		bool written;
		uint64_t next = run(device, at, last, &written);
		if (!written)
			more += (next - at) * GM_SIM_GRANULE;
		at = next;
	}
	if (gm_sim_host_capacity_take(more))
		return true;
	zero_range(device, to, size);
	return false;
}

static void copy_in_range(struct gm_sim_device *device, void *to, const void *from, uint64_t size)
{
	uint64_t offset = (uint64_t)((unsigned char *)to - device->base);
	for (uint64_t n, done = 0; done < size; done += n) {
		unsigned char *at = (unsigned char *)to + done;
		const unsigned char *source = (const unsigned char *)from + done;
		bool zeros;
		n = gm_sim_zeros_in_source(source, size - done, offset + done, &zeros);
		if (zeros)
			zero_range(device, at, n);
		if (!take_capacity(device, at, n))
			continue;
		mark_range(device, at, n);
		if (!zeros)
			memcpy(at, source, n);
	}
}

static void report_read_back(struct gm_sim_device *device, uint64_t bytes)
{
	static _Atomic bool said;
	GM_SIM_COUNT(gpumem_sim_account.read_back, bytes);
	if (!atomic_exchange(&said, true))
		gm_sim_say("values read back from the simulated device were never computed: they "
		           "are zero, or depend on such values (device %u; reported once, counted)",
		        device->index);
}

/* Copies to the host; returns how many of the bytes were never written. */
static uint64_t take_range(struct gm_sim_device *device, void *to, const void *from, uint64_t size)
{
	uint64_t offset = (uint64_t)((const unsigned char *)from - device->base),
	         end = offset + size;
	uint64_t last = size ? (end - 1) / GM_SIM_GRANULE + 1 : 0, unwritten = 0;
	for (uint64_t at = offset / GM_SIM_GRANULE; at < last;) {
		bool written;
		uint64_t next = run(device, at, last, &written);
		uint64_t first = at * GM_SIM_GRANULE, until = next * GM_SIM_GRANULE;
		if (first < offset)
			first = offset;
		if (until > end)
			until = end;
		unsigned char *target = (unsigned char *)to + (first - offset);
		if (written) {
			gm_sim_zeros_read(device, target, first, until - first);
			if (range_doubtful(device, device->base + first, until - first))
				unwritten += until - first;
		} else {
			gm_sim_zeros_write(target, until - first);
			unwritten += until - first;
		}
		at = next;
	}
	return unwritten;
}

static void copy_out_range(struct gm_sim_device *device, void *to, const void *from, uint64_t size)
{
	uint64_t unwritten = take_range(device, to, from, size);
	if (unwritten)
		report_read_back(device, unwritten);
}

static void copy_across_range(struct gm_sim_device *to_device, void *to,
        struct gm_sim_device *from_device, const void *from, uint64_t size)
{
	uintptr_t a = (uintptr_t)to, b = (uintptr_t)from;
	if (a == b || !size)
		return;
	if (a < b + size && b < a + size) {
		mark_range(to_device, to, size);
		memmove(to, from, size);
		return;
	}
	uint64_t offset = (uint64_t)((const unsigned char *)from - from_device->base),
	         end = offset + size;
	uint64_t last = (end - 1) / GM_SIM_GRANULE + 1;
	for (uint64_t at = offset / GM_SIM_GRANULE; at < last;) {
		bool written;
		uint64_t next = run(from_device, at, last, &written);
		uint64_t first = at * GM_SIM_GRANULE, until = next * GM_SIM_GRANULE;
		if (first < offset)
			first = offset;
		if (until > end)
			until = end;
		unsigned char *target = (unsigned char *)to + (first - offset);
		if (written) {
			copy_in_range(to_device, target, from_device->base + first, until - first);
			if (range_written(to_device, target, until - first) &&
			        range_doubtful(
			                from_device, from_device->base + first, until - first))
				doubt_range(to_device, target, until - first);
		} else {
			zero_range(to_device, target, until - first);
		}
		at = next;
	}
}

static void fill_range(struct gm_sim_device *device, void *to, int value, uint64_t size)
{
	if ((value & 0xff) == 0) {
		zero_range(device, to, size);
		/*
		 * Zero is then a value that was set. But memory that reads as zero anyway is marked
		 * only if it is small: marking it without writing would allocate host pages when it
		 * is read.
		 */
		if (size <= 1 << 20)
			mark_range(device, to, size);
		return;
	}
	if (!take_capacity(device, to, size))
		return;
	mark_range(device, to, size);
	memset(to, value, size);
}

/*
 * The public calls. An address in a mapping of the virtual-memory calls stands for a part of the
 * device's own mapping; a range is processed part by part. (Both mappings show the same bytes; the
 * bits exist only for the device's.)
 */
static unsigned char *own(
        struct gm_sim_device *device, const void *address, uint64_t size, uint64_t *ret_size)
{
	struct gm_sim_view view = {.at = (unsigned char *)(uintptr_t)address, .size = size};
	if ((uintptr_t)address - (uintptr_t)device->base >= device->span &&
	        !gm_sim_vmm_find(address, &view))
		view.size = 0; /* another thread unmapped it meanwhile: nothing to do */
	*ret_size = view.size < size ? view.size : size;
	return view.at;
}

#define EACH_RANGE(address, call)                                                                 \
	for (uint64_t n, done = 0; done < size; done += n) {                                      \
		unsigned char *at = own(device, (const char *)(address) + done, size - done, &n); \
		if (!n)                                                                           \
			return;                                                                   \
		call;                                                                             \
	}

void gm_sim_data_computed(struct gm_sim_device *device, const void *to, uint64_t size, bool known)
{
	EACH_RANGE(to, {
		mark_range(device, at, n);
		if (!known)
			doubt_range(device, at, n);
	})
}

void gm_sim_data_stale(struct gm_sim_device *device, const void *address, uint64_t size)
{
	EACH_RANGE(address, {
		uint64_t first = (uint64_t)(at - device->base) / GM_SIM_GRANULE;
		uint64_t last = ((uint64_t)(at - device->base) + n - 1) / GM_SIM_GRANULE + 1;
		bool written;
		/* Activations, which nothing ever writes, are skipped by whole chunks. */
		if (run(device, first, last, &written) < last || written)
			doubt_range(device, at, n);
	})
}

bool gm_sim_data_known(
        struct gm_sim_device *device, const void *address, uint64_t size, bool *ret_unwritten)
{
	bool known = true;
	for (uint64_t n, done = 0; done < size; done += n) {
		unsigned char *at = own(device, (const char *)address + done, size - done, &n);
		if (!n || !range_written(device, at, n)) {
			*ret_unwritten = true;
			return false;
		}
		known = known && !range_doubtful(device, at, n);
	}
	return known;
}

/* For the agent, which looks up this function (account.h). */
GM_SIM_EXPORT bool gpumem_sim_computed(const void *address, uint64_t size)
{
	struct gm_sim_device *device = size ? gm_sim_device_of(address) : NULL;
	bool unwritten = false;
	return device && gm_sim_data_known(device, address, size, &unwritten);
}

void gm_sim_data_zero(struct gm_sim_device *device, void *to, uint64_t size)
{
	EACH_RANGE(to, zero_range(device, at, n))
}

void gm_sim_data_in(struct gm_sim_device *device, void *to, const void *from, uint64_t size)
{
	EACH_RANGE(to, copy_in_range(device, at, (const char *)from + done, n))
}

void gm_sim_data_out(struct gm_sim_device *device, void *to, const void *from, uint64_t size)
{
	EACH_RANGE(from, copy_out_range(device, (char *)to + done, at, n))
}

static bool any_written(struct gm_sim_device *device, const void *from, uint64_t size)
{
	uint64_t offset = (uint64_t)((const unsigned char *)from - device->base);
	uint64_t first = offset / GM_SIM_GRANULE, last = (offset + size - 1) / GM_SIM_GRANULE + 1;
	bool written;
	return size && (run(device, first, last, &written) < last || written);
}

uint64_t gm_sim_data_written(struct gm_sim_device *device, const void *from, uint64_t size)
{
	uint64_t sum = 0;
	for (uint64_t n, done = 0; done < size; done += n) {
		unsigned char *at = own(device, (const char *)from + done, size - done, &n);
		if (!n)
			break;
		uint64_t offset = (uint64_t)(at - device->base);
		uint64_t last = (offset + n - 1) / GM_SIM_GRANULE + 1;
		for (uint64_t granule = offset / GM_SIM_GRANULE; granule < last;) {
			bool written;
			uint64_t next = run(device, granule, last, &written);
			if (written)
				sum += (next - granule) * GM_SIM_GRANULE;
			granule = next;
		}
	}
	return sum;
}

bool gm_sim_data_peek(struct gm_sim_device *device, void *to, const void *from, uint64_t size)
{
	bool any = false;
	for (uint64_t n, done = 0; done < size; done += n) {
		unsigned char *at = own(device, (const char *)from + done, size - done, &n);
		if (!n)
			return any;
		if (any_written(device, at, n)) {
			if (!any)
				memset(to, 0, done);
			any = true;
		}
		if (any)
			take_range(device, (char *)to + done, at, n);
	}
	return any;
}

void gm_sim_data_fill(struct gm_sim_device *device, void *to, int value, uint64_t size)
{
	EACH_RANGE(to, fill_range(device, at, value, n))
}

void gm_sim_data_across(struct gm_sim_device *to_device, void *to,
        struct gm_sim_device *from_device, const void *from, uint64_t size)
{
	struct gm_sim_device *device = to_device;
	EACH_RANGE(to, {
		uint64_t both;
		unsigned char *source = own(from_device, (const char *)from + done, n, &both);
		if (!both)
			return;
		n = both;
		copy_across_range(to_device, at, from_device, source, n);
	})
}
