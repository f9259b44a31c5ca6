/* The process that replays: started, given the requests, listened to, ended. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/sibling_path.h"
#include "base/tail.h"
#include "replay/replay.h"
#include "sim/launch.h"

enum { LINE = 1024 };

/* The requests as allocator.py reads them, in a file without a name. */
static struct gm_error *write_requests(const struct gm_replay_requests *requests, int *ret_file)
{
	const uint64_t head[2] = {requests->count, requests->stream_count};
	_cleanup_close_ int fd = memfd_create("gpumem-replay", MFD_CLOEXEC);
	const struct {
		const void *at;
		size_t size;
	} parts[] = {
	        {head, sizeof(head)},
	        {requests->kinds, requests->count},
	        {requests->numbers, requests->count * sizeof(*requests->numbers)},
	        {requests->streams, requests->count * sizeof(*requests->streams)},
	};
	for (size_t i = 0; fd >= 0 && i < sizeof(parts) / sizeof(parts[0]); i++) {
		for (size_t done = 0; done < parts[i].size;) {
			ssize_t put =
			        write(fd, (const char *)parts[i].at + done, parts[i].size - done);
			if (put < 0)
				return gm_error_os(GM_INTERNAL, errno, "replay: the requests");
			done += (size_t)put;
		}
	}
	if (fd < 0 || lseek(fd, 0, SEEK_SET) != 0)
		return gm_error_os(GM_INTERNAL, errno, "replay: the requests");
	*ret_file = fd;
	fd = -1;
	return NULL;
}

static char *program_file(void)
{
	Dl_info info;
	char *found = NULL;
	if (dladdr((void *)gm_replay_run, &info) && info.dli_fname)
		found = gm_sibling_path(info.dli_fname, "gpumem-replay/allocator.py");
	return found ? found : gm_sibling_path("/proc/self/exe", "gpumem-replay/allocator.py");
}

struct process {
	pid_t pid;
	int text, errors; /* what it writes */
};

static void become(const char **argv, char **settings, int requests, int text, int errors)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(requests, 0) < 0 || dup2(text, 1) < 0 || dup2(errors, 2) < 0)
		_exit(126);
	for (char **at = settings; *at; at++)
		putenv(*at);
	setenv("GPUMEM_SIM_QUIET", "1", 1);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(argv[0], (char **)argv);
	_exit(127);
}

