/* Links of another root lead to files of that root, whichever way it is done. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "child.h"
#include "base/inside_root.h"
#include "base/regular_file.h"

enum { NAMES = 40, PATHS = 400 };

static char folder[64];
static int root = -1;

static void put(int where, const char *name, const char *text)
{
	int fd = openat(where, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static int make_root(void **state)
{
	strcpy(folder, "/tmp/gpumem-root-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	int outside = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	put(outside, "secret", "of the host");
	if (mkdirat(outside, "root", 0700) != 0)
		return -1;
	root = openat(outside, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	close(outside);
	return root < 0;
}

static int remove_root(void **state)
{
	char command[128];
	close(root);
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return system(command);
}

/* What the file says, or why there is none. */
static const char *text_of(int fd)
{
	static char text[64];
	if (fd < 0)
		return strerrorname_np(errno);
	ssize_t length = read(fd, text, sizeof(text) - 1);
	text[length > 0 ? length : 0] = 0;
	if (length < 0)
		snprintf(text, sizeof(text), "%s", strerrorname_np(errno));
	close(fd);
	return text;
}

static void check(const char *path, const char *expected)
{
	const int flags = O_RDONLY | O_CLOEXEC;
	assert_string_equal(text_of(gm_inside_root_open(root, path, flags)), expected);
	assert_string_equal(text_of(gm_inside_root_walk(root, path, flags)), expected);
}

static void links_stay_inside(void **state)
{
	char text[PATH_MAX];
	put(root, "file", "of the root");
	assert_int_equal(mkdirat(root, "folder", 0700), 0);
	assert_int_equal(symlinkat("/file", root, "absolute"), 0);
	assert_int_equal(symlinkat("../../../../file", root, "folder/upwards"), 0);
	assert_int_equal(symlinkat("../secret", root, "outside"), 0);
	snprintf(text, sizeof(text), "%s/secret", folder);
	assert_int_equal(symlinkat(text, root, "by-its-whole-name"), 0);
	assert_int_equal(symlinkat("one", root, "other"), 0);
	assert_int_equal(symlinkat("other", root, "one"), 0);
	check("/file", "of the root");
	check("folder/../../../file", "of the root");
	check("/absolute", "of the root");
	check("/folder/upwards", "of the root");
	check("//folder/.//upwards", "of the root");
	check("/../secret", "ENOENT");
	check("/outside", "ENOENT");
	check("/by-its-whole-name", "ENOENT");
	check("/one", "ELOOP");
	check("/file/file", "ENOTDIR");
	check("/folder", "EISDIR");
	check("", "EISDIR");
}

/* A process can open its own files by links of the kernel, which lead out of any root. */
static void links_of_the_kernel_are_not_followed(void **state)
{
	int slash = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int secret = open("/dev/null", O_RDONLY | O_CLOEXEC);
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", secret);
	errno = 0;
	assert_int_equal(gm_inside_root_open(slash, path, O_RDONLY | O_CLOEXEC), -1);
	assert_int_equal(errno, ELOOP);
	assert_int_equal(gm_inside_root_walk(slash, path, O_RDONLY | O_CLOEXEC), -1);
	assert_int_equal(errno, ELOOP);
	close(secret);
	close(slash);
}

static void the_root_of_a_process_is_known_by_its_path(void **state)
{
	const char *rest = NULL;
	assert_true(gm_inside_root("/proc/12/root/usr/lib", &rest));
	assert_string_equal(rest, "/usr/lib");
	assert_true(gm_inside_root("/proc/12/root", &rest));
	assert_string_equal(rest, "");
	assert_false(gm_inside_root("/proc/12/rootkit", &rest));
	assert_false(gm_inside_root("/proc/self/root/usr", &rest));
	assert_false(gm_inside_root("/proc//root/usr", &rest));
	assert_false(gm_inside_root("/usr/lib", &rest));
	/* our own, which is the host's */
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "/proc/%d/root%s/secret", (int)getpid(), folder);
	assert_string_equal(text_of(gm_regular_file_open(path)), "of the host");
}

