/* Files that get their name when they are complete. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/whole_file.h"

static char folder[64];

static const char *in_folder(const char *name)
{
	static char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static int make_folder(void **state)
{
	strcpy(folder, "/tmp/gpumem-whole-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return system(command);
}

static void put(const char *name, const char *text)
{
	FILE *file = fopen(in_folder(name), "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void expect(const char *name, const char *text)
{
	char found[64] = "";
	FILE *file = fopen(in_folder(name), "r");
	assert_non_null(file);
	found[fread(found, 1, sizeof(found) - 1, file)] = 0;
	fclose(file);
	assert_string_equal(found, text);
}

static unsigned count_entries(void)
{
	unsigned count = 0;
	DIR *listing = opendir(folder);
	assert_non_null(listing);
	for (struct dirent *entry; (entry = readdir(listing));)
		count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	closedir(listing);
	return count;
}

static struct gm_whole_file begin(const char *name, enum gm_whole_file_how how)
{
	struct gm_whole_file file;
	assert_null(gm_whole_file_open(in_folder(name), 0666, how, &file));
	assert_int_equal(write(file.fd, "new", 3), 3);
	return file;
}

static void refuse(const char *name, const char *why)
{
	struct gm_whole_file file;
	struct gm_error *error =
	        gm_whole_file_open(in_folder(name), 0666, GM_WHOLE_FILE_ANY, &file);
	assert_non_null(error);
	assert_non_null(strstr(error->message, why));
	gm_error_destroy(error);
}

static void the_old_file_stays_until_the_new_one_is_whole(void **state)
{
	for (int how = GM_WHOLE_FILE_ANY; how <= GM_WHOLE_FILE_NAMED; how++) {
		put("a", "old");
		struct gm_whole_file file = begin("a", how);
		expect("a", "old");
		gm_whole_file_close(&file);
		expect("a", "old");
		assert_int_equal(count_entries(), 1);
		file = begin("a", how);
		assert_null(gm_whole_file_finish(&file));
		expect("a", "new");
		assert_int_equal(count_entries(), 1);
	}
}

static void what_is_new_has_the_mode_that_was_asked_for(void **state)
{
	struct stat about;
	mode_t before = umask(027);
	struct gm_whole_file file = begin("a", GM_WHOLE_FILE_ANY);
	umask(before);
	assert_null(gm_whole_file_finish(&file));
	assert_int_equal(stat(in_folder("a"), &about), 0);
	assert_int_equal(about.st_mode & 07777, 0640);
}

static void users_files_of_like_names_are_not_touched(void **state)
{
	static const char *const names[] = {
	        "a.tmp", "a.part", "a.partial", ".a.gpumem-part", ".a.0123456789abcdef.gpumem-par"};
	for (size_t i = 0; i < 5; i++)
		put(names[i], "mine");
	put("a", "old");
	struct gm_whole_file file = begin("a", GM_WHOLE_FILE_ANY);
	assert_null(gm_whole_file_finish(&file));
	for (size_t i = 0; i < 5; i++)
		expect(names[i], "mine");
	expect("a", "new");
}

static void a_fifo_and_a_link_to_a_device_stay_what_they_are(void **state)
{
	struct stat about;
	char text[8] = "";
	assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
	int reader = open(in_folder("fifo"), O_RDONLY | O_NONBLOCK);
	struct gm_whole_file file = begin("fifo", GM_WHOLE_FILE_ANY);
	assert_null(gm_whole_file_finish(&file));
	assert_int_equal(read(reader, text, sizeof(text)), 3);
	assert_string_equal(text, "new");
	close(reader);
	assert_int_equal(lstat(in_folder("fifo"), &about), 0);
	assert_true(S_ISFIFO(about.st_mode));
	assert_int_equal(symlink("/dev/null", in_folder("nothing")), 0);
	file = begin("nothing", GM_WHOLE_FILE_ANY);
	assert_null(gm_whole_file_finish(&file));
	assert_int_equal(lstat(in_folder("nothing"), &about), 0);
	assert_true(S_ISLNK(about.st_mode));
}

static void own_links_are_followed(void **state)
{
	put("target", "old");
	assert_int_equal(symlink("target", in_folder("link")), 0);
	struct gm_whole_file file = begin("link", GM_WHOLE_FILE_ANY);
	assert_null(gm_whole_file_finish(&file));
	expect("target", "new");
}

static void links_of_others_are_refused(void **state)
{
	if (geteuid() != 0)
		skip(); /* only root can give a link to another user */
	put("target", "old");
	assert_int_equal(symlink("target", in_folder("link")), 0);
	assert_int_equal(lchown(in_folder("link"), 65534, 65534), 0);
	refuse("link", "another user's symbolic link");
	expect("target", "old");
}

static void a_folder_and_a_link_that_leads_nowhere_are_refused(void **state)
{
	assert_int_equal(mkdir(in_folder("folder"), 0700), 0);
	refuse("folder", "not a regular file");
	assert_int_equal(symlink("nowhere", in_folder("link")), 0);
	refuse("link", "cannot be written");
	refuse("no-such/a", "cannot be written");
	refuse("folder/", "not a regular file");
}

static void a_path_that_changes_meanwhile_is_not_replaced(void **state)
{
	struct gm_whole_file file = begin("a", GM_WHOLE_FILE_ANY);
	assert_int_equal(mkfifo(in_folder("a"), 0600), 0);
	struct gm_error *error = gm_whole_file_finish(&file);
	assert_non_null(error);
	gm_error_destroy(error);
	struct stat about;
	assert_int_equal(lstat(in_folder("a"), &about), 0);
	assert_true(S_ISFIFO(about.st_mode));
	assert_int_equal(count_entries(), 1);
}

static void a_killed_writers_file_is_removed_by_the_next_writer(void **state)
{
	pid_t child = fork();
	if (child == 0) {
		struct gm_whole_file killed;
		_exit(gm_whole_file_open(in_folder("a"), 0666, GM_WHOLE_FILE_NAMED, &killed) !=
		        NULL);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(count_entries(), 1);
	struct gm_whole_file other = begin("b", GM_WHOLE_FILE_NAMED),
	                     first = begin("a", GM_WHOLE_FILE_NAMED);
	assert_int_equal(count_entries(), 2);
	/* files that are being written are not leftovers */
	struct gm_whole_file second = begin("a", GM_WHOLE_FILE_ANY);
	assert_int_equal(count_entries(), 2);
	assert_null(gm_whole_file_finish(&second));
	assert_null(gm_whole_file_finish(&first));
	assert_null(gm_whole_file_finish(&other));
	assert_int_equal(count_entries(), 2);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        IN_FOLDER(the_old_file_stays_until_the_new_one_is_whole),
	        IN_FOLDER(what_is_new_has_the_mode_that_was_asked_for),
	        IN_FOLDER(users_files_of_like_names_are_not_touched),
	        IN_FOLDER(a_fifo_and_a_link_to_a_device_stay_what_they_are),
	        IN_FOLDER(own_links_are_followed),
	        IN_FOLDER(links_of_others_are_refused),
	        IN_FOLDER(a_folder_and_a_link_that_leads_nowhere_are_refused),
	        IN_FOLDER(a_path_that_changes_meanwhile_is_not_replaced),
	        IN_FOLDER(a_killed_writers_file_is_removed_by_the_next_writer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
