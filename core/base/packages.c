#include "base/packages.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

enum { FOLDERS_MAX = 16, FOLDER_BYTES = 1024 };

/* Learned folders, each ending with a slash. */
static struct folder {
	_Atomic size_t length; /* 0: not written yet */
	char path[FOLDER_BYTES];
} folders[FOLDERS_MAX];
static _Atomic size_t count;

/* ---- paths ----------------------------------------------------------------------------------- */

static bool begins(const char *text, size_t length, const char *with)
{
	size_t size = strlen(with);
	return length >= size && memcmp(text, with, size) == 0;
}

/* What follows the last occurrence of `mark`. */
static const char *after_last(const char *path, size_t length, const char *mark)
{
	const char *found = NULL, *end = path + length, *at = path;
	size_t size = strlen(mark);
	while ((at = memmem(at, (size_t)(end - at), mark, size)))
		found = at = at + size;
	return found;
}

/* "C:/a", as files of Windows are named in recordings. */
static bool has_drive(const char *path, size_t length)
{
	return length > 2 && isalpha((unsigned char)path[0]) && path[1] == ':' && path[2] == '/';
}

/* A wheel or egg that is itself a folder (PEX, easy_install) holds packages as site-packages does.
 */
static const char *after_packages(const char *path, size_t length)
{
	static const char *const marks[] = {"/site-packages/", "/dist-packages/", ".whl/", ".egg/"};
	const char *found = NULL;
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		const char *part = after_last(path, length, marks[i]);
		if (part && (!found || part > found))
			found = part;
	}
	return found;
}

