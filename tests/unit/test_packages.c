/* Whose a Python file is, by its path: with PyTorch in site-packages, and elsewhere. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/packages.h"

static const char *part(const char *path)
{
	size_t rest;
	return gm_packages_part(path, strlen(path), &rest);
}

static void see(const char *path)
{
	gm_packages_see(path, strlen(path));
}

static void installed_files_are_known_by_their_folder(void **state)
{
	assert_string_equal(part("/v/lib/python3.11/site-packages/torch/_ops.py"), "torch/_ops.py");
	assert_string_equal(part("/usr/lib/python3/dist-packages/a/site-packages/b.py"), "b.py");
	assert_true(gm_file_is_torch("/v/site-packages/torch/nn/functional.py"));
	assert_false(gm_file_is_torch("/v/site-packages/torchvision/ops.py"));
	assert_true(gm_file_is_library("/usr/lib/python3.11/runpy.py"));
	assert_true(gm_file_is_library("<frozen runpy>"));
	assert_false(gm_file_is_library("/home/u/train.py"));
	assert_false(gm_file_is_library(""));
	assert_string_equal(
	        part("/home/u/.pex/installed_wheels/0a/kit-1.0-py3-none-any.whl/kit/a.py"),
	        "kit/a.py");
	assert_string_equal(part("/v/site-packages/kit-1.0-py3.11.egg/kit/a.py"), "kit/a.py");
}

static void only_folders_of_that_very_name_are_pythons_or_of_packages(void **state)
{
	assert_false(gm_file_is_library("/home/u/work-packages/train.py"));
	assert_false(gm_file_is_library("/home/u/lib/python3-experiments/train.py"));
	assert_false(gm_file_is_library("/home/u/lib/python3"));
	assert_true(gm_file_is_library("/usr/lib/python3.15t/threading.py"));
	assert_true(gm_file_is_library("/opt/lib/python311.zip/threading.py"));
	assert_true(gm_file_is_library("/usr/lib/python3/x.py"));
}

static void code_that_was_typed_is_the_programs_and_generated_code_is_not(void **state)
{
	static const char *const typed[] = {"<string>", "<stdin>", "<stdin>-3", "<python-input-7>",
	        "<ipython-input-3-0a1b2c>", "<timed exec>", "<command-1234>", "<console>"};
	static const char *const generated[] = {"<frozen runpy>", "<eval_with_key>.3",
	        "<attrs generated init x.Y>", "<__array_function__ internals>",
	        "<lambdifygenerated-1>"};
	for (size_t i = 0; i < sizeof(typed) / sizeof(typed[0]); i++)
		assert_false(gm_file_is_library(typed[i]));
	for (size_t i = 0; i < sizeof(generated) / sizeof(generated[0]); i++)
		assert_true(gm_file_is_library(generated[i]));
}

static void folders_whose_names_end_as_pytorchs_are_not_its_own(void **state)
{
	assert_true(gm_file_is_in_torch("/v/site-packages/torch/optim/adam.py", "/torch/optim/"));
	assert_true(gm_file_is_in_torch("torch/optim/adam.py", "/torch/optim/"));
	assert_false(
	        gm_file_is_in_torch("/v/site-packages/botorch/optim/core.py", "/torch/optim/"));
	assert_false(gm_file_is_in_torch("/home/u/torch/optim/train.py", "/torch/optim/"));
	assert_true(gm_file_is_of_torch("/v/site-packages/torch/_tensor.py", "/torch/_tensor.py"));
	assert_true(gm_file_is_of_torch("torch/_tensor.py", "/torch/_tensor.py"));
	assert_false(
	        gm_file_is_of_torch("/v/site-packages/kit/torch/_tensor.py", "/torch/_tensor.py"));
	assert_false(gm_file_is_of_torch("mytorch/_tensor.py", "/torch/_tensor.py"));
}

static void files_of_windows_are_known_too(void **state)
{
	assert_true(gm_file_is_torch("C:/Python311/Lib/site-packages/torch/nn/functional.py"));
	assert_true(gm_file_is_library("C:/Python311/Lib/threading.py"));
	assert_true(gm_file_is_library("c:/conda/envs/x/lib/contextlib.py"));
	assert_false(gm_file_is_library("D:/exp/lib/train.py"));
	assert_false(gm_file_is_library("/data/lib/threading.py"));
	see("D:/target/torch/nn/modules/module.py");
	assert_true(gm_file_is_torch("D:/target/torch/optim/adam.py"));
	assert_false(gm_file_is_library("E:/target/torch/optim/adam.py"));
}

static void a_folder_with_pytorch_is_learned(void **state)
{
	assert_false(gm_file_is_library("/opt/target/torch/optim/adam.py"));
	see("/opt/target/torch/nn/modules/module.py");
	assert_true(gm_file_is_torch("/opt/target/torch/optim/adam.py"));
	assert_true(gm_file_is_library("/opt/target/transformers/trainer.py"));
	assert_false(gm_file_is_torch("/opt/target/transformers/trainer.py"));
	assert_string_equal(part("/opt/target/torch/optim/adam.py"), "torch/optim/adam.py");
	assert_false(gm_file_is_library("/opt/other/torch/optim/adam.py"));
	see("/src/clone/torch/lib/libtorch_cpu.so");
	assert_true(gm_file_is_torch("/src/clone/torch/optim/adam.py"));
	assert_false(gm_file_is_library("/src/clone/benchmarks/train.py"));
	assert_false(gm_file_is_library("/src/clone/train.py"));
}

static void a_users_own_folder_called_torch_is_not_learned(void **state)
{
	see("/home/u/torch/utils/__init__.py");
	see("/home/u/torch/distributed/train.py");
	see("/home/u/torch/train.py");
	see("torch/nn/modules/module.py");
	see("/torch/nn/modules/module.py"); /* every absolute path would be one of a package */
	see("/v/site-packages/kit/torch/nn/modules/module.py");
	assert_false(gm_file_is_library("/home/u/torch/train.py"));
	assert_false(gm_file_is_library("/home/u/x/y.py"));
	assert_string_equal(part("/v/site-packages/kit/torch/nn/modules/module.py"),
	        "kit/torch/nn/modules/module.py");
}

static void no_more_than_a_few_are_learned(void **state)
{
	char path[4096];
	for (int i = 0; i < 1000; i++) {
		snprintf(path, sizeof(path), "/many/%d/torch/nn/modules/module.py", i);
		see(path);
	}
	assert_true(gm_file_is_torch("/many/3/torch/optim/adam.py"));
	assert_false(gm_file_is_torch("/many/900/torch/optim/adam.py"));
	memset(path, 'x', sizeof(path));
	memcpy(path, "/", 1);
	memcpy(path + sizeof(path) - 16, "/torch/_refs/ab", 16);
	see(path);
	assert_false(gm_file_is_torch(path));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(installed_files_are_known_by_their_folder),
	        cmocka_unit_test(only_folders_of_that_very_name_are_pythons_or_of_packages),
	        cmocka_unit_test(code_that_was_typed_is_the_programs_and_generated_code_is_not),
	        cmocka_unit_test(folders_whose_names_end_as_pytorchs_are_not_its_own),
	        cmocka_unit_test(files_of_windows_are_known_too),
	        cmocka_unit_test(a_folder_with_pytorch_is_learned),
	        cmocka_unit_test(a_users_own_folder_called_torch_is_not_learned),
	        cmocka_unit_test(no_more_than_a_few_are_learned),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
