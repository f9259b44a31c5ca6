#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/size.h"
#include "spool/internal.h"

/* The reason for the end of the file, if it should be reported. */
static void note_end(const struct gm_spool_file *file, const struct gm_spool_options *options,
        struct gm_log_writer *log, uint64_t lost)
{
	char text[320] = "";
	switch ((enum gm_agent_end)file->header.state) {
	case GM_AGENT_RUNS:
		if (options->exited)
			break;
		if (options->signal)
			snprintf(text, sizeof(text),
			        "the process was killed by signal %d (%s): an event that was being "
			        "written then is missing",
			        options->signal, strsignal(options->signal));
		else if (gm_spool_runs(&file->header))
			snprintf(text, sizeof(text),
			        "the process still runs: this is its recording so far");
		else
			snprintf(text, sizeof(text),
			        "the process ended without Python's or C's exit (killed, crashed "
			        "or _exit): an event that was being written then is missing");
		break;
	case GM_AGENT_DISK_FULL:
		snprintf(text, sizeof(text),
		        "the disk was full: the program continued unrecorded, for at least %ju "
		        "events",
		        (uintmax_t)lost);
		break;
	case GM_AGENT_SIZE_LIMIT:
		snprintf(text, sizeof(text),
		        "the recording reached its size limit (--max-size): the program continued "
		        "unrecorded");
		break;
	case GM_AGENT_FILE_LIMIT:
		snprintf(text, sizeof(text),
		        "the recording reached the size that the process may write (ulimit -f): "
		        "the program continued unrecorded");
		break;
	case GM_AGENT_LOST_FILE:
		snprintf(text, sizeof(text),
		        "the recording's file was moved or removed: the program continued "
		        "unrecorded");
		break;
	case GM_AGENT_NOT_OPENED:
		snprintf(text, sizeof(text),
		        "the program closed the recording's file, which could not be opened again "
		        "(too many open files, or no right to it): the program continued "
		        "unrecorded");
		break;
	case GM_AGENT_NOT_MAPPED:
		snprintf(text, sizeof(text),
		        "the recording's file could not be mapped (no memory or address space "
		        "left, as with ulimit -v): the program continued unrecorded");
		break;
	case GM_AGENT_EXITED:
	case GM_AGENT_STOPPED:
	case GM_AGENT_END_COUNT:
		break;
	}
	if (*text)
		gm_log_writer_gap(log, text);
}

/* Reports that the beginning was dropped, if it was. */
static void note_beginning(const struct gm_spool_file *file, struct gm_log_writer *log)
{
	char text[320], number[GM_SIZE_GROUPED];
	if (!file->beginning)
		return;
	snprintf(text, sizeof(text),
	        "the recording has a limit (--max-size) and keeps the newest: %s of its first "
	        "events were dropped, except the allocations of blocks that lived longer; steps "
	        "are counted from there",
	        gm_text_grouped(file->dropped, number));
	gm_log_writer_gap(log, text);
	if (file->torn)
		gm_log_writer_gap(log,
		        "the recording grew faster than it could be read: some blocks from "
		        "its beginning may be missing or extra: ask again");
}

static struct gm_error *write_log(const struct gm_spool_file *file, struct gm_log_writer *log,
        const struct gm_spool_options *options, struct gm_spool_summary *summary)
{
	struct gm_spool_tables tables = {.log = log};
	struct gm_spool_replay *replay = NULL;
	struct gm_error *error = gm_spool_read_tables(file, &tables);
	if (!error)
		error = gm_spool_replay_create(file, &tables, log, &replay);
	if (!error)
		error = gm_spool_each(file, replay);
	if (!error) {
		gm_spool_replay_end(replay, summary);
		error = gm_spool_names(&tables);
	}
	if (!error) {
		note_beginning(file, log);
		note_end(file, options, log, summary->lost);
	}
	gm_spool_replay_destroy(replay);
	gm_spool_tables_deinit(&tables);
	return error;
}

struct gm_error *gm_spool_convert(const char *path, const char *to,
        const struct gm_spool_options *options, struct gm_spool_summary *ret_summary)
{
	struct gm_spool_file file;
	gm_try(gm_spool_open(path, &file));
	*ret_summary = (struct gm_spool_summary){
	        .pid = (pid_t)file.header.pid,
	        .rank = file.header.rank,
	        .parent = file.header.parent,
	        .lost = file.header.lost,
	        .state = file.header.state,
	};
	char source[sizeof(file.header.command) + 64];
	gm_spool_source(&file, source, sizeof(source));
	const struct gm_log_writer_options log = {.source = source,
	        .pid = file.header.pid,
	        .start_ns = file.header.start_ns,
	        .packed = options->packed};
	struct gm_log_writer *writer;
	struct gm_error *error = gm_log_writer_create(to, &log, &writer);
	if (!error) {
		error = write_log(&file, writer, options, ret_summary);
		if (gm_spool_was_cut(&file)) {
			gm_error_destroy(error);
			error = gm_error_create(
			        GM_CORRUPT, "%s: the file became shorter while it was read", path);
		}
		struct gm_error *closing = gm_log_writer_close(writer);
		if (error)
			gm_error_destroy(closing);
		else
			error = closing;
	}
	gm_spool_close(&file);
	return error;
}

struct gm_error *gm_spool_import(const char *path, struct gm_log **ret_log)
{
	_cleanup_close_ int fd = memfd_create("gpumem-recording", MFD_CLOEXEC);
	if (fd < 0)
		return gm_error_os(
		        GM_INTERNAL, errno, "%s: not enough memory for its events", path);
	char memory[40];
	snprintf(memory, sizeof(memory), "/proc/self/fd/%d", fd);
	const struct gm_spool_options options = {0};
	struct gm_spool_summary summary;
	gm_try(gm_spool_convert(path, memory, &options, &summary));
	return gm_log_open_lazily(memory, path, ret_log);
}
