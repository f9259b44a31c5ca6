/* The version of cuDNN that is simulated: that of the cuDNN installed with PyTorch. */
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "sim/cuda/cudnn.h"
#include "sim/cuda/sim.h"

size_t cudnnGetVersion(void);

/* If the real one cannot be asked: the oldest with which a PyTorch for CUDA 13 was built. */
enum { VERSION = 91900 };

/* The text after `name` in the names of the folder's entries, such as "9.26.0.51" after
 * "nvidia_cudnn_cu13-"; 0 if there is none. */
static size_t wheel_version(const char *folder)
{
	size_t version = 0;
	DIR *site = opendir(folder);
	for (struct dirent *entry; site && !version && (entry = readdir(site));) {
		unsigned cuda, major, minor, patch;
		if (sscanf(entry->d_name, "nvidia_cudnn_cu%u-%u.%u.%u.", &cuda, &major, &minor,
		            &patch) == 4 &&
		        major < 100 && minor < 100 && patch < 100)
			version = major * 10000 + minor * 100 + patch;
	}
	if (site)
		closedir(site);
	return version;
}

/*
 * PyTorch rejects a cuDNN older than the one it was built with, and chooses attention's backend by
 * the version. So the version is that of the library which is replaced.
 * SITE/nvidia/cudnn/lib/libcudnn.so.9 is loaded, and SITE has the wheel's version in a name. A
 * cuDNN from elsewhere is asked itself, which loads 55 MB of it.
 */
static size_t real_version(void)
{
	struct link_map *map = NULL;
	char path[PATH_MAX];
	void *library = dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_NOLOAD);
	size_t version = 0;
	if (library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0]) {
		int length = snprintf(path, sizeof(path), "%s", map->l_name);
		for (int up = 0; up < 4 && length > 0 && (size_t)length < sizeof(path); up++) {
			char *slash = strrchr(path, '/');
			length = slash ? (int)(slash - path) : 0;
			path[length] = 0;
		}
		if (length > 0 && (size_t)length < sizeof(path))
			version = wheel_version(path);
		length = snprintf(path, sizeof(path), "%.*s/libcudnn_graph.so.9",
		        (int)(strrchr(map->l_name, '/') ? strrchr(map->l_name, '/') - map->l_name
		                                        : 0),
		        map->l_name);
		void *graph = !version && length > 0 && (size_t)length < sizeof(path)
		                      ? dlopen(path, RTLD_LAZY | RTLD_LOCAL)
		                      : NULL;
		size_t (*ask)(void) = NULL;
		if (graph)
			*(void **)&ask = dlsym(graph, "cudnnGetVersion");
		/* dlsym may find this very function, if the library is another library's stub. */
		if (ask && ask != cudnnGetVersion)
			version = ask();
	}
	if (library)
		dlclose(library);
	return version / 10000 == 9 ? version : VERSION;
}

static size_t version(void)
{
	static _Atomic size_t known;
	if (!known)
		known = real_version();
	return known;
}

GM_SIM_EXPORT size_t cudnnGetVersion(void)
{
	return version();
}

CUDNN_API(cudnnGetProperty, int type, int *ret)
{
	int whole = (int)version(), parts[] = {whole / 10000, whole / 100 % 100, whole % 100};
	if (type < 0 || type > 2 || !ret)
		return CUDNN_BAD_PARAM;
	*ret = parts[type];
	return CUDNN_SUCCESS;
}
