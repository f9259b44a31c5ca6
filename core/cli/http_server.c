#include "cli/http_server.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/put.h"

enum state { FREE, READING, WRITING, ENDING };

struct client {
	enum state state;
	int fd;
	int64_t end; /* monotonic milliseconds */
	size_t read; /* bytes of the request */
	char request[GM_HTTP_REQUEST_MAX + 1];
	char *answer; /* owned */
	size_t size, written;
};

struct gm_http_server {
	struct gm_http_options options;
	int fd;
	char url[NI_MAXHOST + NI_MAXSERV + 64];
	struct client clients[GM_HTTP_CLIENTS];
};

static int64_t now(void)
{
	return (int64_t)(gm_seconds() * 1000);
}

/* ---- the address ----------------------------------------------------------------------------- */

/* Takes HOST:PORT apart. */
static bool split(const char *address, char *host, size_t size, const char **ret_port)
{
	const char *colon = strrchr(address, ':');
	const char *start = address, *end = colon ? colon : address;
	*ret_port = colon ? colon + 1 : address;
	if (*start == '[') {
		start++;
		end = strchr(start, ']');
		if (!end || end + 1 != colon)
			return false;
	} else if (colon && memchr(address, ':', (size_t)(colon - address))) {
		return false; /* an IPv6 address without brackets */
	}
	size_t length = (size_t)(end - start);
	if (length >= size || !**ret_port || strspn(*ret_port, "0123456789") != strlen(*ret_port) ||
	        strlen(*ret_port) > 5 || atoi(*ret_port) > UINT16_MAX)
		return false;
	if (length)
		snprintf(host, size, "%.*s", (int)length, start);
	else
		snprintf(host, size, "127.0.0.1");
	return true;
}

