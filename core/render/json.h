/* JSON of what several answers share; the contract is in docs. Addresses are "0x…" strings, as they
 * pass 2^53. */
#ifndef GM_RENDER_JSON_H
#define GM_RENDER_JSON_H

#include <jansson.h>
#include <stdio.h>

#include "base/error.h"
#include "model/model.h"

json_t *gm_json_address(uint64_t address);
/* Text of a program may be no UTF-8: what is not is replaced. */
json_t *gm_json_string(const char *text);
/* null: NULL or "" */
json_t *gm_json_string_or_null(const char *text);
/* Bytes; null: UINT64_MAX, not known */
json_t *gm_json_bytes_or_null(uint64_t bytes);
/* An event's number; null: GM_NO_EVENT */
json_t *gm_json_event_or_null(uint32_t event);
/* {"file", "line", "function"} */
json_t *gm_json_place(const char *file, uint32_t line, const char *function);
/* The same for a text that it frees. NULL: no memory. */
json_t *gm_json_take(char *text);
/* "cpu", "cuda", "cuda_beside", "pinned". */
const char *gm_json_device_type(uint8_t type);
/* An event as in the contract; `block` is the number of its allocation, null where there is
 * none. */
json_t *gm_json_event(const struct gm_model *model, uint32_t number);
/* Sets "operator" and "node" of what was allocated there: the outermost operator of PyTorch, and
 * the autograd node whose backward ran. Nothing where the native stack is in none, or has no names.
 */
void gm_json_set_operator(json_t *value, const struct gm_log *log, uint32_t native_stack);
/* Its parts, for who writes many: all before its stacks, and the stacks, which few events have
 * alone. An event that has no stack of the forward pass has no such member. */
json_t *gm_json_event_head(const struct gm_model *model, uint32_t number);
json_t *gm_json_python_stack(const struct gm_log *log, uint32_t stack);
json_t *gm_json_forward_stack(const struct gm_model *model, uint32_t number);
json_t *gm_json_native_stack(const struct gm_log *log, uint32_t stack);
/* Before the first value of a process: values get their memory as all of gpumem does
 * (base/allocation.h). */
void gm_json_begin(void);
/* A value's text, which the caller frees; releases the value. As in gm_json_write_as(), half a
 * value is none. */
struct gm_error *gm_json_text(json_t *value, size_t flags, char **ret_text);
/*
 * Writes one value and a newline, and releases it. NULL value: no memory. Nothing is written if any
 * allocation failed on the way to it: fields may be missing in it.
 */
struct gm_error *gm_json_write_as(json_t *value, size_t flags, FILE *out); /* flags: jansson's */
struct gm_error *gm_json_write(json_t *value, bool indent, FILE *out);

#endif