/* A process that changed its root: what it names is opened there, also where a link leads to a name
 * that the host has. */
static void change_root(uint64_t *words)
{
	words[0] = chroot(".") == 0 && chdir("/") == 0;
}

static void a_link_of_another_root_is_resolved_there(void **state)
{
	char path[PATH_MAX], back[PATH_MAX];
	assert_int_equal(mkdirat(root, "etc", 0700), 0);
	put(root, "etc/passwd", "of the root");
	assert_int_equal(symlinkat("/etc/passwd", root, "absolute"), 0);
	assert_int_equal(symlinkat("../../../../../etc/passwd", root, "etc/upwards"), 0);
	assert_non_null(getcwd(back, sizeof(back)));
	snprintf(path, sizeof(path), "%s/root", folder);
	assert_int_equal(chdir(path), 0);
	struct child child = child_start(change_root);
	assert_int_equal(chdir(back), 0);
	if (!child.words[0]) {
		child_end(&child);
		skip(); /* only root may */
	}
	const char *const names[] = {"etc/passwd", "absolute", "etc/upwards"};
	for (size_t i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "/proc/%d/root/%s", (int)child.pid, names[i]);
		assert_string_equal(text_of(gm_regular_file_open(path)), "of the root");
	}
	child_end(&child);
}

/* --- trees at random -------------------------------------------------------------------------- */

static uint64_t random_state = 88172645463325252u;

static unsigned random_below(unsigned limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned)(random_state % limit);
}

static void random_path(char *path, size_t size)
{
	static const char *const others[] = {"..", ".", "", "n1", "n2", "n3", "missing"};
	size_t length = (size_t)snprintf(path, size, "%s", random_below(3) ? "" : "/");
	for (unsigned i = 0, names = 1 + random_below(6); i < names; i++)
		length += (size_t)snprintf(path + length, size - length, "%s%s", i ? "/" : "",
		        random_below(4) ? "" : others[random_below(7)]);
	for (unsigned i = 0, names = random_below(4); i < names; i++)
		length +=
		        (size_t)snprintf(path + length, size - length, "/n%u", random_below(NAMES));
}

static void both_ways_open_the_same_file(void **state)
{
	char name[16], path[256], text[512];
	for (unsigned i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		random_path(path, sizeof(path));
		/* below the root or in a folder that was made before */
		int where = root,
		    in = i > 0 ? openat(root, "n0", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
		if (in >= 0 && random_below(3) == 0)
			where = in;
		unsigned kind = i == 0 ? 0 : random_below(4);
		if (kind == 0)
			assert_int_equal(mkdirat(where, name, 0700), 0);
		else if (kind == 1)
			put(where, name, name);
		else
			assert_int_equal(symlinkat(*path ? path : "/", where, name), 0);
		if (in >= 0)
			close(in);
	}
	unsigned opened = 0;
	for (unsigned i = 0; i < PATHS; i++) {
		random_path(path, sizeof(path));
		int fd = gm_inside_root_open(root, path, O_RDONLY | O_CLOEXEC);
		opened += fd >= 0;
		snprintf(text, sizeof(text), "%s", text_of(fd));
		const char *walked = text_of(gm_inside_root_walk(root, path, O_RDONLY | O_CLOEXEC));
		if (strcmp(walked, text) != 0)
			fail_msg("'%s': %s, and %s", path, text, walked);
	}
	assert_true(opened > PATHS / 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(links_stay_inside, make_root, remove_root),
	        cmocka_unit_test(links_of_the_kernel_are_not_followed),
	        cmocka_unit_test_setup_teardown(
	                the_root_of_a_process_is_known_by_its_path, make_root, remove_root),
	        cmocka_unit_test_setup_teardown(
	                a_link_of_another_root_is_resolved_there, make_root, remove_root),
	        cmocka_unit_test_setup_teardown(
	                both_ways_open_the_same_file, make_root, remove_root),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
