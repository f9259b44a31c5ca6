#include "model/statements.h"

#include <string.h>

#include "base/hash.h"
#include "model/internal.h"
#include "model/native_names.h"

/* A stack without operators has this hash, so that it is not read again. */
enum { NO_OPERATOR = 1 };

void gm_statements_deinit(struct gm_statements *statements)
{
	gm_array_deinit(&statements->operators);
	gm_map_deinit(&statements->first);
}

static uint64_t read_operators(const struct gm_log *log, uint32_t stack)
{
	size_t count;
	const uint64_t *addresses = gm_log_native_stack(log, stack, &count);
	uint64_t hash = NO_OPERATOR;
	for (size_t i = 0; i < count; i++) {
		uint32_t function, file, line;
		char name[GM_NATIVE_NAME_MAX];
		if (gm_log_symbol(log, addresses[i], &function, &file, &line) && function &&
		        gm_native_operator(gm_log_string(log, function), name))
			hash = gm_hash_bytes(name, strlen(name), hash) | 2; /* not NO_OPERATOR */
	}
	return hash;
}

static uint64_t operators_of(struct gm_statements *statements, uint32_t stack)
{
	if (!gm_array_reach(&statements->operators, stack))
		return NO_OPERATOR;
	uint64_t *hash = &statements->operators.items[stack];
	if (!*hash)
		*hash = read_operators(statements->model->log, stack);
	return *hash;
}

static bool are_alike(const struct gm_site *one, const struct gm_site *other)
{
	return one->python_stack == other->python_stack && one->thread == other->thread &&
	       one->flags == other->flags && one->foreign == other->foreign;
}

uint32_t gm_statement_of(struct gm_statements *statements, uint32_t site)
{
	const struct gm_site *sites = statements->model->sites.items.items;
	const struct gm_site *asked = &sites[site];
	uint64_t operators = asked->python_stack && asked->native_stack
	                             ? operators_of(statements, asked->native_stack)
	                             : NO_OPERATOR;
	if (operators == NO_OPERATOR)
		return site;
	uint64_t key = gm_hash_mix(operators ^ gm_hash_mix((uint64_t)asked->python_stack << 32 ^
	                                                   asked->thread << 8 ^ asked->flags));
	bool is_new;
	uint64_t *found = gm_map_put(&statements->first, key, &is_new);
	if (!found)
		return site;
	if (is_new)
		*found = site;
	/* Where two statements have one hash, sites of the second are not merged. */
	uint32_t first = (uint32_t)*found;
	return are_alike(&sites[first], asked) &&
	                       operators_of(statements, sites[first].native_stack) == operators
	               ? first
	               : site;
}
