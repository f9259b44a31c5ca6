#include "image/nameless.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int gm_nameless_file_in(const char *folder)
{
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	char name[4096];
	if (snprintf(name, sizeof(name), "%s/gpumem-XXXXXX", folder) >= (int)sizeof(name))
		return -1;
	fd = mkostemp(name, O_CLOEXEC);
	if (fd >= 0)
		unlink(name);
	return fd;
}

int gm_nameless_file(void)
{
	const char *folders[] = {getenv("TMPDIR"), "/var/tmp", "/tmp"};
	int fd = -1;
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders) && fd < 0; i++) {
		if (folders[i] && *folders[i])
			fd = gm_nameless_file_in(folders[i]);
	}
	return fd;
}