/* A clone of PyTorch has such folders beside the package: what is in them is a program. */
static bool is_program_beside(const char *part, size_t length)
{
	static const char *const names[] = {
	        "test/", "tests/", "benchmarks/", "examples/", "scripts/", "tools/"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (begins(part, length, names[i]))
			return true;
	return !memchr(part, '/', length);
}

const char *gm_packages_part(const char *path, size_t length, size_t *ret_length)
{
	const char *end = path + length, *part = after_packages(path, length);
	size_t known = atomic_load_explicit(&count, memory_order_relaxed);
	for (size_t i = 0; !part && i < known && i < FOLDERS_MAX; i++) {
		size_t size = atomic_load_explicit(&folders[i].length, memory_order_acquire);
		if (size && length > size && memcmp(path, folders[i].path, size) == 0 &&
		        !is_program_beside(path + size, length - size))
			part = path + size;
	}
	if (part)
		*ret_length = (size_t)(end - part);
	return part;
}

bool gm_packages_torch(const char *path, size_t length)
{
	size_t rest;
	const char *part = gm_packages_part(path, length, &rest);
	if (part)
		return begins(part, rest, "torch/");
	return memmem(path, length, "/pytorch/torch/", 15) != NULL;
}

bool gm_packages_other(const char *path, size_t length)
{
	size_t rest;
	return gm_packages_part(path, length, &rest) && !gm_packages_torch(path, length);
}

/* "/usr/lib/python3.11/", "/usr/lib/python3/", "/opt/x/lib/python3.15t/", "/lib/python311.zip/" */
static bool is_in_pythons_folder(const char *path, size_t length)
{
	const char *name = after_last(path, length, "/lib/python3"), *end = path + length;
	while (name && name < end && (isdigit((unsigned char)*name) || *name == '.'))
		name++;
	if (!name || name == end)
		return false;
	size_t rest = (size_t)(end - name);
	return begins(name, rest, "/") || begins(name, rest, "t/") || begins(name, rest, "zip/");
}

/* On Windows Python's own files are in a folder Lib, and that may be anybody's: these are the ones
 * that call other code, and so are on stacks. */
static bool is_pythons_on_windows(const char *path, size_t length)
{
	static const char *const known[] = {"_pyrepl/", "_threading_local.py", "abc.py", "ast.py",
	        "asyncio/", "bdb.py", "cProfile.py", "cmd.py", "code.py", "codeop.py",
	        "collections/", "concurrent/", "contextlib.py", "copy.py", "ctypes/",
	        "dataclasses.py", "enum.py", "functools.py", "html/", "http/", "importlib/",
	        "inspect.py", "json/", "logging/", "multiprocessing/", "pathlib.py", "pdb.py",
	        "pickle.py", "pkgutil.py", "profile.py", "queue.py", "random.py", "runpy.py",
	        "selectors.py", "socketserver.py", "subprocess.py", "tempfile.py", "threading.py",
	        "timeit.py", "trace.py", "traceback.py", "types.py", "typing.py", "unittest/",
	        "warnings.py", "weakref.py", "wsgiref/", "xmlrpc/", "zipfile/"};
	if (!has_drive(path, length))
		return false;
	const char *part = after_last(path, length, "/Lib/");
	if (!part)
		part = after_last(path, length, "/lib/"); /* conda */
	for (size_t i = 0; part && i < sizeof(known) / sizeof(known[0]); i++)
		if (begins(part, (size_t)(path + length - part), known[i]))
			return true;
	return false;
}

/* Code that a person typed, or passed on a command line, has no file; nor has what libraries
 * generate ("<frozen runpy>", "<attrs generated init>", "<eval_with_key>.1"). */
static bool is_typed(const char *path, size_t length)
{
	static const char *const names[] = {"<string>",   /* python -c */
	        "<stdin>", "<python-input-", "<console>", /* Python's own prompt */
	        "<ipython-input-", "<ipython console>", "<timed exec>", "<timed eval>",
	        "<magic-timeit>", "<cell ", /* notebooks */
	        "<command-",                /* Databricks */
	        "<input>",                  /* PyCharm */
	        "<doctest "};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (begins(path, length, names[i]))
			return true;
	return false;
}

bool gm_packages_library(const char *path, size_t length)
{
	size_t rest;
	return (length && path[0] == '<' && !is_typed(path, length)) ||
	       gm_packages_part(path, length, &rest) || is_in_pythons_folder(path, length) ||
	       is_pythons_on_windows(path, length);
}

/* Frames of archives that hold PyTorch at their top have relative paths. */
static bool is_relative(const char *file, const char *name)
{
	return strncmp(file, name + 1, strlen(name + 1)) == 0;
}

bool gm_file_is_of_torch(const char *file, const char *name)
{
	size_t length = strlen(file), size = strlen(name);
	if (length < size)
		return length + 1 == size && is_relative(file, name);
	return strcmp(file + length - size, name) == 0 && gm_packages_torch(file, length);
}

bool gm_file_is_in_torch(const char *file, const char *folder)
{
	return is_relative(file, folder) || (strstr(file, folder) && gm_file_is_torch(file));
}

/* ---- learning -------------------------------------------------------------------------------- */

/* Files that no other package called torch has. A folder of somebody's experiments may well have
 * torch/utils/ or torch/distributed/. */
static bool is_only_pytorchs(const char *part, size_t length)
{
	static const char *const known[] = {"lib/libc10.so", "lib/libc10_cuda.so", "lib/libtorch",
	        "nn/modules/", "nn/parallel/", "nn/functional.py", "nn/parameter.py", "nn/init.py",
	        "optim/optimizer.py", "optim/lr_scheduler.py", "autograd/__init__.py",
	        "autograd/function.py", "autograd/grad_mode.py", "autograd/graph.py",
	        "amp/autocast_mode.py", "amp/grad_scaler.py", "cuda/__init__.py", "cuda/graphs.py",
	        "cuda/memory.py", "cuda/amp/", "utils/_contextlib.py", "utils/_device.py",
	        "utils/_foreach_utils.py", "utils/_python_dispatch.py", "utils/data/_utils/",
	        "utils/data/dataloader.py", "utils/checkpoint.py", "distributed/fsdp/",
	        "distributed/distributed_c10d.py", "distributed/tensor/", "fx/graph_module.py",
	        "_tensor.py", "_ops.py", "_dynamo/", "_inductor/", "_functorch/", "_refs/",
	        "_prims/", "_decomp/", "_subclasses/"};
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (begins(part, length, known[i]))
			return true;
	return false;
}

void gm_packages_see(const char *path, size_t length)
{
	bool absolute = (length && path[0] == '/') || has_drive(path, length);
	const char *part = absolute ? after_last(path, length, "/torch/") : NULL;
	size_t rest, size = part ? (size_t)(part - path) - 6 : 0; /* without "torch/" */
	if (!part || size < 2 || size >= FOLDER_BYTES ||
	        !is_only_pytorchs(part, (size_t)(path + length - part)) ||
	        gm_packages_part(path, length, &rest))
		return;
	/* two threads may learn the same at once: it is there twice then */
	size_t mine = atomic_load(&count);
	do
		if (mine >= FOLDERS_MAX)
			return;
	while (!atomic_compare_exchange_weak(&count, &mine, mine + 1));
	memcpy(folders[mine].path, path, size);
	atomic_store_explicit(&folders[mine].length, size, memory_order_release);
}
