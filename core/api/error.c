#include "api/internal.h"

int gm_api_fail(struct gm_error *error, gpumem_error **ret_error)
{
	int status = error ? (int)error->status : GPUMEM_OK;
	if (ret_error && error)
		*ret_error = error;
	else
		gm_error_destroy(error);
	return status;
}

void gpumem_error_destroy(gpumem_error *error)
{
	gm_error_destroy(error);
}

int gpumem_error_status(const gpumem_error *error)
{
	return (int)error->status;
}

const char *gpumem_error_message(const gpumem_error *error)
{
	return error->message;
}

const char *gpumem_error_path(const gpumem_error *error)
{
	return error->path;
}

int gpumem_error_offset(const gpumem_error *error, uint64_t *ret_offset)
{
	if (error->has_offset)
		*ret_offset = error->offset;
	return error->has_offset;
}

int gpumem_error_address(const gpumem_error *error, uint64_t *ret_address)
{
	if (error->has_address)
		*ret_address = error->address;
	return error->has_address;
}

int gpumem_error_errno(const gpumem_error *error)
{
	return error->os_error;
}
