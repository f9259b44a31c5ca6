/* Prints what core/torch reads of a live process's allocator, as JSON, for
 * tests/e2e/test_torch.py. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "torch/torch.h"

static struct gm_error *print_all(pid_t pid)
{
	struct gm_image *image;
	struct gm_symbols *symbols;
	struct gm_torch *torch;
	struct gm_block_record *blocks;
	struct gm_allocator_bytes bytes;
	size_t count;
	gm_try(gm_image_open_pid(pid, &image));
	gm_try(gm_symbols_create(image, &symbols));
	gm_try(gm_torch_open(image, symbols, NULL, &torch));
	printf("{\"version\": \"%s\", \"kind\": \"%s\"", gm_torch_version(torch),
	        gm_torch_allocator_kind(torch));
	fflush(stdout);
	struct gm_error *error = gm_torch_blocks(torch, &blocks, &count);
	if (error) {
		printf(", \"error\": \"%s\"}\n", error->message);
		gm_error_destroy(error);
		exit(0);
	}
	gm_try(gm_torch_allocator_bytes(torch, 0, &bytes));
	printf(", \"allocated\": %" PRIu64 ", \"reserved\": %" PRIu64 ", \"active\": %" PRIu64
	       ", \"requested\": %" PRIu64 ", \"blocks\": [",
	        bytes.allocated, bytes.reserved, bytes.active, bytes.requested);
	for (size_t i = 0; i < count; i++)
		printf("%s[%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", \"%s\", %" PRIu64 ", %d, %s]",
		        i ? ", " : "", blocks[i].address, blocks[i].size, blocks[i].requested,
		        blocks[i].allocated         ? "active_allocated"
		        : blocks[i].event_count > 0 ? "active_pending_free"
		                                    : "inactive",
		        blocks[i].stream, blocks[i].device, blocks[i].mapped ? "true" : "false");
	printf("]}\n");
	free(blocks);
	gm_torch_close(torch);
	gm_symbols_destroy(symbols);
	gm_image_close(image);
	return NULL;
}

int main(int argc, char **argv)
{
	struct gm_error *error = argc == 2 ? print_all((pid_t)strtol(argv[1], NULL, 10)) : NULL;
	if (!error)
		return argc == 2 ? 0 : 2;
	fprintf(stderr, "%s\n", error->message);
	int status = (int)error->status;
	gm_error_destroy(error);
	return status;
}