static struct gm_error *start(const struct gm_replay_run *run, int requests, struct process *ret)
{
	const struct gm_sim_launch launch = {.profile = run->profile};
	_cleanup_free_ char *program = program_file();
	_cleanup_free_ const char **argv = calloc(run->count + 4, sizeof(*argv));
	char **settings;
	int text[2], errors[2];
	if (!program)
		return gm_error_create(GM_INTERNAL,
		        "replay: gpumem-replay/allocator.py is not beside this program: install "
		        "all of gpumem");
	if (!argv)
		return &gm_error_no_memory;
	argv[0] = run->python;
	argv[1] = "-u";
	argv[2] = program;
	for (size_t i = 0; i < run->count; i++)
		argv[3 + i] = run->settings[i];
	gm_try(gm_sim_settings(&launch, &settings));
	if (pipe2(text, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0) {
		gm_sim_settings_free(settings);
		return gm_error_os(GM_INTERNAL, errno, "replay: no pipe");
	}
	ret->pid = fork();
	if (ret->pid == 0)
		become(argv, settings, requests, text[1], errors[1]);
	int code = errno;
	gm_sim_settings_free(settings);
	close(text[1]);
	close(errors[1]);
	ret->text = text[0];
	ret->errors = errors[0];
	return ret->pid > 0 ? NULL : gm_error_os(GM_INTERNAL, code, "replay: no process");
}

/* --- what it says ----------------------------------------------------------------------------- */

struct heard {
	const struct gm_replay_requests *requests;
	const struct gm_replay_run *run;
	struct gm_replay_result *results;
	char *version;
	size_t results_known;
	char line[LINE];
	size_t length;
	struct gm_tail errors;
};

static bool take_result(struct heard *heard, const char *line, struct gm_replay_result *result)
{
	uint64_t got, at, size, reserved, micros;
	size_t index;
	if (sscanf(line,
	            "result %zu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
	            " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
	            &index, &result->peak_allocated, &result->peak_reserved, &result->peak_unusable,
	            &result->retries, &got, &at, &size, &reserved, &micros) != 10 ||
	        index != heard->results_known || at > heard->requests->count)
		return false;
	result->outcome =
	        at == heard->requests->count ? GM_REPLAY_COMPLETE : GM_REPLAY_OUT_OF_MEMORY;
	result->got = (size_t)got;
	result->event = at < heard->requests->count ? heard->requests->events[at] : 0;
	result->size = size;
	result->reserved = reserved;
	result->seconds = (double)micros / 1e6;
	return true;
}

static void take_line(struct heard *heard)
{
	struct gm_replay_result result = {0};
	size_t index;
	int behind = 0;
	if (strncmp(heard->line, "version ", 8) == 0) {
		snprintf(heard->version, 64, "%.63s", heard->line + 8);
		return;
	}
	if (heard->results_known == heard->run->count)
		return;
	if (sscanf(heard->line, "refused %zu %n", &index, &behind) == 1 && behind > 0 &&
	        index == heard->results_known) {
		result.outcome = GM_REPLAY_NO_SETTING;
		snprintf(result.why, sizeof(result.why), "%.255s", heard->line + behind);
	} else if (!take_result(heard, heard->line, &result)) {
		return;
	}
	heard->results[heard->results_known] = result;
	heard->results_known++;
	if (heard->run->told)
		heard->run->told(heard->run->data, heard->results_known);
}

/* Bytes of its standard output; a line that is too long or none of the protocol's is dropped:
 * a library may print there. */
static void take_text(struct heard *heard, const char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (bytes[i] != '\n') {
			if (heard->length < LINE - 1)
				heard->line[heard->length++] = bytes[i];
			continue;
		}
		heard->line[heard->length] = 0;
		take_line(heard);
		heard->length = 0;
	}
}

/* Until both ends are closed; false: a signal came, which asks to stop. */
static bool listen_to(const struct process *process, struct heard *heard)
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
				take_text(heard, bytes, (size_t)size);
			else
				gm_tail_put(&heard->errors, bytes, (size_t)size);
		}
	}
	return true;
}

static struct gm_error *explain(
        const struct gm_replay_run *run, bool listened, int status, struct heard *heard)
{
	const char *line = gm_tail_last_line(&heard->errors);
	if (!listened)
		return gm_error_create(GM_TARGET, "replay: stopped");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return gm_error_create(GM_TARGET,
		        "replay: %s: there is no such program: name a Python that has PyTorch with "
		        "--python",
		        run->python);
	return gm_error_create(GM_TARGET,
	        "replay: %s ended without an answer%s%.300s: name a Python that has PyTorch with "
	        "--python",
	        run->python, *line ? ": " : "", line);
}

struct gm_error *gm_replay_run(const struct gm_replay_requests *requests,
        const struct gm_replay_run *run, struct gm_replay_result *ret_results, char ret_version[64])
{
	_cleanup_close_ int file = -1;
	struct process process = {0};
	_cleanup_free_ struct heard *heard = calloc(1, sizeof(*heard));
	if (!heard)
		return &gm_error_no_memory;
	gm_try(write_requests(requests, &file));
	gm_try(start(run, file, &process));
	*ret_version = 0;
	heard->requests = requests;
	heard->run = run;
	heard->results = ret_results;
	heard->version = ret_version;
	bool listened = listen_to(&process, heard);
	int status = 0;
	close(process.text);
	close(process.errors);
	if (!listened)
		kill(process.pid, SIGKILL);
	while (waitpid(process.pid, &status, 0) < 0 && errno == EINTR)
		;
	return heard->results_known == run->count && listened
	               ? NULL
	               : explain(run, listened, status, heard);
}
