/* Starts a program in each of the ways that libc has, for tests: start_program WAY PROGRAM
 * [ARGUMENT]; its exit status is the program's. */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int status_of(pid_t child)
{
	int status = -1;
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 99;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

/* By exec, in this process. Returns where that fails. */
static void become(const char *way, char **words)
{
	if (strcmp(way, "execve") == 0)
		execve(words[0], words, environ);
	else if (strcmp(way, "execv") == 0)
		execv(words[0], words);
	else if (strcmp(way, "execvp") == 0)
		execvp(words[0], words);
	else if (strcmp(way, "execvpe") == 0)
		execvpe(words[0], words, environ);
	else if (strcmp(way, "execl") == 0)
		execl(words[0], words[0], words[1], (char *)NULL);
	else if (strcmp(way, "execlp") == 0)
		execlp(words[0], words[0], words[1], (char *)NULL);
	else if (strcmp(way, "execle") == 0)
		execle(words[0], words[0], words[1], (char *)NULL, environ);
	else if (strcmp(way, "fexecve") == 0)
		fexecve(open(words[0], O_PATH | O_CLOEXEC), words, environ);
	else if (strcmp(way, "execveat") == 0)
		execveat(AT_FDCWD, words[0], words, environ, 0);
	else if (strcmp(way, "execveat_fd") == 0)
		execveat(open(words[0], O_RDONLY | O_CLOEXEC), "", words, environ, AT_EMPTY_PATH);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	const char *way = argv[1];
	char **words = &argv[2];
	pid_t child = -1;
	if (strcmp(way, "posix_spawn") == 0) {
		return posix_spawn(&child, words[0], NULL, NULL, words, environ) ? 97
		                                                                 : status_of(child);
	} else if (strcmp(way, "posix_spawnp") == 0) {
		return posix_spawnp(&child, words[0], NULL, NULL, words, environ)
		               ? 97
		               : status_of(child);
	} else if (strcmp(way, "system") == 0) {
		int status = system(words[0]);
		return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
	} else if (strcmp(way, "popen") == 0) {
		FILE *pipe = popen(words[0], "w");
		int status = pipe ? pclose(pipe) : -1;
		return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
	} else if (strcmp(way, "vfork") == 0) {
		child = vfork();
		if (child == 0) {
			execve(words[0], words, environ);
			_exit(96);
		}
		return status_of(child);
	}
	become(way, words);
	perror(way);
	return 95;
}
