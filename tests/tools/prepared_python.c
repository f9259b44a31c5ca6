/*
 * prepared_python [-u] [-W WHAT] PROGRAM.py|-c CODE ARGS: runs a Python program of the tests as
 * `python` does, in a process that is forked off a Python which has imported PyTorch before: the
 * import takes most of the tests' time. The program's process has the streams, the folder and the
 * environment of this one; this one forwards signals to it and ends as it does.
 *
 * GPUMEM_TEST_PREPARED names a folder for the sockets of such Pythons, which
 * programs/environment/prepared_python.py serves; GPUMEM_TEST_REAL_PYTHON is the Python. With
 * GPUMEM_TEST_PID, the number of a file, the program's process id is written there. What a Python
 * takes from its environment when it starts or imports PyTorch must be the same: there is one for
 * each such environment, begun when a second program wants it; with GPUMEM_TEST_PREPARED_FIRST, for
 * the first one. Whatever is in the way, the real Python becomes this process.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BEGIN_MS = 120000, LOOK_MS = 20, PADDING = 12000 };

extern char **environ;

static volatile sig_atomic_t the_program;

/* Read by each program for itself, or of no meaning to it. */
static const char *const own[] = {
        "PWD=", "OLDPWD=", "_=", "SHLVL=", "TMPDIR=", "PYTEST_CURRENT_TEST=", "GPUMEM_SIM_JSON=",
        "GPUMEM_SIM_QUIET=", "GPUMEM_SIM_MACHINE=", "GPUMEM_AGENT=", "GPUMEM_TEST_PID="};

static uint64_t mix(uint64_t hash, const char *text, size_t length)
{
	for (size_t i = 0; i <= length; i++) /* FNV-1a, with an end */
		hash = (hash ^ (i < length ? (unsigned char)text[i] : 0)) * 0x100000001b3;
	return hash;
}

/* The agent's settings, without the names of files. */
static uint64_t mix_settings(uint64_t hash, const char *settings)
{
	static const char *const files[] = {"out=", "old=", "list="};
	while (settings && *settings) {
		size_t length = strcspn(settings, ";");
		bool skip = false;
		for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
			skip |= strncmp(settings, files[i], strlen(files[i])) == 0;
		if (!skip)
			hash = mix(hash, settings, length);
		settings += length + (settings[length] == ';');
	}
	return hash;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static uint64_t key(char **options, int count_of_options)
{
	uint64_t hash = 0xcbf29ce484222325;
	for (int i = 0; i < count_of_options; i++)
		hash = mix(hash, options[i], strlen(options[i]));
	size_t count = 0;
	while (environ[count])
		count++;
	char **sorted = calloc(count + 1, sizeof(*sorted));
	if (!sorted)
		exit(125);
	memcpy(sorted, environ, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), compare);
	for (size_t i = 0; i < count; i++) {
		bool skip = false;
		for (size_t k = 0; k < sizeof(own) / sizeof(own[0]); k++)
			skip |= strncmp(sorted[i], own[k], strlen(own[k])) == 0;
		if (!skip)
			hash = mix(hash, sorted[i], strlen(sorted[i]));
	}
	free(sorted);
	hash = mix_settings(hash, getenv("GPUMEM_AGENT"));
	static const int limits[] = {
	        RLIMIT_AS, RLIMIT_CORE, RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_STACK};
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct rlimit limit = {0};
		getrlimit(limits[i], &limit);
		hash = mix(hash, (const char *)&limit, sizeof(limit));
	}
	uid_t user = geteuid();
	return mix(hash, (const char *)&user, sizeof(user));
}

/* To who started the program, and asks for its process. */
static void tell_process(pid_t process)
{
	const char *number = getenv("GPUMEM_TEST_PID");
	if (!number)
		return;
	dprintf(atoi(number), "%d\n", (int)process);
	close(atoi(number));
	unsetenv("GPUMEM_TEST_PID");
}

/* What is meant for this program alone. */
static void unset_own(void)
{
	unsetenv("GPUMEM_TEST_PREPARED");
	unsetenv("GPUMEM_TEST_PREPARED_FIRST");
}

static void become_python(char **argv)
{
	tell_process(getpid());
	const char *python = getenv("GPUMEM_TEST_REAL_PYTHON");
	argv[0] = strdup(python ? python : "python3");
	unset_own();
	execvp(argv[0], argv);
	fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
	exit(127);
}

static bool first(const char *path, const char *suffix)
{
	char name[4200];
	snprintf(name, sizeof(name), "%s.%s", path, suffix);
	int fd = open(name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* A socket to the Python that serves at this name; -1: there is none. */
static int connect_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(address.sun_path))
		return -1;
	strcpy(address.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		if (errno == ECONNREFUSED) /* it has ended */
			first(path, "failed");
		close(fd);
		return -1;
	}
	return fd;
}

/* In a child: the Python that will serve. Its script is put in by the programs it becomes; the
 * second argument gives their command line space in memory. */
