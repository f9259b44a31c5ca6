#include "sim/launch.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sibling_path.h"
#include "base/cleanup.h"
#include "sim/machine.h"
#include "sim/profile.h"
#include "sim/store.h"

#define LIBRARY "libgpumem-sim.so"
#define DRIVER "libgpumem-sim-driver.so"
#define NVML "libgpumem-sim-nvml.so"
#define RUNTIME12 "libgpumem-sim-runtime12.so"

struct gm_error *gm_sim_library(char **ret)
{
	const char *named = getenv("GPUMEM_SIM_LIBRARY");
	if (named && *named) {
		*ret = realpath(named, NULL);
		if (!*ret)
			return gm_error_create(GM_TARGET,
			        "simulated device: GPUMEM_SIM_LIBRARY=%s: there is no such file: "
			        "name "
			        "libgpumem-sim.so",
			        named);
		return NULL;
	}
	*ret = gm_installed_path(LIBRARY);
	if (!*ret)
		return gm_error_create(GM_TARGET,
		        "simulated device: " LIBRARY " is not installed next to this program: "
		        "install gpumem whole, or set GPUMEM_SIM_LIBRARY");
	return NULL;
}

static char *real_device(void)
{
	/* NVIDIA's driver, and its counterpart under WSL. */
	static const char *const names[] = {"nvidia[0-9]*", "dxg"};
	const char *folder = getenv("GPUMEM_DEV");
	char *found = NULL;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !found; i++) {
		_cleanup_free_ char *pattern = NULL;
		glob_t list = {0};
		if (asprintf(&pattern, "%s/%s", folder && *folder ? folder : "/dev", names[i]) < 0)
			return NULL;
		if (glob(pattern, 0, NULL, &list) == 0 && list.gl_pathc)
			found = strdup(list.gl_pathv[0]);
		globfree(&list);
	}
	return found;
}

char *gm_sim_real_device_note(const char *profile)
{
	const char *quiet = getenv("GPUMEM_SIM_QUIET");
	_cleanup_free_ char *file =
	        quiet && *quiet && strcmp(quiet, "0") != 0 ? NULL : real_device();
	char *note = NULL;
	if (file && asprintf(&note,
	                    "gpumem: %s: this machine's GPU is not used: the program runs on the "
	                    "simulated %s; without --sim it runs on the GPU",
	                    file, profile && *profile ? profile : gm_sim_profiles[0].name) < 0)
		return NULL;
	return note;
}

void gm_sim_settings_free(char **settings)
{
	for (char **at = settings; at && *at; at++)
		free(*at);
	free(settings);
}

/* The entries of a list that another has not, each after a colon; NULL: no memory. */
static char *without(const char *list, const char *other)
{
	size_t kept = 0;
	char *rest = malloc(strlen(list) + 2);
	for (size_t size; rest && *list; list += size) {
		size = strcspn(list, " :");
		const char *found = size ? memmem(other, strlen(other), list, size) : NULL;
		bool whole = found && (found == other || found[-1] == ':') &&
		             (!found[size] || found[size] == ':');
		if (size && !whole) {
			rest[kept++] = ':';
			memcpy(rest + kept, list, size);
			kept += size;
		}
		size += list[size] != 0;
	}
	if (rest)
		rest[kept] = 0;
	return rest;
}

/* LD_PRELOAD is split at spaces and colons, and has no escape for them. */
static struct gm_error *preload(char **ret)
{
	_cleanup_free_ char *library = NULL;
	struct gm_error *error = gm_sim_library(&library);
	if (error)
		return error;
	if (strpbrk(library, " :"))
		return gm_error_create(GM_TARGET,
		        "simulated device: %s: the loader cannot preload from a path with a space "
		        "or colon: "
		        "install gpumem elsewhere",
		        library);
	int folder = (int)(strrchr(library, '/') - library);
	_cleanup_free_ char *ours = NULL;
	if (asprintf(&ours, "%s:%.*s/" DRIVER ":%.*s/" NVML ":%.*s/" RUNTIME12, library, folder,
	            library, folder, library, folder, library) < 0)
		return &gm_error_no_memory;
	const char *before = getenv("LD_PRELOAD");
	_cleanup_free_ char *others = without(before ? before : "", ours);
	if (!others || asprintf(ret, "LD_PRELOAD=%s%s", ours, others) < 0)
		return &gm_error_no_memory;
	return NULL;
}

