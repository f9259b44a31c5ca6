/* The process that replays: what it is given, and what it says. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/sibling_path.h"
#include "replay/replay.h"
#include "sim/listen.h"

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

/* --- what it says ----------------------------------------------------------------------------- */

struct heard {
	const struct gm_replay_requests *requests;
	const struct gm_replay_run *run;
	struct gm_replay_result *results;
	char *version;
	size_t results_known;
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

/* A line that is none of the protocol's is dropped: a library may print there. */
static void take_line(void *data, const char *line)
{
	struct heard *heard = data;
	struct gm_replay_result result = {0};
	size_t index;
	int behind = 0;
	if (strncmp(line, "version ", 8) == 0) {
		snprintf(heard->version, 64, "%.63s", line + 8);
		return;
	}
	if (heard->results_known == heard->run->count)
		return;
	if (sscanf(line, "refused %zu %n", &index, &behind) == 1 && behind > 0 &&
	        index == heard->results_known) {
		result.outcome = GM_REPLAY_NO_SETTING;
		snprintf(result.why, sizeof(result.why), "%.255s", line + behind);
	} else if (!take_result(heard, line, &result)) {
		return;
	}
	heard->results[heard->results_known] = result;
	heard->results_known++;
	if (heard->run->progress)
		heard->run->progress(heard->run->data, heard->results_known);
}

static struct gm_error *explain(const struct gm_replay_run *run, struct gm_sim_listened *listened)
{
	const char *line = gm_tail_last_line(&listened->errors);
	if (listened->stopped)
		return gm_error_create(GM_TARGET, "replay: stopped");
	if (WIFEXITED(listened->status) && WEXITSTATUS(listened->status) == 127)
		return gm_error_create(GM_TARGET,
		        "replay: %s: no such program: name a Python that has PyTorch with --python",
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
	_cleanup_free_ char *program = gm_installed_path("gpumem-replay/allocator.py");
	_cleanup_free_ const char **argv = calloc(run->count + 4, sizeof(*argv));
	_cleanup_free_ struct gm_sim_listened *listened = calloc(1, sizeof(*listened));
	if (!program)
		return gm_error_create(GM_INTERNAL,
		        "replay: gpumem-replay/allocator.py is not installed next to this program: "
		        "install all of gpumem");
	if (!argv || !listened)
		return &gm_error_no_memory;
	argv[0] = run->python;
	argv[1] = "-u";
	argv[2] = program;
	for (size_t i = 0; i < run->count; i++)
		argv[3 + i] = run->settings[i];
	gm_try(write_requests(requests, &file));
	*ret_version = 0;
	struct heard heard = {requests, run, ret_results, ret_version, 0};
	const struct gm_sim_program asked = {.argv = argv,
	        .launch = {.profile = run->profile},
	        .input = file,
	        .line = take_line,
	        .data = &heard};
	gm_try(gm_sim_listen(&asked, listened));
	return heard.results_known == run->count && !listened->stopped ? NULL
	                                                               : explain(run, listened);
}