static int listen_at(const struct addrinfo *at)
{
	int fd = socket(
	        at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
	const int on = 1;
	if (fd < 0)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
		return fd;
	int failed = errno;
	close(fd);
	errno = failed;
	return -1;
}

static void name_url(struct gm_http_server *server)
{
	struct sockaddr_storage bound;
	socklen_t length = sizeof(bound);
	char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
	if (getsockname(server->fd, (struct sockaddr *)&bound, &length) == 0)
		(void)getnameinfo((struct sockaddr *)&bound, length, host, sizeof(host), port,
		        sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
	bool brackets = strchr(host, ':');
	snprintf(server->url, sizeof(server->url), "http://%s%s%s:%s%s", brackets ? "[" : "", host,
	        brackets ? "]" : "", port, server->options.path);
}

struct gm_error *gm_http_server_create(const char *address, const struct gm_http_options *options,
        struct gm_http_server **ret_server)
{
	char host[NI_MAXHOST];
	const char *port;
	const struct addrinfo hints = {
	        .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *found;
	if (!split(address, host, sizeof(host), &port))
		return gm_error_create(GM_USAGE,
		        "%s: this is no address to listen at: give :PORT (loopback), HOST:PORT or "
		        "[IPv6]:PORT",
		        address);
	int failed = getaddrinfo(host, port, &hints, &found);
	if (failed)
		return gm_error_create(GM_USAGE, "%s: %s: name an address of this machine", address,
		        gai_strerror(failed));
	int fd = listen_at(found);
	int reason = errno;
	freeaddrinfo(found);
	if (fd < 0 && reason == EADDRINUSE)
		return gm_error_create(GM_TARGET,
		        "%s: the port is in use: choose another one, or 0 for one that is free",
		        address);
	if (fd < 0)
		return gm_error_os(GM_TARGET, reason, "%s: cannot listen there", address);
	struct gm_http_server *server = calloc(1, sizeof(*server));
	if (!server) {
		close(fd);
		return &gm_error_no_memory;
	}
	server->options = *options;
	server->fd = fd;
	name_url(server);
	*ret_server = server;
	return NULL;
}

const char *gm_http_server_url(const struct gm_http_server *server)
{
	return server->url;
}

static void forget(struct client *client)
{
	if (client->state != FREE)
		close(client->fd);
	free(client->answer);
	client->answer = NULL;
	client->state = FREE;
}

void gm_http_server_destroy(struct gm_http_server *server)
{
	if (!server)
		return;
	for (size_t i = 0; i < GM_HTTP_CLIENTS; i++)
		forget(&server->clients[i]);
	close(server->fd);
	free(server);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void answer(struct client *client, const char *status, const char *type, const char *body,
        size_t size, bool head)
{
	char top[256];
	int length = snprintf(top, sizeof(top),
	        "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s"
	        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
	        status, type, size, strncmp(status, "405", 3) == 0 ? "Allow: GET, HEAD\r\n" : "");
	size = head ? 0 : size;
	client->answer = malloc((size_t)length + size);
	if (!client->answer) {
		forget(client);
		return;
	}
	memcpy(client->answer, top, (size_t)length);
	memcpy(client->answer + length, body, size);
	client->size = (size_t)length + size;
	client->written = 0;
	client->state = WRITING;
}

static void refuse(struct client *client, const char *status, const char *what, bool head)
{
	char body[512];
	snprintf(body, sizeof(body), "gpumem: %s\n", what);
	answer(client, status, "text/plain; charset=utf-8", body, strlen(body), head);
}

/* The value of a header, of a request that ends with an empty line; "" for none. */
static void find_header(const char *request, const char *name, char *value, size_t size)
{
	size_t length = strlen(name);
	*value = 0;
	for (const char *line = strchr(request, '\n'); line; line = strchr(line, '\n')) {
		line++;
		if (strncasecmp(line, name, length) != 0 || line[length] != ':')
			continue;
		line += length + 1;
		line += strspn(line, " \t");
		snprintf(value, size, "%.*s", (int)strcspn(line, "\r\n"), line);
		return;
	}
}

static void answer_request(struct gm_http_server *server, struct client *client)
{
	char method[8], path[256], version[16], accept[1024];
	if (memchr(client->request, 0, client->read) ||
	        sscanf(client->request, "%7[A-Z] %255[^ \r\n] %15[^ \r\n]", method, path,
	                version) != 3 ||
	        strncmp(version, "HTTP/1.", 7) != 0) {
		refuse(client, "400 Bad Request", "this is no HTTP request", false);
		return;
	}
	bool head = strcmp(method, "HEAD") == 0;
	path[strcspn(path, "?#")] = 0;
	if (!head && strcmp(method, "GET") != 0) {
		refuse(client, "405 Method Not Allowed", "only GET and HEAD", false);
		return;
	}
	if (strcmp(path, server->options.path) != 0) {
		char what[64];
		snprintf(what, sizeof(what), "there is only %s", server->options.path);
		refuse(client, "404 Not Found", what, head);
		return;
	}
	_cleanup_free_ char *body = NULL;
	size_t size = 0;
	const char *type = "text/plain";
	find_header(client->request, "Accept", accept, sizeof(accept));
	_cleanup_error_ struct gm_error *error =
	        server->options.page(server->options.context, accept, &body, &size, &type);
	if (error)
		refuse(client, "503 Service Unavailable", error->message, head);
	else
		answer(client, "200 OK", type, body, size, head);
}

/* ---- connections ----------------------------------------------------------------------------- */

static bool would_block(ssize_t did)
{
	return did < 0 && (errno == EAGAIN || errno == EINTR);
}

static void go_on_reading(struct gm_http_server *server, struct client *client)
{
	ssize_t got = recv(
	        client->fd, client->request + client->read, GM_HTTP_REQUEST_MAX - client->read, 0);
	if (would_block(got))
		return;
	if (got <= 0) {
		forget(client);
		return;
	}
	client->read += (size_t)got;
	client->request[client->read] = 0;
	if (strstr(client->request, "\r\n\r\n") || strstr(client->request, "\n\n") ||
	        memchr(client->request, 0, client->read))
		answer_request(server, client);
	else if (client->read == GM_HTTP_REQUEST_MAX)
		refuse(client, "431 Request Header Fields Too Large", "the request is too long",
		        false);
}

static void go_on_writing(struct client *client)
{
	ssize_t sent = send(client->fd, client->answer + client->written,
	        client->size - client->written, MSG_NOSIGNAL);
	if (would_block(sent))
		return;
	if (sent < 0) {
		forget(client);
		return;
	}
	client->written += (size_t)sent;
	if (client->written < client->size)
		return;
	/* What it still sends must not make the kernel drop the answer. */
	shutdown(client->fd, SHUT_WR);
	client->state = ENDING;
}

static void go_on_ending(struct client *client)
{
	char nothing[4096];
	ssize_t got = recv(client->fd, nothing, sizeof(nothing), 0);
	if (got > 0 || would_block(got))
		return;
	forget(client);
}

static void go_on(struct gm_http_server *server, struct client *client)
{
	if (client->state == READING)
		go_on_reading(server, client);
	if (client->state == WRITING)
		go_on_writing(client);
	if (client->state == ENDING)
		go_on_ending(client);
}

/* A further client is served at once, or it might lose its place before. */
static void welcome(struct gm_http_server *server)
{
	for (int many = 0; many < GM_HTTP_CLIENTS; many++) {
		int fd = accept4(server->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		struct client *place = &server->clients[0];
		for (size_t i = 0; i < GM_HTTP_CLIENTS && place->state != FREE; i++)
			if (server->clients[i].state == FREE || server->clients[i].end < place->end)
				place = &server->clients[i];
		forget(place);
		place->state = READING;
		place->fd = fd;
		place->read = 0;
		place->end = now() + GM_HTTP_SECONDS * 1000;
		go_on(server, place);
	}
}

void gm_http_server_run(struct gm_http_server *server)
{
	int64_t time = now();
	for (size_t i = 0; i < GM_HTTP_CLIENTS; i++) {
		struct client *client = &server->clients[i];
		if (client->state != FREE && client->end <= time)
			forget(client);
		go_on(server, client);
	}
	welcome(server);
}

size_t gm_http_server_poll(
        const struct gm_http_server *server, struct pollfd *ret_descriptors, int *ret_wait)
{
	size_t count = 0;
	int64_t first = INT64_MAX;
	ret_descriptors[count++] = (struct pollfd){.fd = server->fd, .events = POLLIN};
	for (size_t i = 0; i < GM_HTTP_CLIENTS; i++) {
		const struct client *client = &server->clients[i];
		if (client->state == FREE)
			continue;
		ret_descriptors[count++] = (struct pollfd){
		        .fd = client->fd, .events = client->state == WRITING ? POLLOUT : POLLIN};
		first = client->end < first ? client->end : first;
	}
	int64_t left = first - now();
	*ret_wait = first == INT64_MAX ? -1 : left < 0 ? 0 : (int)left;
	return count;
}
