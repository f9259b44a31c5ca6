/* The memory of the devices that all processes of one run hold together (sim/machine.h). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "sim/cuda/sim.h"
#include "sim/machine.h"

static struct gm_sim_machine *machine;
static struct gm_sim_machine_process *own;
static uint64_t identity;

/* What tells a process from another of the same number, and a program from that before exec(). */
struct look {
	uint64_t start;   /* 0: it does not exist, or is dead and not yet waited for */
	uint32_t program; /* as in struct gm_sim_machine_process */
};

/* Fields of /proc/PID/stat (proc_pid_stat(5)). Those that exec() sets are 0 where this process may
 * not trace the other. */
enum { STARTTIME = 22, STARTCODE = 26, STARTSTACK = 28, ARG_START = 48, ENV_END = 51 };

static struct look look_at(uint32_t process)
{
	char path[64], text[1024];
	snprintf(path, sizeof(path), "/proc/%u/stat", process);
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
	struct look look = {0};
	if (file >= 0)
		close(file);
	if (n <= 0)
		return look;
	text[n] = 0;
	/* The name, which may contain anything, ends at the last parenthesis; after it is the
	 * state, field 3. */
	const char *at = strrchr(text, ')');
	if (!at || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X')
		return look;
	uint64_t where[ENV_END + 1] = {0};
	at++; /* the space before the field */
	for (int field = 3; field <= ENV_END && at; field++) {
		where[field] = strtoull(at + 1, NULL, 10);
		at = strchr(at + 1, ' ');
	}
	look.start = where[STARTTIME];
	if (where[STARTSTACK] > 1) {
		uint64_t hash = 0;
		for (int field = STARTCODE; field <= ENV_END; field++)
			if (field <= STARTSTACK || field >= ARG_START)
				hash = gm_hash_mix(hash + where[field]);
		look.program = (uint32_t)hash ? (uint32_t)hash : 1;
	}
	return look;
}

/*
 * False where the process has the page no longer: after exec() it is the same process, but what it
 * held is gone, and the new program need not use CUDA, or know of this library.
 */
static bool has_page(uint32_t process)
{
	char path[64], line[512];
	snprintf(path, sizeof(path), "/proc/%u/maps", process);
	FILE *file = fopen(path, "re");
	bool found = !file; /* of another user: not known */
	while (!found && fgets(line, sizeof(line), file)) {
		uint64_t inode;
		found = sscanf(line, "%*s %*s %*s %*s %" SCNu64, &inode) == 1 &&
		        inode == identity && strstr(line, "gpumem-sim-machine");
	}
	if (file)
		fclose(file);
	return found;
}

static bool take_lock(void)
{
	int code = pthread_mutex_lock(&machine->lock);
	if (code ==
	        EOWNERDEAD) /* each change is one word, so the state that it left is consistent */
		code = pthread_mutex_consistent(&machine->lock);
	return code == 0;
}

/* Looks into the memory map, which takes long, only of a process that may have another program. */
static bool is_gone(struct gm_sim_machine_process *process)
{
	struct look look = look_at(process->process);
	if (look.start != process->start)
		return true;
	if (look.program && look.program == process->program)
		return false;
	if (!has_page(process->process))
		return true;
	process->program = look.program;
	return false;
}

static void reap(void)
{
	for (size_t i = 0; i < GM_SIM_MACHINE_PROCESSES; i++) {
		struct gm_sim_machine_process *process = &machine->processes[i];
		if (process->process && process->process != (uint32_t)getpid() && is_gone(process))
			memset(process, 0, sizeof(*process));
	}
}

/* This process's entry, if it has one already. */
static struct gm_sim_machine_process *find_own(void)
{
	uint64_t start = look_at((uint32_t)getpid()).start;
	for (size_t i = 0; i < GM_SIM_MACHINE_PROCESSES; i++)
		if (machine->processes[i].process == (uint32_t)getpid() &&
		        machine->processes[i].start == start)
			return &machine->processes[i];
	return NULL;
}

/* After exec() the process is the same one, but the memory of the program before is gone. */
static void forget_before_exec(void)
{
	if (!take_lock())
		return;
	struct gm_sim_machine_process *entry = find_own();
	if (entry)
		memset(entry->bytes, 0, sizeof(entry->bytes));
	pthread_mutex_unlock(&machine->lock);
}

void gm_sim_share_start(void)
{
	const char *setting = getenv("GPUMEM_SIM_MACHINE");
	unsigned process;
	int number;
	uint64_t inode;
	char path[64];
	struct stat status;
	if (!setting || sscanf(setting, "%u:%d:%" SCNu64, &process, &number, &inode) != 3)
		return;
	snprintf(path, sizeof(path), "/proc/%u/fd/%d", process, number);
	int file = open(path, O_RDWR | O_CLOEXEC);
	if (file < 0)
		return; /* the first process has ended: each remaining one has its devices to itself
		         */
	struct gm_sim_machine *at = MAP_FAILED;
	if (fstat(file, &status) == 0 && status.st_ino == inode &&
	        status.st_size == (off_t)sizeof(*at))
		at = mmap(NULL, sizeof(*at), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (at == MAP_FAILED)
		return;
	if (at->magic != GM_SIM_MACHINE_MAGIC) {
		munmap(at, sizeof(*at));
		return;
	}
	machine = at;
	gpumem_sim_account.machine = (uintptr_t)at;
	identity = inode;
	forget_before_exec();
}

uint64_t gm_sim_machine(void)
{
	return identity;
}

static uint64_t sum_of_others(uint32_t physical)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < GM_SIM_MACHINE_PROCESSES; i++) /* a free one has none */
		if (machine->processes[i].process != (uint32_t)getpid())
			sum += machine->processes[i].bytes[physical];
	return sum;
}

