#include "base/allocation.h"

#include <errno.h>
#include <stdatomic.h>

static atomic_bool has_failed;

bool gm_allocation_failed(void)
{
	return atomic_load_explicit(&has_failed, memory_order_relaxed);
}

void gm_allocation_forget(void)
{
	atomic_store_explicit(&has_failed, false, memory_order_relaxed);
}

void gm_allocation_note_failure(void)
{
	atomic_store_explicit(&has_failed, true, memory_order_relaxed);
}

void gm_allocation_watch(void)
{
	errno = 0;
}

void gm_allocation_watched(void)
{
	if (errno == ENOMEM)
		gm_allocation_note_failure();
}
