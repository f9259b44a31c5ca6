/*
 * The smallest HTTP server that a monitoring system needs: GET and HEAD of one page, one thread,
 * one answer a connection. It is for clients that nobody vouches for: a request has
 * GM_HTTP_REQUEST_MAX bytes at most, a connection GM_HTTP_SECONDS from its first to its last byte,
 * and there are GM_HTTP_CLIENTS at a time: a further one takes the place of the oldest. Nothing
 * blocks.
 *
 * It knows neither TLS nor passwords: it listens where it is told to, and a proxy may stand before
 * it.
 */
#ifndef GM_CLI_HTTP_SERVER_H
#define GM_CLI_HTTP_SERVER_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { GM_HTTP_CLIENTS = 16, GM_HTTP_REQUEST_MAX = 8192, GM_HTTP_SECONDS = 10 };

struct gm_http_server;

/* What the page shows. `accept`: the request's header of this name, "" for none. The caller frees
 * *ret_body; *ret_type is a constant. An error is told to the client. */
typedef struct gm_error *(*gm_http_page)(void *context, const char *accept, char **ret_body,
        size_t *ret_size, const char **ret_type);

struct gm_http_options {
	const char *path; /* "/metrics" */
	gm_http_page page;
	void *context;
};

/* `address`: HOST:PORT, [IPv6]:PORT, :PORT or PORT; without a host it is 127.0.0.1, port 0 is one
 * that is free. The options are copied. GM_USAGE: no such address; GM_TARGET: it cannot listen
 * there. */
struct gm_error *gm_http_server_create(const char *address, const struct gm_http_options *options,
        struct gm_http_server **ret_server);
void gm_http_server_destroy(struct gm_http_server *server);
/* "http://127.0.0.1:9400/metrics"; the server's. */
const char *gm_http_server_url(const struct gm_http_server *server);

/* The descriptors to wait for: at most GM_HTTP_CLIENTS + 1. Returns their number; *ret_wait: the
 * milliseconds until gm_http_server_run() must be called anyway, -1: none. */
size_t gm_http_server_poll(
        const struct gm_http_server *server, struct pollfd *ret_descriptors, int *ret_wait);
/* Does what can be done now. */
void gm_http_server_run(struct gm_http_server *server);

#endif
