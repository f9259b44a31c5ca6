#include "ask/target/pause.h"
#include "ask/context.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "image/capture.h"
#include "image/capture_buffer.h"
#include "image/ran.h"
#include "image/stop.h"
#include "torch/torch.h"
#include "torch/allocator.h"

enum { TRIES = 20, BETWEEN_MICROSECONDS = 1500, STOPS = 3 };
enum {
	MOMENTS = 5,
	MOMENTS_SECONDS = 4
}; /* limits on repeating a question: number and total time */

struct gm_pausing {
	struct gm_stop stop;
	struct gm_capture_buffer *buffer; /* NULL: none, or already released */
	unsigned depth;
	struct gm_ran ran;
	bool copies_all; /* something changed that had not been copied */
	double began;
	struct gm_pause pause;
	struct sigaction before[STOPS];
};

static const int stop_signals[STOPS] = {SIGTSTP, SIGTTIN, SIGTTOU};
static volatile sig_atomic_t stop_asked;

/* --- Ctrl-Z while a process is stopped: the process would stay stopped as long as we do, so we
 * stop afterwards  */

static void note_stop(int signal)
{
	stop_asked = signal;
}

static void hold_stop_signals(struct gm_pausing *pausing)
{
	struct sigaction action = {.sa_handler = note_stop, .sa_flags = SA_RESTART};
	sigemptyset(&action.sa_mask);
	for (int i = 0; i < STOPS; i++)
		sigaction(stop_signals[i], &action, &pausing->before[i]);
}

static void release_stop_signals(struct gm_pausing *pausing)
{
	for (int i = 0; i < STOPS; i++)
		sigaction(stop_signals[i], &pausing->before[i], NULL);
	int asked = stop_asked;
	stop_asked = 0;
	if (asked)
		raise(asked);
}

/* --- is it stopped already? ------------------------------------------------------------------- */

static bool stands_still(struct gm_image *image)
{
	_cleanup_free_ pid_t *threads = NULL;
	size_t count;
	struct gm_error *error = gm_image_threads(image, &threads, &count);
	if (error) {
		gm_error_destroy(error);
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		char state = gm_stop_thread_state(gm_image_pid(image), threads[i]);
		if (state != 'T' && state != 't' && state != 'Z' && state != 'X' && state != 0)
			return false;
	}
	return true;
}

/* --- a moment in which the allocator's tables match its figures ------------------------------- */

static bool agrees(struct gm_torch *torch)
{
	struct gm_allocator_bytes sums[GM_TORCH_DEVICES_MAX] = {{0}};
	_cleanup_free_ struct gm_block_record *blocks = NULL;
	size_t count, devices;
	_cleanup_error_ struct gm_error *error = gm_torch_allocator_devices(torch, &devices);
	if (!error)
		error = gm_torch_blocks(torch, &blocks, &count);
	if (error)
		return true; /* the question will report the problem */
	for (size_t i = 0; i < count; i++) {
		if (!blocks[i].mapped)
			continue;
		sums[blocks[i].device].reserved += blocks[i].size;
		if (blocks[i].allocated)
			sums[blocks[i].device].allocated += blocks[i].size;
	}
	for (size_t i = 0; i < devices && i < GM_TORCH_DEVICES_MAX; i++) {
		struct gm_allocator_bytes own;
		_cleanup_error_ struct gm_error *unread =
		        gm_torch_allocator_bytes(torch, (int)i, &own);
		if (!unread &&
		        (own.allocated != sums[i].allocated || own.reserved != sums[i].reserved))
			return false;
	}
	return true;
}

static bool is_consistent(struct gm_context *context)
{
	struct gm_torch *torch;
	_cleanup_error_ struct gm_error *error = gm_context_torch(context, &torch);
	return error || agrees(torch);
}

/* ------------------------------------------------------------------------------------------------------------------
 */

static void resume(struct gm_pausing *pausing)
{
	gm_stop_end(&pausing->stop);
	double seconds = gm_seconds() - pausing->began;
	if (seconds > pausing->pause.seconds)
		pausing->pause.seconds = seconds;
}

