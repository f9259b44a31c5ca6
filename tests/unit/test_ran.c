/* Whether a process has run between two moments: one that only waits has not, however often it was
 * stopped. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>

#include "child.h"
#include "image/image.h"
#include "image/ran.h"

static int commands[2]; /* to the child */

static void *wait_for_ever(void *unused)
{
	while (pause() != 0)
		;
	return NULL;
}

static void do_as_told(int signal)
{
	static volatile unsigned work;
	pthread_t thread;
	char command;
	if (read(commands[0], &command, 1) != 1)
		_exit(1);
	if (command == 't' && pthread_create(&thread, NULL, wait_for_ever, NULL) != 0)
		_exit(1);
	while (command == 'r') /* runs, and never waits */
		work++;
}

static void prepare(uint64_t *words)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, wait_for_ever, NULL) != 0)
		_exit(1);
	signal(SIGUSR1, do_as_told);
}

struct fixture {
	struct child child;
	struct gm_image *image;
	struct gm_ran ran;
};

static pid_t other_thread(struct gm_image *image, pid_t main)
{
	pid_t *threads, found = 0;
	size_t count;
	assert_null(gm_image_threads(image, &threads, &count));
	for (size_t i = 0; i < count; i++)
		found = threads[i] != main ? threads[i] : found;
	free(threads);
	return found;
}

static void all_sleep(struct fixture *fixture)
{
	child_sleeps(fixture->child.pid, fixture->child.pid);
	child_sleeps(fixture->child.pid, other_thread(fixture->image, fixture->child.pid));
}

static int open_child(void **state)
{
	struct fixture *fixture = *state = calloc(1, sizeof(*fixture));
	if (pipe(commands) != 0)
		return -1;
	fixture->child = child_start(prepare);
	if (gm_image_open_pid(fixture->child.pid, &fixture->image))
		return -1;
	while (!other_thread(fixture->image, fixture->child.pid))
		usleep(1000);
	all_sleep(fixture);
	return 0;
}

static int end(void **state)
{
	struct fixture *fixture = *state;
	gm_ran_deinit(&fixture->ran);
	gm_image_close(fixture->image);
	child_end(&fixture->child);
	close(commands[0]);
	close(commands[1]);
	free(fixture);
	return 0;
}

static void stop_and_note(struct fixture *fixture)
{
	struct gm_stop stop;
	assert_null(gm_stop_begin(fixture->image, &stop));
	usleep(20000); /* a thread that has just stopped still gives up its processor */
	gm_ran_note(&fixture->ran, &stop, fixture->image);
	gm_stop_end(&stop);
}

/* Until it has begun again to wait. */
static bool has_run_at_last(struct fixture *fixture)
{
	for (int i = 0; i < 2000 && gm_ran_since(&fixture->ran); i++)
		usleep(1000);
	return gm_ran_since(&fixture->ran);
}

static void tell(struct fixture *fixture, char command)
{
	assert_int_equal(write(commands[1], &command, 1), 1);
	assert_int_equal(kill(fixture->child.pid, SIGUSR1), 0);
	usleep(50000);
}

static void test_a_waiting_thread_has_not_run(void **state)
{
	struct fixture *fixture = *state;
	for (int i = 0; i < 3; i++) {
		stop_and_note(fixture);
		assert_false(has_run_at_last(fixture));
	}
}

static void test_a_woken_thread_has_run(void **state)
{
	struct fixture *fixture = *state;
	stop_and_note(fixture);
	assert_false(has_run_at_last(fixture));
	tell(fixture, 'n');
	all_sleep(fixture);
	assert_true(gm_ran_since(&fixture->ran));
	stop_and_note(fixture);
	assert_false(has_run_at_last(fixture));
}

static void test_a_new_thread_has_run(void **state)
{
	struct fixture *fixture = *state;
	stop_and_note(fixture);
	assert_false(has_run_at_last(fixture));
	tell(fixture, 't');
	assert_true(gm_ran_since(&fixture->ran));
}

static void test_a_running_thread_has_run(void **state)
{
	struct fixture *fixture = *state;
	tell(fixture, 'r');
	stop_and_note(fixture);
	usleep(20000);
	assert_true(gm_ran_since(&fixture->ran));
}

static void test_an_ended_thread_has_run(void **state)
{
	struct fixture *fixture = *state;
	struct gm_ran none = {0};
	assert_true(gm_ran_since(&none));
	stop_and_note(fixture);
	child_end(&fixture->child);
	assert_true(gm_ran_since(&fixture->ran));
}

#define WITH_CHILD(test) cmocka_unit_test_setup_teardown(test, open_child, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        WITH_CHILD(test_a_waiting_thread_has_not_run),
	        WITH_CHILD(test_a_woken_thread_has_run),
	        WITH_CHILD(test_a_new_thread_has_run),
	        WITH_CHILD(test_a_running_thread_has_run),
	        WITH_CHILD(test_an_ended_thread_has_run),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
