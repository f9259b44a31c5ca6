#include "ranks/sim_environment.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "render/json.h"

enum { HASH_BITS = 24, NAMES_SHOWN = 5 };

extern char **environ;

/* A prefix, or with its "=" a whole name. */
static bool is_one_of(const char *const *prefixes, const char *variable)
{
	for (; *prefixes; prefixes++)
		if (strncmp(variable, *prefixes, strlen(*prefixes)) == 0)
			return true;
	return false;
}

static bool is_of_a_launcher(const char *variable)
{
	static const char *const prefixes[] = {"OMPI_", "PMIX_", "PMI_", "PRTE_", "HYDRA_", "HYDI_",
	        "MPI_LOCAL", "MPIR_", "SLURM_", "SLURMD_", NULL};
	return is_one_of(prefixes, variable);
}

/* Of the terminal, the session, or the batch system's job; and what launchers set or lengthen: of
 * PATH the program that is found there counts instead. */
static bool is_volatile(const char *variable)
{
	static const char *const prefixes[] = {"PWD=", "OLDPWD=", "_=", "SHLVL=", "TERM=", "TERM_",
	        "COLORTERM=", "COLUMNS=", "LINES=", "LS_COLORS=", "PS1=", "PROMPT_COMMAND=", "SSH_",
	        "DISPLAY=", "WAYLAND_DISPLAY=", "XAUTHORITY=", "WINDOWID=", "XDG_", "DBUS_", "TMUX",
	        "STY=", "VTE_", "VSCODE_", "GPG_", "KRB5CCNAME=", "MAIL=", "HOSTNAME=", "HOST=",
	        "INVOCATION_ID=", "JOURNAL_STREAM=", "PBS_", "LSB_",
	        "JOB_ID=", "PYTEST_CURRENT_TEST=", "BASH_FUNC_", "PATH=", "LD_LIBRARY_PATH=",
	        "PSM2_DEVICES=", "PSM_DEVICES=", "HFI_NO_BACKTRACE=", "IPATH_NO_BACKTRACE=",
	        "GFORTRAN_UNBUFFERED_PRECONNECTED=", "GPUMEM_SIM_QUIET=", NULL};
	return is_one_of(prefixes, variable);
}

void gm_sim_environment_set(void)
{
	size_t kept = 0;
	for (size_t i = 0; environ[i]; i++)
		if (!is_of_a_launcher(environ[i]))
			environ[kept++] = environ[i];
	environ[kept] = NULL;
	setenv("PYTHONHASHSEED", "0", 0);
	setenv("OMP_NUM_THREADS", "1", 0);
	setenv("GPUMEM_SIM_QUIET", "1", 1);
}

static json_t *hash_of(const char *of)
{
	char text[24];
	uint64_t hash = gm_hash_bytes(of, strlen(of), 0);
	snprintf(text, sizeof(text), "%06" PRIx64, hash >> (64 - HASH_BITS));
	return json_string(text);
}

/* Where execvp() finds it; the caller frees it. */
static char *program_path(const char *name)
{
	const char *at = getenv("PATH");
	if (strchr(name, '/'))
		return strdup(name);
	while (at && *at) {
		int size = (int)strcspn(at, ":");
		char *path = NULL;
		if (asprintf(&path, "%.*s/%s", size, at, name) < 0)
			return NULL;
		if (access(path, X_OK) == 0)
			return path;
		free(path);
		at += size + (at[size] == ':');
	}
	return strdup(name);
}

json_t *gm_sim_environment_describe(const char *program)
{
	json_t *value = json_object();
	char *path = program_path(program);
	if (path)
		json_object_set_new(value, "PATH", hash_of(path));
	free(path);
	for (char **variable = environ; *variable; variable++) {
		const char *equals = strchr(*variable, '=');
		if (!equals || is_of_a_launcher(*variable) || is_volatile(*variable))
			continue;
		char *name = strndup(*variable, (size_t)(equals - *variable));
		if (name) /* one that is no UTF-8 is left out */
			json_object_set_new(value, name, hash_of(*variable));
		free(name);
	}
	return value;
}

struct names {
	char *list[NAMES_SHOWN];
	size_t count;
};

static void note(struct names *names, const char *name)
{
	if (names->count < NAMES_SHOWN)
		names->list[names->count] = strdup(name);
	names->count++;
}

char *gm_sim_environment_different(const json_t *before, const json_t *now)
{
	struct names names = {0};
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)now, name, value)
	{
		if (!json_equal(value, json_object_get(before, name)))
			note(&names, name);
	}
	json_object_foreach((json_t *)before, name, value)
	{
		if (!json_object_get(now, name))
			note(&names, name);
	}
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	for (size_t i = 0; i < names.count && i < NAMES_SHOWN; i++) {
		if (file && names.list[i])
			fprintf(file, "%s%s", i ? ", " : "", names.list[i]);
		free(names.list[i]);
	}
	if (file && names.count > NAMES_SHOWN)
		fprintf(file, " and %zu more", names.count - NAMES_SHOWN);
	if (file)
		fclose(file);
	return text;
}