static struct gm_error *stop_and_look(
        struct gm_context *context, struct gm_image *image, enum gm_reading reading)
{
	struct gm_pausing *pausing = context->pausing;
	for (;;) {
		pausing->began = gm_seconds();
		_cleanup_error_ struct gm_error *refused = gm_stop_begin(image, &pausing->stop);
		if (refused) {
			pausing->pause.state = GM_NOT_STOPPABLE;
			return NULL;
		}
		pausing->pause.tries++;
		/* the target only: an answer in progress refers to the recording's model */
		gm_image_capture_end(image);
		context->target_stale = true;
		struct gm_error *error = gm_context_image(context, &image);
		if (error) {
			resume(pausing);
			return error;
		}
		bool consistent = is_consistent(context);
		pausing->pause.state = consistent ? GM_PAUSED : GM_INCONSISTENT;
		if (consistent || pausing->pause.tries >= TRIES) {
			bool copied =
			        reading != GM_READS_LITTLE &&
			        gm_image_capture(image, pausing->buffer, &pausing->pause.copied);
			gm_ran_note(&pausing->ran, &pausing->stop, image);
			if (copied)
				resume(pausing);
			return NULL;
		}
		resume(pausing);
		nanosleep(&(struct timespec){.tv_nsec = BETWEEN_MICROSECONDS * 1000}, NULL);
	}
}

static struct gm_error *begin(struct gm_context *context, enum gm_reading reading)
{
	struct gm_pausing *pausing = context->pausing;
	struct gm_image *image;
	struct gm_torch *torch;
	pausing->pause = (struct gm_pause){0};
	if (context->core_path || context->remote || context->pid <= 0 || !context->shell)
		return NULL;
	gm_try(gm_context_image(context, &image));
	if (stands_still(image))
		return NULL;
	if (context->no_pause) {
		pausing->pause.state = GM_NOT_PAUSED;
		return NULL;
	}
	/* Done while it still runs: the part of it that does not change. The question will find an
	 * error again and report it. */
	gm_error_destroy(gm_context_torch(context, &torch));
	if (reading != GM_READS_LITTLE)
		pausing->buffer = gm_capture_buffer_create(
		        image, reading == GM_READS_MUCH || pausing->copies_all);
	hold_stop_signals(pausing);
	struct gm_error *error = stop_and_look(context, image, reading);
	gm_capture_buffer_destroy(gm_take(pausing->buffer));
	if (error || !pausing->stop.pid)
		release_stop_signals(pausing);
	return error;
}

struct gm_error *gm_context_pause(struct gm_context *context, enum gm_reading reading)
{
	if (!context->pausing && !(context->pausing = calloc(1, sizeof(*context->pausing))))
		return &gm_error_no_memory;
	if (context->pausing->depth == 0)
		gm_try(begin(context, reading));
	context->pausing->depth++;
	return NULL;
}

void gm_context_resume(struct gm_context *context, struct gm_pause *ret_pause)
{
	struct gm_pausing *pausing = context->pausing;
	if (--pausing->depth == 0) {
		if (pausing->stop.pid) {
			resume(pausing);
			release_stop_signals(pausing);
		}
		pausing->pause.lost = gm_image_capture_lost(context->image);
		pausing->copies_all |= pausing->pause.lost;
		gm_image_capture_end(context->image);
	}
	if (ret_pause)
		*ret_pause = pausing->pause;
}

bool gm_context_ask_again(const struct gm_context *context, const struct gm_pause *pause,
        bool complete, struct gm_moments *moments)
{
	if (moments->asked++ == 0)
		moments->began = gm_seconds();
	moments->pause.tries += pause->tries;
	if (pause->seconds > moments->pause.seconds)
		moments->pause.seconds = pause->seconds;
	if (complete || pause->state != GM_PAUSED || context->pausing->depth > 0 ||
	        moments->asked >= MOMENTS || gm_seconds() - moments->began > MOMENTS_SECONDS ||
	        !gm_ran_since(&context->pausing->ran))
		return false;
	/* not at the same distance from the last resume each time */
	nanosleep(&(struct timespec){.tv_nsec = (long)BETWEEN_MICROSECONDS * 1000 * moments->asked},
	        NULL);
	return true;
}

void gm_pausing_destroy(struct gm_pausing *pausing)
{
	if (!pausing)
		return;
	gm_ran_deinit(&pausing->ran);
	free(pausing);
}

struct gm_pause gm_context_last_pause(const struct gm_context *context)
{
	return context->pausing ? context->pausing->pause : (struct gm_pause){0};
}
