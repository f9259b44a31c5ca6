#include "sim/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/cleanup.h"

struct process {
	pid_t pid;
	int text, errors; /* what it writes */
};

static void become(const struct gm_sim_program *program, char **settings, int text, int errors)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(program->input, 0) < 0 || dup2(text, 1) < 0 || dup2(errors, 2) < 0)
		_exit(126);
	for (char **at = settings; *at; at++)
		putenv(*at);
	setenv("GPUMEM_SIM_QUIET", "1", 1);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(program->argv[0], (char **)program->argv);
	_exit(127);
}

static struct gm_error *start(const struct gm_sim_program *program, struct process *ret)
{
	char **settings;
	int text[2], errors[2];
	gm_try(gm_sim_settings(&program->launch, &settings));
	if (pipe2(text, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0) {
		gm_sim_settings_free(settings);
		return gm_error_os(GM_INTERNAL, errno, "%s: no pipe", program->argv[0]);
	}
	ret->pid = fork();
	if (ret->pid == 0)
		become(program, settings, text[1], errors[1]);
	int code = errno;
	gm_sim_settings_free(settings);
	close(text[1]);
	close(errors[1]);
	ret->text = text[0];
	ret->errors = errors[0];
	return ret->pid > 0 ? NULL
	                    : gm_error_os(GM_INTERNAL, code, "%s: no process", program->argv[0]);
}

static void take_text(const struct gm_sim_program *program, struct gm_sim_listened *heard,
        const char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (bytes[i] != '\n') {
			if (heard->length < GM_SIM_LINE - 1)
				heard->line[heard->length++] = bytes[i];
			continue;
		}
		heard->line[heard->length] = 0;
		program->line(program->data, heard->line);
		heard->length = 0;
	}
}

/* Runs until both ends are closed; false: a signal asked to stop. */
static bool listen_to(const struct gm_sim_program *program, const struct process *process,
        struct gm_sim_listened *heard)
{
	struct pollfd polls[2] = {{process->text, POLLIN, 0}, {process->errors, POLLIN, 0}};
	while (polls[0].fd >= 0 || polls[1].fd >= 0) {
		char bytes[4096];
		if (poll(polls, 2, -1) < 0)
			return false;
		for (size_t i = 0; i < 2; i++) {
			if (polls[i].fd < 0 || !polls[i].revents)
				continue;
			ssize_t size = read(polls[i].fd, bytes, sizeof(bytes));
			if (size <= 0)
				polls[i].fd = -1;
			else if (i == 0)
				take_text(program, heard, bytes, (size_t)size);
			else
				gm_tail_put(&heard->errors, bytes, (size_t)size);
		}
	}
	return true;
}

struct gm_error *gm_sim_listen(
        const struct gm_sim_program *program, struct gm_sim_listened *ret_listened)
{
	struct process process = {0};
	memset(ret_listened, 0, sizeof(*ret_listened));
	gm_try(start(program, &process));
	ret_listened->stopped = !listen_to(program, &process, ret_listened);
	close(process.text);
	close(process.errors);
	if (ret_listened->stopped)
		kill(process.pid, SIGKILL);
	while (waitpid(process.pid, &ret_listened->status, 0) < 0 && errno == EINTR)
		;
	return NULL;
}
