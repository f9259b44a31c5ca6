/* Errors: of a communicator, and the last one of this thread. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "sim/nccl/nccl.h"

static _Thread_local char last_error[256];

const char *gm_nccl_last_error(void)
{
	return last_error;
}

void gm_nccl_remember(const char *message)
{
	if (*message)
		snprintf(last_error, sizeof(last_error), "%s", message);
}

ncclResult_t gm_nccl_fail(struct ncclComm *comm, ncclResult_t code, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(last_error, sizeof(last_error), format, arguments);
	va_end(arguments);
	int none = ncclSuccess;
	if (!comm) {
		gm_sim_say("NCCL: %s", last_error);
	} else if (atomic_compare_exchange_strong(&comm->error, &none, code)) {
		memcpy(comm->message, last_error, sizeof(comm->message));
		gm_sim_say("NCCL: rank %d of %d: %s", comm->rank, comm->ranks, last_error);
	}
	return code;
}
