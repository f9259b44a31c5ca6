#include "sim/machine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct gm_error *gm_sim_machine_make(char **ret)
{
	int file = memfd_create("gpumem-sim-machine", 0);
	struct gm_sim_machine *machine = MAP_FAILED;
	struct stat status;
	if (file >= 0 && ftruncate(file, sizeof(*machine)) == 0 && fstat(file, &status) == 0)
		machine = mmap(NULL, sizeof(*machine), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (machine == MAP_FAILED) {
		int code = errno;
		if (file >= 0)
			close(file);
		return gm_error_os(GM_TARGET, code,
		        "run: --sim: the processes of a run share a file of %zu bytes in memory, "
		        "which "
		        "cannot be made",
		        sizeof(*machine));
	}
	pthread_mutexattr_t attributes;
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&machine->lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
	machine->magic = GM_SIM_MACHINE_MAGIC;
	munmap(machine, sizeof(*machine));
	if (asprintf(ret, "%d:%d:%" PRIu64, (int)getpid(), file, (uint64_t)status.st_ino) < 0)
		return &gm_error_no_memory;
	return NULL;
}
