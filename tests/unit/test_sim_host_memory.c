/* How much memory the host has left, read from made-up /proc and /sys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "sim/host_memory.h"

#define MIB(n) (UINT64_C(n) << 20)

static char root[64];

static void put(const char *name, const char *text)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		mkdir(path, 0755);
		*at = '/';
	}
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int make(void **state)
{
	strcpy(root, "/tmp/gpumem-host-XXXXXX");
	if (!mkdtemp(root))
		return 1;
	put("proc/meminfo",
	        "MemTotal:       16777216 kB\nMemFree: 12 kB\nMemAvailable:    8388608 kB\n");
	return 0;
}

static int tidy(void **state)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command);
}

static void check(uint64_t left, uint64_t whole)
{
	struct gm_sim_host_memory memory;
	gm_sim_host_memory(root, &memory);
	assert_int_equal(memory.left, left);
	assert_int_equal(memory.whole, whole);
}

static void without_groups_it_is_the_machines_memory(void **state)
{
	check(MIB(8192), MIB(16384));
	put("proc/self/cgroup", "0::/\n");
	check(MIB(8192), MIB(16384));
}

static void a_group_of_version_2_leaves_its_limit_less_what_is_in_use(void **state)
{
	put("proc/self/cgroup", "0::/a/b\n");
	put("sys/fs/cgroup/a/b/memory.max", "max\n");
	put("sys/fs/cgroup/a/memory.max", "1073741824\n");
	put("sys/fs/cgroup/a/memory.current", "805306368\n");
	check(MIB(256), MIB(1024));
	put("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 134217728\nactive_file 7\n");
	check(MIB(384), MIB(1024));
}

static void a_container_s_group_may_be_its_root(void **state)
{
	put("proc/self/cgroup", "0::/../elsewhere\n");
	put("sys/fs/cgroup/memory.max", "536870912\n");
	put("sys/fs/cgroup/memory.current", "1073741824\n");
	check(0, MIB(512));
}

static void a_group_of_version_1_counts_too(void **state)
{
	put("proc/self/cgroup", "3:cpu:/x\n4:memory:/process/1\n0::/\n");
	put("sys/fs/cgroup/memory/process/1/memory.limit_in_bytes", "9223372036854771712\n");
	put("sys/fs/cgroup/memory/process/1/memory.usage_in_bytes", "4096\n");
	check(MIB(8192), MIB(16384));
	put("sys/fs/cgroup/memory/process/1/memory.limit_in_bytes", "268435456\n");
	check(MIB(256) - 4096, MIB(256));
}

static void damaged_files_say_nothing(void **state)
{
	put("proc/meminfo", "MemTotal: many\nMemAvailable\n");
	put("proc/self/cgroup", "::\n0\nmemory\n4:memory:nowhere\n0::");
	check(UINT64_MAX, UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(
	                without_groups_it_is_the_machines_memory, make, tidy),
	        cmocka_unit_test_setup_teardown(
	                a_group_of_version_2_leaves_its_limit_less_what_is_in_use, make, tidy),
	        cmocka_unit_test_setup_teardown(a_container_s_group_may_be_its_root, make, tidy),
	        cmocka_unit_test_setup_teardown(a_group_of_version_1_counts_too, make, tidy),
	        cmocka_unit_test_setup_teardown(damaged_files_say_nothing, make, tidy),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
