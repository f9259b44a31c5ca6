#include "agent/gap.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "agent/put.h"
#include "agent/state.h"
#include "base/varint.h"

enum { GAPS_MAX = 64, GAP_TEXT = 512, EARLY = 8 };

/* Reported gaps, by a hash of the text; and gaps from before there was a file. */
static uint64_t reported[GAPS_MAX];
static _Atomic uint32_t reported_count;
static char early[EARLY][GAP_TEXT];
static uint32_t early_count;

void gm_agent_gap_put(const char *text)
{
	uint8_t payload[GAP_TEXT + 8], *at = payload;
	size_t length = strnlen(text, GAP_TEXT);
	at = gm_put_varint(at, length);
	memcpy(at, text, length);
	gm_agent_put(GM_AGENT_GAP, 0, payload, (size_t)(at - payload) + length);
}

void gm_agent_gaps_begin(void)
{
	atomic_store(&reported_count, 0);
}

void gm_agent_gaps_put_early(void)
{
	for (uint32_t i = 0; i < early_count; i++)
		gm_agent_gap_put(early[i]);
}

void gm_agent_gaps_end(void)
{
	early_count = 0;
}

void gm_agent_gap(const char *text)
{
	uint64_t hash = 14695981039346656037u;
	for (const char *at = text; *at; at++)
		hash = (hash ^ (uint8_t)*at) * 1099511628211u;
	uint32_t count = atomic_load(&reported_count);
	for (uint32_t i = 0; i < count && i < GAPS_MAX; i++)
		if (reported[i] == hash)
			return;
	count = atomic_fetch_add(&reported_count, 1);
	if (count >= GAPS_MAX)
		return;
	reported[count] = hash;
	if (gm_agent_waits()) {
		if (early_count < EARLY)
			snprintf(early[early_count++], GAP_TEXT, "%s", text);
		return;
	}
	bool entered = gm_agent_enter();
	if (entered || gm_agent_is_inside())
		gm_agent_gap_put(text);
	if (entered)
		gm_agent_leave();
}
