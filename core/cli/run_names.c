#include "cli/run_names.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ask/names/tensor_names.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "cli/packing.h"
#include "torch/torch.h"

enum { LOOK_MS = 200, PROCESSES_MAX = 256, WHY_MAX = 512 };

struct gm_run_names {
	pid_t process;
	_Atomic bool over; /* the program has ended */
	char why[WHY_MAX]; /* the last reason, from any of the processes */
};

/* --- one process ------------------------------------------------------------------------------ */

static void go_on(void *input)
{
	gm_spool_asked_go_on(input);
}

/* Libraries, symbols and layouts: they take time, and do not change. */
static void prepare(struct gm_context *context, pid_t pid)
{
	struct gm_torch *torch;
	gm_context_init(context);
	context->pid = pid;
	context->shell = true;
	context->no_learn = true;
	gm_error_destroy(gm_context_torch(context, &torch));
}

static struct gm_error *write_names(
        struct gm_spool_asked *asked, const struct gm_tensor_names *names)
{
	_cleanup_free_ struct gm_spool_name *all = calloc(names->count + 1, sizeof(*all));
	if (!all)
		return &gm_error_no_memory;
	for (size_t i = 0; i < names->count; i++) {
		const struct gm_tensor_name *name = &names->items[i];
		all[i] = (struct gm_spool_name){
		        .kind = (uint8_t)name->kind,
		        .device_type = name->device_type,
		        .device = name->device,
		        .address = name->address,
		        .offset = name->offset,
		        .size = name->size,
		        .name = name->name,
		};
	}
	return gm_spool_asked_write(asked, names->sequence, all, names->count);
}

static struct gm_error *read_names(pid_t pid, const char *path, const struct gm_run_names *shared)
{
	struct gm_spool_asked *asked;
	struct gm_context context;
	gm_try(gm_spool_asked_open(path, &asked));
	if (!asked)
		return NULL;
	prepare(&context, pid);
	enum gm_spool_asked_state state = GM_SPOOL_ASKED_NOT;
	while (state == GM_SPOOL_ASKED_NOT && !shared->over)
		state = gm_spool_asked_wait(asked, LOOK_MS);
	struct gm_error *error = NULL;
	if (state == GM_SPOOL_ASKED) {
		struct gm_tensor_names names;
		error = gm_ask_tensor_names(
		        &context, gm_spool_asked_sequence_at(asked), go_on, asked, &names);
		if (!error) {
			error = write_names(asked, &names);
			gm_tensor_names_deinit(&names);
		}
	}
	gm_spool_asked_close(asked);
	gm_context_deinit(&context);
	return error;
}

/* --- all processes ---------------------------------------------------------------------------- */

struct readers {
	struct gm_run_names *shared;
	GM_ARRAY(char *) paths; /* processes that have a reader */
	size_t running;
};

static void become_reader(pid_t parent)
{
	static const int own[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM};
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		signal(own[i], SIG_DFL);
	signal(SIGXFSZ, SIG_IGN); /* then a write fails, as on a full disk */
	prctl(PR_SET_NAME, "gpumem-names");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
}

static void add_process(void *context, pid_t pid, const char *path)
{
	struct readers *readers = context;
	for (size_t i = 0; i < readers->paths.count; i++)
		if (strcmp(readers->paths.items[i], path) == 0)
			return;
	char *copy = *path && gm_spool_is(path) && readers->paths.count < PROCESSES_MAX
	                     ? strdup(path)
	                     : NULL;
	if (!copy || !gm_array_push(&readers->paths, copy)) {
		free(copy);
		return;
	}
	pid_t self = getpid(), child = fork();
	if (child == 0) {
		become_reader(self);
		struct gm_error *error = read_names(pid, path, readers->shared);
		if (error)
			snprintf(readers->shared->why, WHY_MAX, "%s", error->message);
		_exit(0);
	}
	readers->running += child > 0;
}

static void wait_for_readers(struct readers *readers, int options)
{
	while (readers->running > 0 && waitpid(-1, NULL, options) > 0)
		readers->running--;
}

static void read_all(struct gm_run_names *shared, const char *list)
{
	struct readers readers = {.shared = shared};
	struct pollfd changed = {.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), .events = POLLIN};
	if (changed.fd >= 0)
		inotify_add_watch(changed.fd, list, IN_MODIFY);
	while (!shared->over) {
		char events[4096];
		gm_packing_read_list(list, add_process, &readers);
		wait_for_readers(&readers, WNOHANG);
		poll(&changed, changed.fd >= 0 ? 1 : 0, LOOK_MS);
		while (changed.fd >= 0 && read(changed.fd, events, sizeof(events)) > 0)
			;
	}
	wait_for_readers(&readers, 0);
}

struct gm_run_names *gm_run_names_begin(const char *list)
{
	struct gm_run_names *names = mmap(
	        NULL, sizeof(*names), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (names == MAP_FAILED)
		return NULL;
	pid_t self = getpid(), process = fork();
	if (process == 0) {
		become_reader(self);
		read_all(names, list);
		_exit(0);
	}
	if (process < 0) {
		munmap(names, sizeof(*names));
		return NULL;
	}
	names->process = process;
	return names;
}

void gm_run_names_end(struct gm_run_names *names, char *ret_why, size_t size)
{
	if (!names)
		return;
	names->over = true;
	while (waitpid(names->process, NULL, 0) < 0 && errno == EINTR)
		;
	names->why[WHY_MAX - 1] = '\0';
	snprintf(ret_why, size, "%s", names->why);
	munmap(names, sizeof(*names));
}
