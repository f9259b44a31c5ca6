/* The process that serves the store: a socket on 127.0.0.1, its clients, and the end of the
 * program. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/store.h"

/* Limits: stores of a program, size of a request. */
enum { CLIENTS = 256, LARGEST_REQUEST = 64 << 20 };

struct server {
	struct gm_sim_store *store;
	int listener, program;
	size_t count;
	int sockets[CLIENTS];
	struct gm_sim_store_client clients[CLIENTS];
};

static void drop(struct server *server, size_t i)
{
	close(server->sockets[i]);
	free(server->clients[i].in.data);
	free(server->clients[i].out.data);
	free(server->clients[i].awaited.data);
	server->count--;
	server->sockets[i] = server->sockets[server->count];
	server->clients[i] = server->clients[server->count];
	memset(&server->clients[server->count], 0, sizeof(server->clients[0]));
}

static bool send_out(struct server *server, size_t i)
{
	struct gm_sim_store_buffer *out = &server->clients[i].out;
	size_t done = 0;
	while (done < out->size) {
		ssize_t n =
		        send(server->sockets[i], out->data + done, out->size - done, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	out->size = 0;
	return true;
}

static bool receive(struct server *server, size_t i)
{
	unsigned char bytes[16384];
	struct gm_sim_store_client *client = &server->clients[i];
	ssize_t n = recv(server->sockets[i], bytes, sizeof(bytes), 0);
	if (n < 0 && errno == EINTR)
		return true;
	return n > 0 && client->in.size + (size_t)n <= LARGEST_REQUEST &&
	       gm_sim_store_append(&client->in, bytes, (size_t)n) &&
	       gm_sim_store_serve(server->store, client) && send_out(server, i);
}

static void serve(struct server *server)
{
	struct pollfd polls[CLIENTS + 2];
	for (;;) {
		polls[0] = (struct pollfd){.fd = server->program, .events = POLLIN};
		polls[1] = (struct pollfd){
		        .fd = server->count < CLIENTS ? server->listener : -1, .events = POLLIN};
		for (size_t i = 0; i < server->count; i++)
			polls[i + 2] = (struct pollfd){.fd = server->sockets[i], .events = POLLIN};
		if (poll(polls, server->count + 2, -1) < 0 && errno != EINTR)
			return;
		if (polls[0].revents)
			return; /* the program has ended */
		bool changed = false;
		for (size_t i = server->count; i-- > 0;) {
			if (!polls[i + 2].revents)
				continue;
			changed = true;
			if (!receive(server, i))
				drop(server, i);
		}
		/* What one client set, another may be waiting for. */
		for (size_t i = server->count; changed && i-- > 0;)
			if (gm_sim_store_wake(server->store, &server->clients[i]) &&
			        !send_out(server, i))
				drop(server, i);
		if (polls[1].revents & POLLIN) {
			int socket = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
			if (socket >= 0)
				server->sockets[server->count++] = socket;
		}
	}
}

static struct gm_error *listen_on(int *ret, unsigned *ret_port)
{
	struct sockaddr_in address = {
	        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	*ret = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*ret < 0 || bind(*ret, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	        listen(*ret, 64) != 0 ||
	        getsockname(*ret, (struct sockaddr *)&address, &length) != 0)
		return gm_error_os(GM_TARGET, errno,
		        "run: --rank: no socket on 127.0.0.1 for the store that ranks meet at");
	*ret_port = ntohs(address.sin_port);
	return NULL;
}

struct gm_error *gm_sim_store_start(unsigned rank, unsigned world, unsigned *ret_port)
{
	int listener;
	struct gm_error *error = listen_on(&listener, ret_port);
	int program = error ? -1 : (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (!error && program < 0)
		error = gm_error_os(
		        GM_TARGET, errno, "run: --rank: this process cannot be watched");
	if (error) {
		if (listener >= 0)
			close(listener);
		return error;
	}
	/* Forked twice, so that the program has no unknown child. */
	pid_t child = fork();
	if (child == 0) {
		if (fork() != 0)
			_exit(0);
		setsid(); /* Ctrl-C is meant for the program */
		signal(SIGPIPE, SIG_IGN);
		int nothing = open("/dev/null", O_RDWR);
		if (nothing >= 0) {
			dup2(nothing, STDIN_FILENO);
			dup2(nothing, STDOUT_FILENO);
		}
		struct server *server = calloc(1, sizeof(*server));
		if (server) {
			server->listener = listener;
			server->program = program;
			server->store = gm_sim_store_new(rank, world);
			if (server->store)
				serve(server);
		}
		_exit(0);
	}
	if (child < 0)
		error = gm_error_os(GM_TARGET, errno, "run: --rank: no process for the store");
	else
		while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
			;
	close(listener);
	close(program);
	return error;
}