/* "4096", "64KiB", "1MiB" in bytes. */
static struct gm_error *compute_below(const char *text, char **ret)
{
	static const struct {
		const char *name;
		unsigned shift;
	} units[] = {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
	char *end;
	errno = 0;
	unsigned long long number = strtoull(text, &end, 10);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (*text >= '0' && *text <= '9' && !errno && strcmp(end, units[i].name) == 0 &&
		        number <= (1ull << 40) >> units[i].shift)
			return asprintf(ret, "GPUMEM_SIM_COMPUTE_BELOW=%llu",
			               number << units[i].shift) < 0
			               ? &gm_error_no_memory
			               : NULL;
	return gm_error_create(GM_USAGE,
	        "--compute-below %s: not a size: give bytes, or a number with KiB or MiB "
	        "(0: nothing is computed)",
	        text);
}

/*
 * Triton links its launcher with libcuda.so.1 and searches for the file: the driver's folder has
 * one of that name (core/sim/CMakeLists.txt). A user's own setting stays.
 */
static struct gm_error *driver_folder(char **ret)
{
	const char *own = getenv("TRITON_LIBCUDA_PATH");
	_cleanup_free_ char *library = NULL;
	struct gm_error *error = gm_sim_library(&library);
	if (error)
		return error;
	int folder = (int)(strrchr(library, '/') - library);
	int length =
	        own && *own ? asprintf(ret, "TRITON_LIBCUDA_PATH=%s", own)
	                    : asprintf(ret, "TRITON_LIBCUDA_PATH=%.*s/gpumem-sim", folder, library);
	return length < 0 ? &gm_error_no_memory : NULL;
}

/* "3" or "3,7": steps from 1. */
static struct gm_error *overflow_at(const char *text, char **ret)
{
	bool good = *text != 0;
	for (const char *at = text; good && *at;) {
		char *end;
		unsigned long long step = strtoull(at, &end, 10);
		good = *at >= '0' && *at <= '9' && step > 0 && (!*end || (*end == ',' && end[1]));
		at = *end ? end + 1 : end;
	}
	if (!good)
		return gm_error_create(GM_USAGE,
		        "--overflow-at %s: not steps: give their numbers from 1, as in 3,7", text);
	return asprintf(ret, "GPUMEM_SIM_OVERFLOW_AT=%s", text) < 0 ? &gm_error_no_memory : NULL;
}

/* A whole number below `limit`. */
static bool whole(const char *text, unsigned long limit, unsigned *ret)
{
	char *end;
	errno = 0;
	unsigned long number = strtoul(text, &end, 10);
	*ret = (unsigned)number;
	return *text >= '0' && *text <= '9' && !*end && !errno && number < limit;
}

enum { WORLD_MOST = 1 << 20, RANK_SETTINGS = 12 };

/* One rank of a job, with torchrun's environment, and the store through which the ranks find each
 * other. */
static struct gm_error *one_rank(
        const struct gm_sim_launch *launch, unsigned devices, char **settings)
{
	unsigned rank, world, port;
	if (!launch->rank || !launch->world)
		return gm_error_create(
		        GM_USAGE, "--rank, --world: they go together: --rank 3 --world 1024");
	if (!whole(launch->world, WORLD_MOST + 1ul, &world) || world < 2)
		return gm_error_create(GM_USAGE, "--world %s: not a number of ranks from 2 to %d",
		        launch->world, WORLD_MOST);
	if (!whole(launch->rank, world, &rank))
		return gm_error_create(GM_USAGE, "--rank %s: not a rank of %u: give 0 to %u",
		        launch->rank, world, world - 1);
	struct gm_error *error = gm_sim_store_start(rank, world, &port);
	if (error)
		return error;
	unsigned local = devices < world ? devices : world;
	const struct {
		const char *name;
		unsigned value;
	} numbers[] = {{"GPUMEM_SIM_RANK", rank}, {"GPUMEM_SIM_WORLD", world}, {"RANK", rank},
	        {"WORLD_SIZE", world}, {"LOCAL_RANK", rank % local}, {"LOCAL_WORLD_SIZE", local},
	        {"GROUP_RANK", rank / local}, {"MASTER_PORT", port},
	        {"TORCHELASTIC_RESTART_COUNT", 0}}; /* PyTorch before 2.5 asks for it */
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (asprintf(&settings[i], "%s=%u", numbers[i].name, numbers[i].value) < 0)
			return &gm_error_no_memory;
	/* The store is served to rank 0 too, as torchrun's agent does. */
	settings[9] = strdup("MASTER_ADDR=127.0.0.1");
	settings[10] = strdup("TORCHELASTIC_USE_AGENT_STORE=True");
	settings[11] = strdup("TORCHELASTIC_RUN_ID=gpumem");
	return settings[9] && settings[10] && settings[11] ? NULL : &gm_error_no_memory;
}

struct gm_error *gm_sim_settings(const struct gm_sim_launch *launch, char ***ret)
{
	struct gm_sim_choice choice;
	struct gm_error *error = gm_sim_profile_parse(launch->profile, &choice);
	if (error)
		return error;
	char **settings = calloc(10 + RANK_SETTINGS, sizeof(*settings));
	if (!settings)
		return &gm_error_no_memory;
	size_t count = 0;
	error = preload(&settings[count++]);
	if (!error &&
	        asprintf(&settings[count++], "GPUMEM_SIM=%sx%u", choice.spec, choice.count) < 0)
		error = &gm_error_no_memory;
	if (!error && launch->json &&
	        asprintf(&settings[count++], "GPUMEM_SIM_JSON=%s", launch->json) < 0)
		error = &gm_error_no_memory;
	if (!error && launch->compute_below)
		error = compute_below(launch->compute_below, &settings[count++]);
	if (!error)
		error = driver_folder(&settings[count++]);
	if (!error && launch->overflow_at)
		error = overflow_at(launch->overflow_at, &settings[count++]);
	if (!error) {
		_cleanup_free_ char *machine = NULL;
		error = gm_sim_machine_make(&machine);
		if (!error && asprintf(&settings[count++], "GPUMEM_SIM_MACHINE=%s", machine) < 0)
			error = &gm_error_no_memory;
	}
	if (!error && (launch->rank || launch->world))
		error = one_rank(launch, choice.count, &settings[count]);
	if (error) {
		gm_sim_settings_free(settings);
		return error;
	}
	*ret = settings;
	return NULL;
}
