/*
 * Whose a Python file is, by its path: Python's own, an installed package's, PyTorch's, or the
 * program's.
 *
 * Installed packages are in a folder site-packages or dist-packages. PyTorch may be elsewhere
 * (`pip install --target DIR`, a build from source): such a folder is learned from the path of a
 * file that only PyTorch has, and is one of packages from then on, for the whole process. At most
 * 16 are learned. All functions may be called by several threads at once; they allocate nothing and
 * take no lock.
 */
#ifndef GM_BASE_PACKAGES_H
#define GM_BASE_PACKAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Learns from the path of a Python file or of a library: to be called for each that is read, before
 * the others are asked about it. */
void gm_packages_see(const char *path, size_t length);
/* What follows the last folder of packages in a path, as "torch/nn/functional.py"; NULL: it is in
 * none. The rest is `*ret_length` bytes. */
const char *gm_packages_part(const char *path, size_t length, size_t *ret_length);
/* Is it a file of the package `torch` itself? */
bool gm_packages_torch(const char *path, size_t length);
/* Is it of an installed package other than `torch`? */
bool gm_packages_other(const char *path, size_t length);
/* Is it of an installed package or of Python itself, or generated ("<frozen importlib>")? What is
 * not is the program's own, also without a file: "<stdin>", "<ipython-input-3-0a1b>". */
bool gm_packages_library(const char *path, size_t length);

static inline bool gm_file_is_library(const char *file)
{
	return gm_packages_library(file, strlen(file));
}

static inline bool gm_file_is_torch(const char *file)
{
	return gm_packages_torch(file, strlen(file));
}

/* Is it PyTorch's file of this name, as "/torch/nn/modules/module.py"? botorch/optim/core.py is not
 * in
 * "/torch/optim/", nor is a file of the program's own folder torch/. */
bool gm_file_is_of_torch(const char *file, const char *name);
/* Is it in a folder of PyTorch's, as "/torch/optim/"? Also "/torch/distributed/_functional_coll":
 * what begins so. */
bool gm_file_is_in_torch(const char *file, const char *folder);

#endif
