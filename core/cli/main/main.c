/* The shell command: one door, one command, its exit status. */
#include <stdio.h>

#include "gpumem.h"

int main(int argc, char **argv)
{
	gpumem_door *door = gpumem_door_create();
	if (!door)
		return 5;
	char *out = NULL, *err = NULL;
	int status = gpumem_door_run(door, argc - 1, (const char *const *)argv + 1, &out, &err);
	if (out)
		fputs(out, stdout);
	if (err)
		fputs(err, stderr);
	gpumem_free(out);
	gpumem_free(err);
	gpumem_door_destroy(door);
	return status;
}
