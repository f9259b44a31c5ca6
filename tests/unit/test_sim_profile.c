/* The simulated devices' profiles: what may be asked for, and that no figure is missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "sim/account.h"
#include "sim/launch.h"
#include "sim/profile.h"

static void is(const char *spec, uint64_t memory, unsigned count, const char *device)
{
	struct gm_sim_choice choice;
	struct gm_error *error = gm_sim_profile_parse(spec, &choice);
	assert_null(error);
	assert_int_equal(choice.profile.memory, memory);
	assert_int_equal(choice.count, count);
	assert_string_equal(choice.profile.device_name, device);
}

static void a_spec_is_a_name_or_a_size_and_a_count(void **state)
{
	const char *h100 = "NVIDIA H100 80GB HBM3";
	is(NULL, UINT64_C(85028896768), 1, h100);
	is("", UINT64_C(85028896768), 1, h100);
	is("h100-80gb", UINT64_C(85028896768), 1, h100);
	is("H100-80GBx8", UINT64_C(85028896768), 8, h100);
	is("t4-16gb", UINT64_C(15828320256), 1, "Tesla T4");
	is("rtx4090-24gb", UINT64_C(25393692672), 1, "NVIDIA GeForce RTX 4090");
	is("rtx4090-24gbx2", UINT64_C(25393692672), 2, "NVIDIA GeForce RTX 4090");
	is("24GiB", UINT64_C(24) << 30, 1, h100);
	is("24gb", UINT64_C(24) << 30, 1, h100);
	is("1.5Gx2", UINT64_C(3) << 29, 2, h100);
	is("500MiB", UINT64_C(500) << 20, 1, h100);
}

static void a_wrong_spec_is_a_usage_error_that_names_the_profiles(void **state)
{
	static const char *const wrong[] = {"h100", "h100-80gbx0", "h100-80gbx17", "24", "GiB",
	        "-1GiB", "nanGiB", "infGiB", "1KiB", "63MiB", "5TiB", "24GiBx", "x2", "24 GiB",
	        "0x10GiB", "24GiBy", "1e400GiB"};
	char text[600];
	memset(text, '1', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	for (size_t i = 0; i <= sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct gm_sim_choice choice;
		const char *spec = i < sizeof(wrong) / sizeof(wrong[0]) ? wrong[i] : text;
		struct gm_error *error = gm_sim_profile_parse(spec, &choice);
		if (!error)
			fail_msg("'%s' was taken", spec);
		assert_int_equal(error->status, GM_USAGE);
		assert_non_null(
		        strstr(error->message, "h100-80gb, h200-141gb, a100-80gb, a100-40gb, "
		                               "l4-24gb, rtx4090-24gb, t4-16gb"));
		gm_error_destroy(error);
	}
}

static void a_small_device_keeps_most_of_its_memory(void **state)
{
	struct gm_sim_choice choice;
	assert_null(gm_sim_profile_parse("1GiB", &choice));
	assert_true(choice.profile.context <= UINT64_C(1) << 27);
}

/* A zero there is divided by, inside CUB or PyTorch. */
static void what_programs_divide_by_is_never_zero(void **state)
{
	static const char *const names[] = {"MaxThreadsPerBlock", "MaxGridDimX", "MaxGridDimY",
	        "WarpSize", "MultiProcessorCount", "MaxThreadsPerMultiProcessor",
	        "MaxBlocksPerMultiprocessor", "MaxSharedMemoryPerBlock",
	        "MaxSharedMemoryPerMultiprocessor", "L2CacheSize", "ClockRate", "MemoryClockRate",
	        "GlobalMemoryBusWidth", "ComputeCapabilityMajor"};
	size_t found = 0;
	for (const struct gm_sim_profile *p = gm_sim_profiles; p->name; p++) {
		const char *name;
		int id, known;
		for (size_t n = 0; (name = gm_sim_profile_attribute_name(n, &id)); n++)
			for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
				if (strcmp(name, names[i]) == 0) {
					assert_true(gm_sim_profile_attribute(p, id, &known) > 0);
					found++;
				}
	}
	assert_int_equal(found, 7 * sizeof(names) / sizeof(names[0]));
}

/* They are searched by halves. */
static void attributes_are_in_the_order_of_their_numbers(void **state)
{
	int before = 0, id, known;
	for (size_t n = 0; gm_sim_profile_attribute_name(n, &id); n++) {
		assert_true(id > before);
		gm_sim_profile_attribute(&gm_sim_profiles[0], id, &known);
		assert_true(known);
		before = id;
	}
	gm_sim_profile_attribute(&gm_sim_profiles[0], before + 1, &known);
	assert_false(known);
}

static void settings_preload_the_libraries_and_keep_what_was_preloaded(void **state)
{
	char **settings;
	setenv("GPUMEM_SIM_LIBRARY", GM_BINARY_DIR "/lib/libgpumem-sim.so", 1);
	setenv("LD_PRELOAD", "/nowhere/libmine.so", 1);
	struct gm_sim_launch launch = {.profile = "24GiBx2", .json = "/tmp/account"};
	assert_null(gm_sim_settings(&launch, &settings));
	unsetenv("LD_PRELOAD");
	assert_non_null(strstr(settings[0], "/libgpumem-sim.so:"));
	assert_non_null(strstr(settings[0], "/libgpumem-sim-driver.so:"));
	assert_non_null(strstr(settings[0], "/libgpumem-sim-runtime12.so:/nowhere/libmine.so"));
	assert_string_equal(settings[1], "GPUMEM_SIM=24GiBx2");
	assert_string_equal(settings[2], "GPUMEM_SIM_JSON=/tmp/account");
	assert_non_null(strstr(settings[3], "TRITON_LIBCUDA_PATH="));
	assert_non_null(strstr(settings[4], "GPUMEM_SIM_MACHINE="));
	assert_null(settings[5]);
	gm_sim_settings_free(settings);
}

static void a_missing_library_is_reported(void **state)
{
	char **settings;
	setenv("GPUMEM_SIM_LIBRARY", "/nowhere/libgpumem-sim.so", 1);
	struct gm_error *error = gm_sim_settings(&(struct gm_sim_launch){0}, &settings);
	unsetenv("GPUMEM_SIM_LIBRARY");
	assert_non_null(error);
	assert_int_equal(error->status, GM_TARGET);
	assert_non_null(strstr(error->message, "/nowhere/libgpumem-sim.so"));
	gm_error_destroy(error);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_spec_is_a_name_or_a_size_and_a_count),
	        cmocka_unit_test(a_wrong_spec_is_a_usage_error_that_names_the_profiles),
	        cmocka_unit_test(a_small_device_keeps_most_of_its_memory),
	        cmocka_unit_test(what_programs_divide_by_is_never_zero),
	        cmocka_unit_test(attributes_are_in_the_order_of_their_numbers),
	        cmocka_unit_test(settings_preload_the_libraries_and_keep_what_was_preloaded),
	        cmocka_unit_test(a_missing_library_is_reported),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