static void serve(const char *path, char **options, int count_of_options)
{
	char log[4200], none[4200], padding[PADDING + 1];
	setsid();
	unsetenv("GPUMEM_TEST_PID");
	snprintf(log, sizeof(log), "%s.log", path);
	int nowhere = open("/dev/null", O_RDWR),
	    out = open(log, O_CREAT | O_WRONLY | O_APPEND, 0600);
	dup2(nowhere, 0);
	dup2(out, 1);
	dup2(out, 2);
	for (int fd = 3; fd < 256; fd++)
		close(fd);
	setenv("GPUMEM_TEST_SERVE", path, 1);
	snprintf(none, sizeof(none), "%s.py", path);
	*strrchr(log, '/') = 0;
	if (chdir(log) != 0) /* as the agent remembers */
		_exit(125);
	memset(padding, 'x', PADDING);
	padding[PADDING] = 0;
	char **argv = calloc((size_t)count_of_options + 4, sizeof(*argv));
	if (!argv)
		_exit(125);
	memcpy(argv + 1, options, (size_t)count_of_options * sizeof(*argv));
	argv[count_of_options + 1] = none;
	argv[count_of_options + 2] = padding;
	become_python(argv);
}

static void forward(int number)
{
	if (the_program > 0)
		kill((pid_t)the_program, number);
}

static void put_texts(FILE *to, char *const *texts)
{
	for (size_t i = 0; texts[i]; i++) {
		fputs(texts[i], to);
		fputc(0, to);
	}
	fputc(0, to);
}

/* The folder, the arguments and the environment, each list with an empty text at its end. */
static char *request(char **argv, size_t *ret_size)
{
	char folder[4096], *bytes = NULL;
	if (!getcwd(folder, sizeof(folder)))
		return NULL;
	FILE *to = open_memstream(&bytes, ret_size);
	if (!to)
		return NULL;
	put_texts(to, (char *[]){folder, NULL});
	put_texts(to, argv);
	put_texts(to, environ);
	fclose(to);
	return bytes;
}

/* The streams and the size of the request, then the request. */
static bool ask(int fd, char **argv)
{
	size_t size = 0;
	unset_own();
	char *bytes = request(argv, &size), control[CMSG_SPACE(3 * sizeof(int))] = "";
	if (!bytes)
		return false;
	uint64_t sent_size = size;
	struct iovec first_part = {.iov_base = &sent_size, .iov_len = sizeof(sent_size)};
	struct msghdr message = {.msg_iov = &first_part,
	        .msg_iovlen = 1,
	        .msg_control = control,
	        .msg_controllen = sizeof(control)};
	struct cmsghdr *streams = CMSG_FIRSTHDR(&message);
	streams->cmsg_level = SOL_SOCKET;
	streams->cmsg_type = SCM_RIGHTS;
	streams->cmsg_len = CMSG_LEN(3 * sizeof(int));
	memcpy(CMSG_DATA(streams), (int[]){0, 1, 2}, 3 * sizeof(int));
	bool good = sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)sizeof(sent_size);
	for (size_t done = 0; good && done < size;) {
		ssize_t count = send(fd, bytes + done, size - done, MSG_NOSIGNAL);
		good = count > 0;
		done += good ? (size_t)count : 0;
	}
	free(bytes);
	return good;
}

/* A line with a number; -1: the server has gone. */
static long answer(FILE *from)
{
	char line[32];
	return fgets(line, sizeof(line), from) ? atol(line) : -1;
}

int main(int argc, char **argv)
{
	const char *folder = getenv("GPUMEM_TEST_PREPARED");
	int script = 1;
	for (; script < argc && argv[script][0] == '-' && strcmp(argv[script], "-c") != 0; script++)
		if (strcmp(argv[script], "-W") == 0 || strcmp(argv[script], "-X") == 0)
			script++;
	size_t length = script < argc ? strlen(argv[script]) : 0, all = 0;
	bool code = script + 1 < argc && strcmp(argv[script], "-c") == 0;
	bool plain = folder && *folder &&
	             (code || (length > 3 && strcmp(argv[script] + length - 3, ".py") == 0 &&
	                              access(argv[script], R_OK) == 0));
	int options = code ? script : script - 1; /* `-c` as well */
	for (int i = 1; i < argc; i++) {
		plain &= *argv[i] != 0;
		all += strlen(argv[i]) + 1;
	}
	if (!plain || all > PADDING)
		become_python(argv);
	char path[4096];
	snprintf(path, sizeof(path), "%s/%016jx", folder, (uintmax_t)key(argv + 1, options));
	int fd = connect_to(path);
	if (fd < 0 && !getenv("GPUMEM_TEST_PREPARED_FIRST") &&
	        first(path, "wanted")) /* this may be the only one */
		become_python(argv);
	pid_t server = fd < 0 && first(path, "begun") ? fork() : -1;
	if (server == 0)
		serve(path, argv + 1, options);
	for (int waited = 0; fd < 0 && waited < BEGIN_MS; waited += LOOK_MS) {
		nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
		/* it ended without a word: its environment has another sitecustomize */
		if (server > 0 && waitpid(server, NULL, WNOHANG) == server)
			first(path, "failed");
		char failed[4200];
		snprintf(failed, sizeof(failed), "%s.failed", path);
		if (access(failed, F_OK) == 0)
			become_python(argv);
		fd = connect_to(path);
	}
	if (fd < 0) {
		first(path, "failed");
		become_python(argv);
	}
	static const int forwarded[] = {
	        SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT};
	for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
		sigaction(forwarded[i],
		        &(struct sigaction){.sa_handler = forward, .sa_flags = SA_RESTART}, NULL);
	FILE *from = fdopen(fd, "r");
	if (!ask(fd, argv + script) || (the_program = (sig_atomic_t)answer(from)) <= 0)
		become_python(argv);
	tell_process((pid_t)the_program);
	long status = answer(from);
	if (status < 0)
		return 125;
	if (WIFSIGNALED((int)status)) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		signal(WTERMSIG((int)status), SIG_DFL);
		raise(WTERMSIG((int)status));
	}
	return WEXITSTATUS((int)status);
}
