/* Which files nobody else could have put there. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/trusted_path.h"

static char folder[] = "/tmp/gpumem-trusted-XXXXXX";
static char inner[64], file[96], link_to[96], through[96];

static int set_up(void **state)
{
	if (!mkdtemp(folder))
		return 1;
	snprintf(inner, sizeof(inner), "%s/bin", folder);
	snprintf(file, sizeof(file), "%s/python3", inner);
	snprintf(link_to, sizeof(link_to), "%s/python3", folder);
	snprintf(through, sizeof(through), "%s/bin/../python3", folder);
	int fd = mkdir(inner, 0755) == 0 ? open(file, O_CREAT | O_WRONLY, 0755) : -1;
	if (fd < 0)
		return 1;
	return close(fd) != 0 || chmod(inner, 0755) != 0 || chmod(file, 0755) != 0 ||
	       symlink("bin/python3", link_to) != 0;
}

static int tear_down(void **state)
{
	unlink(link_to);
	unlink(file);
	rmdir(inner);
	return rmdir(folder);
}

static void what_is_ours_is_trusted_and_what_is_not_there_is_not(void **state)
{
	assert_true(gm_path_is_trusted(file));
	assert_true(gm_path_is_trusted(link_to));
	assert_true(gm_path_is_trusted(through));
	assert_true(gm_path_is_trusted("/bin/sh"));
	assert_false(gm_path_is_trusted("/tmp/gpumem-trusted/python3"));
	assert_false(gm_path_is_trusted(""));
}

static void what_others_can_write_to_is_not_trusted(void **state)
{
	assert_int_equal(chmod(file, 0757), 0);
	assert_false(gm_path_is_trusted(file));
	assert_false(gm_path_is_trusted(link_to));
	assert_int_equal(chmod(file, 0755), 0);
	/* a folder through which the link leads */
	assert_int_equal(chmod(inner, 0777), 0);
	assert_false(gm_path_is_trusted(link_to));
	assert_false(gm_path_is_trusted(through));
	assert_int_equal(chmod(inner, 01777), 0);
	assert_true(gm_path_is_trusted(link_to));
	assert_int_equal(chmod(inner, 0755), 0);
	/* a relative name begins in the current folder */
	int here = open(".", O_RDONLY | O_DIRECTORY);
	assert_int_equal(chdir(folder), 0);
	assert_true(gm_path_is_trusted("bin/python3"));
	assert_int_equal(chmod(folder, 0777), 0);
	assert_false(gm_path_is_trusted("bin/python3"));
	assert_int_equal(chmod(folder, 0700), 0);
	assert_int_equal(fchdir(here), 0);
	close(here);
}

static void what_belongs_to_another_user_is_not_trusted(void **state)
{
	enum { OTHER = 4242 };
	if (geteuid() != 0)
		skip(); /* only root gives files away */
	const char *const paths[] = {file, inner, link_to};
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		assert_int_equal(lchown(paths[i], OTHER, OTHER), 0);
		assert_false(gm_path_is_trusted(link_to));
		assert_int_equal(lchown(paths[i], 0, 0), 0);
		assert_true(gm_path_is_trusted(link_to));
	}
	assert_int_equal(lchown(file, 0, OTHER), 0);
	assert_int_equal(chmod(file, 0775), 0);
	assert_false(gm_path_is_trusted(file));
	assert_int_equal(lchown(file, 0, getegid()), 0);
	assert_true(gm_path_is_trusted(file));
	assert_int_equal(chmod(file, 0755), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(what_is_ours_is_trusted_and_what_is_not_there_is_not),
	        cmocka_unit_test(what_others_can_write_to_is_not_trusted),
	        cmocka_unit_test(what_belongs_to_another_user_is_not_trusted),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