/* This process's entry; NULL if there are too many processes (its memory is then counted alone). */
static struct gm_sim_machine_process *place(void)
{
	/* A child of a process that has only tried to use CUDA inherits its entry. */
	if (!own || own->process != (uint32_t)getpid())
		own = find_own();
	for (int round = 0; !own && round < 2; round++) {
		for (size_t i = 0; i < GM_SIM_MACHINE_PROCESSES && !own; i++)
			if (!machine->processes[i].process)
				own = &machine->processes[i];
		if (own) {
			struct look look = look_at((uint32_t)getpid());
			own->start = look.start;
			own->program = look.program;
			own->process = (uint32_t)getpid();
		} else {
			reap();
		}
	}
	return own;
}

bool gm_sim_share_set(const struct gm_sim_device *device, uint64_t bytes, bool must_fit)
{
	if (!machine || gm_sim_forked() || !take_lock())
		return true;
	bool fits = true;
	if (place()) {
		uint64_t total = device->choice.profile.memory;
		fits = !must_fit || bytes + sum_of_others(device->physical) <= total;
		if (!fits) {
			reap();
			fits = bytes + sum_of_others(device->physical) <= total;
		}
		if (fits)
			own->bytes[device->physical] = bytes;
	}
	pthread_mutex_unlock(&machine->lock);
	return fits;
}

uint64_t gm_sim_share_others(const struct gm_sim_device *device)
{
	if (!machine || gm_sim_forked() || !take_lock())
		return 0;
	reap();
	uint64_t sum = sum_of_others(device->physical);
	pthread_mutex_unlock(&machine->lock);
	return sum;
}

bool gm_sim_share_visit(uint32_t physical, void (*visit)(uint32_t, uint64_t, void *), void *data)
{
	if (!machine)
		return false;
	if (!take_lock())
		return true;
	reap();
	for (size_t i = 0; i < GM_SIM_MACHINE_PROCESSES; i++) {
		const struct gm_sim_machine_process *process = &machine->processes[i];
		if (process->process && process->bytes[physical])
			visit(process->process, process->bytes[physical], data);
	}
	pthread_mutex_unlock(&machine->lock);
	return true;
}

bool gm_sim_share_say(void)
{
	return !machine || !__atomic_exchange_n(&machine->said, 1, __ATOMIC_RELAXED);
}
