#include "cli/attach_export.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ask/metrics.h"
#include "ask/target/recording.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/put.h"
#include "base/whole_file.h"
#include "cli/http_server.h"
#include "render/metrics.h"

#define PATH "/metrics"
#define TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define OPEN_METRICS "application/openmetrics-text"
#define OPEN_METRICS_TYPE OPEN_METRICS "; version=1.0.0; charset=utf-8"

/* How often it is looked whether the process is there, where no descriptor says so. */
enum { LOOK_MS = 1000 };

/* ---- the figures ----------------------------------------------------------------------------- */

static struct gm_error *make_page(
        struct gm_attach_export *export, bool open_metrics, char **ret_text, size_t *ret_size)
{
	struct gm_metrics metrics;
	int pid = export->context->pid;
	if (!export->recording)
		gm_try(gm_recording_find(pid, &export->recording));
	if (!export->recording)
		return gm_error_create(GM_TARGET,
		        "process %d: it has used no device so far: there are no figures yet", pid);
	gm_try(gm_context_set_log(export->context, export->recording));
	gm_try(gm_ask_metrics(export->context, &metrics));
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	if (out)
		gm_render_metrics(&metrics, export->context->pid, open_metrics, out);
	gm_metrics_deinit(&metrics);
	if (!out || fclose(out) != 0) {
		free(text);
		return &gm_error_no_memory;
	}
	*ret_text = text;
	*ret_size = size;
	return NULL;
}

static struct gm_error *page(
        void *context, const char *accept, char **ret_body, size_t *ret_size, const char **ret_type)
{
	struct gm_attach_export *export = context;
	bool open_metrics = strstr(accept, OPEN_METRICS);
	double start = gm_seconds();
	if (!export->pages[open_metrics].text || export->pages[open_metrics].until <= start) {
		char *text;
		size_t size;
		gm_try(make_page(export, open_metrics, &text, &size));
		double end = gm_seconds();
		free(export->pages[open_metrics].text);
		export->pages[open_metrics].text = text;
		export->pages[open_metrics].size = size;
		export->pages[open_metrics].until = end + (end - start) * 4;
	}
	*ret_size = export->pages[open_metrics].size;
	*ret_body = malloc(*ret_size + 1);
	if (!*ret_body)
		return &gm_error_no_memory;
	memcpy(*ret_body, export->pages[open_metrics].text, *ret_size);
	*ret_type = open_metrics ? OPEN_METRICS_TYPE : TEXT_TYPE;
	return NULL;
}

static struct gm_error *write_textfile(struct gm_attach_export *export)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	struct gm_whole_file file;
	gm_try(make_page(export, false, &text, &size));
	gm_try(gm_whole_file_open(export->textfile, 0644, GM_WHOLE_FILE_ANY, &file));
	for (size_t done = 0; done < size;) {
		ssize_t written = write(file.fd, text + done, size - done);
		if (written <= 0) {
			struct gm_error *error = gm_error_os(
			        GM_TARGET, errno, "%s: cannot be written", export->textfile);
			gm_whole_file_close(&file);
			return error;
		}
		done += (size_t)written;
	}
	return gm_whole_file_finish(&file);
}

/* ---- the process ----------------------------------------------------------------------------- */

struct gm_error *gm_attach_export_prepare(
        struct gm_attach_export *export, struct gm_context *context)
{
	export->context = context;
	const char *end = export->textfile ? strrchr(export->textfile, '.') : NULL;
	if (export->textfile && (!end || strcmp(end, ".prom") != 0))
		return gm_error_create(GM_USAGE,
		        "attach: --textfile %s: node_exporter reads only files whose name ends in "
		        ".prom: name it so",
		        export->textfile);
	const struct gm_http_options options = {PATH, page, export};
	if (!export->address)
		return NULL;
	return gm_error_prefix(gm_http_server_create(export->address, &options, &export->server),
	        "attach: --export");
}

void gm_attach_export_deinit(struct gm_attach_export *export)
{
	gm_http_server_destroy(export->server);
	free(export->recording);
	for (size_t i = 0; i < 2; i++)
		free(export->pages[i].text);
}

static bool has_ended(int pid, int process)
{
	struct pollfd ended = {.fd = process, .events = POLLIN};
	return process >= 0 ? poll(&ended, 1, 0) > 0 : kill(pid, 0) != 0 && errno == ESRCH;
}

/* One wait: for a client, a signal, the process's end, or the next write. False: it is over. */
static bool wait_once(
        struct gm_attach_export *export, int process, int signals, double next, bool *ret_signal)
{
	struct pollfd waits[GM_HTTP_CLIENTS + 3];
	int wait = -1;
	size_t count = export->server ? gm_http_server_poll(export->server, waits, &wait) : 0;
	waits[count++] = (struct pollfd){.fd = signals, .events = POLLIN};
	waits[count++] = (struct pollfd){.fd = process, .events = POLLIN}; /* -1: passed over */
	double left = export->textfile ? (next - gm_seconds()) * 1000 : LOOK_MS;
	int most = left < 0 ? 0 : left < LOOK_MS ? (int)left + 1 : LOOK_MS;
	(void)poll(waits, count, wait >= 0 && wait < most ? wait : most);
	if (export->server)
		gm_http_server_run(export->server);
	struct pollfd signal = {.fd = signals, .events = POLLIN};
	*ret_signal = poll(&signal, 1, 0) > 0;
	return !*ret_signal && !has_ended(export->context->pid, process);
}

static void say_begun(const struct gm_attach_export *export, FILE *out)
{
	int pid = export->context->pid;
	if (export->server)
		gm_put(out, "serving %s\n", gm_http_server_url(export->server));
	if (export->textfile)
		gm_put(out, "writing %s every %llu s\n", export->textfile,
		        (unsigned long long)export->interval);
	gm_put(out,
	        "until process %d ends, or Ctrl-C; the recording then goes on until `gpumem detach "
	        "%d`\n",
	        pid, pid);
	fflush(out);
}

struct gm_error *gm_attach_export_run(struct gm_attach_export *export, char *path, FILE *out)
{
	int pid = export->context->pid;
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	export->recording = path;
	_cleanup_close_ int signals = signalfd(-1, &set, SFD_CLOEXEC);
	_cleanup_close_ int process = (int)syscall(SYS_pidfd_open, pid, 0);
	if (signals < 0)
		return gm_error_os(GM_INTERNAL, errno, "attach: signals");
	if (process < 0 && errno == ESRCH)
		return gm_error_create(
		        GM_TARGET, "process %d: it has ended: nothing is exported", pid);
	say_begun(export, out);
	double next = 0;
	bool by_signal = false;
	struct gm_error *error = NULL;
	do {
		if (export->textfile && gm_seconds() >= next) {
			error = write_textfile(export);
			next = gm_seconds() + (double)export->interval;
		}
		/* There are no figures yet. */
		if (error && !export->recording) {
			gm_error_destroy(error);
			error = NULL;
		}
	} while (!error && wait_once(export, process, signals, next, &by_signal));
	/* Figures of a process that is gone, or that nobody updates, are not to be scraped. */
	if (export->textfile && !error)
		unlink(export->textfile);
	/* The process may have ended while its recording was read. */
	if (error && has_ended(pid, process)) {
		gm_error_destroy(error);
		error = NULL;
	}
	if (!error && !by_signal)
		gm_put(out, "process %d has ended\n", pid);
	return error;
}
