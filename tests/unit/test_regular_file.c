/* Files that somebody else names: of what is no regular file nothing is read, and it is not waited
 * for. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/regular_file.h"

static void only_regular_files_are_opened(void **state)
{
	char folder[] = "/tmp/regular-XXXXXX", file[64], link[64], fifo[64];
	assert_non_null(mkdtemp(folder));
	snprintf(file, sizeof(file), "%s/file", folder);
	snprintf(link, sizeof(link), "%s/link", folder);
	snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
	FILE *made = fopen(file, "w");
	assert_non_null(made);
	fclose(made);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	int fd = gm_regular_file_open(file);
	assert_true(fd >= 0);
	close(fd);
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	snprintf(name.sun_path, sizeof(name.sun_path), "%s/socket", folder);
	int open_socket = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(open_socket, (struct sockaddr *)&name, sizeof(name)), 0);
	const char *const others[] = {
	        fifo, "/dev/zero", "/dev/null", "/dev/tty", "/dev/ptmx", folder, name.sun_path};
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		assert_int_equal(gm_regular_file_open(others[i]), -1);
		assert_null(gm_regular_file_stream(others[i]));
		assert_int_equal(symlink(others[i], link), 0);
		errno = 0;
		assert_int_equal(gm_regular_file_open(link), -1);
		assert_int_not_equal(errno, 0);
		unlink(link);
	}
	assert_int_equal(gm_regular_file_open("/dev/zero"), -1);
	assert_string_equal(gm_regular_file_why(errno), "it is not a regular file");
	close(open_socket);
	unlink(name.sun_path);
	unlink(fifo);
	unlink(file);
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(only_regular_files_are_opened)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
