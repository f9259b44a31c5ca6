#include "ask/target/native_frames.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "symbols/symbols.h"

/*
 * Whether a call instruction ends at an address, so that it is a return address. After a signal
 * frame the address is that of the interrupted instruction.
 *
 * x86-64: E8 rel32; FF /2 with 0, 1 or 4 bytes of displacement, with or without a SIB byte.
 */
static bool after_call(struct gm_image *image, uint64_t address)
{
	uint8_t bytes[7];
	if (address < sizeof(bytes) ||
	        !gm_image_try_read(image, address - sizeof(bytes), bytes, sizeof(bytes)))
		return true;
	if (bytes[2] == 0xe8)
		return true;
	for (size_t length = 2; length <= sizeof(bytes); length++) {
		const uint8_t *at = bytes + sizeof(bytes) - length;
		if (at[0] != 0xff || (at[1] & 0x38) != 0x10)
			continue;
		unsigned mode = at[1] >> 6, base = at[1] & 7;
		size_t needs = 2;
		if (mode != 3 && base == 4)
			needs += 1 + ((mode == 0 && length > 2 && (at[2] & 7) == 5) ? 4 : 0);
		if (mode == 1)
			needs += 1;
		else if (mode == 2 || (mode == 0 && base == 5))
			needs += 4;
		if (needs == length)
			return true;
	}
	return false;
}

/* Whether rip is the thread's current or interrupted instruction. */
static bool is_exact(struct gm_context *context, struct gm_image *image,
        const struct gm_registers *registers, enum gm_frame_position place)
{
	if (place == GM_FRAME_INNERMOST)
		return true;
	struct gm_registers now;
	if (place == GM_FRAME_UNKNOWN) {
		_cleanup_error_ struct gm_error *error =
		        gm_image_registers(image, gm_context_thread(context), &now);
		if (!error && now.value[GM_RIP] == registers->value[GM_RIP] &&
		        now.value[GM_RSP] == registers->value[GM_RSP])
			return true;
	}
	return !after_call(image, registers->value[GM_RIP]);
}

/* The target's symbols. If an address may be in a library that was loaded since the last look, the
 * list of libraries is read again. */
static struct gm_error *symbols_for(
        struct gm_context *context, uint64_t address, struct gm_symbols **ret_symbols)
{
	gm_try(gm_context_symbols(context, ret_symbols));
	if (gm_symbols_module_at(*ret_symbols, address) || !gm_image_goes_on(context->image))
		return NULL;
	gm_context_invalidate(context);
	return gm_context_symbols(context, ret_symbols);
}

bool gm_frame_caller(struct gm_context *context, const struct gm_registers *registers,
        enum gm_frame_position place, struct gm_registers *ret_registers)
{
	struct gm_symbols *symbols = NULL;
	_cleanup_error_ struct gm_error *error =
	        symbols_for(context, registers->value[GM_RIP], &symbols);
	if (error)
		return false;
	gm_image_invalidate(context->image);
	return gm_symbols_caller(symbols, registers,
	        is_exact(context, context->image, registers, place), ret_registers);
}

struct gm_error *gm_frame_functions(
        struct gm_context *context, const uint64_t *addresses, size_t count, const char **ret_names)
{
	struct gm_symbols *symbols = NULL;
	_cleanup_free_ struct gm_symbol *found = calloc(count + 1, sizeof(*found));
	if (!found)
		return &gm_error_no_memory;
	gm_try(gm_context_symbols(context, &symbols));
	gm_try(gm_symbols_name_functions(symbols, addresses, count, false, found));
	for (size_t i = 0; i < count; i++)
		ret_names[i] = found[i].function;
	return NULL;
}

bool gm_frame_file_defines(const char *path, const char *function)
{
	return gm_symbols_file_defines(path, function);
}
