#include "agent/put.h"

#include <string.h>

#include "agent/spool.h"
#include "agent/format.h"
#include "base/varint.h"

bool gm_agent_put(enum gm_agent_record kind, uint32_t id, const void *bytes, size_t count)
{
	uint8_t head[32], number[8], *at = gm_put_varint(head, kind);
	bool has_id = gm_agent_has_id(kind);
	size_t number_size = has_id ? (size_t)(gm_put_varint(number, id) - number) : 0;
	at = gm_put_varint(at, count + number_size);
	memcpy(at, number, number_size);
	size_t head_size = (size_t)(at - head) + number_size;
	struct gm_agent_buffer *buffer =
	        count < GM_AGENT_RECORD_MAX / 2 ? gm_agent_buffer(head_size + count) : NULL;
	if (!buffer)
		return false;
	uint8_t *to = gm_agent_buffer_at(buffer);
	memcpy(to, head, head_size);
	memcpy(to + head_size, bytes, count);
	gm_agent_buffer_commit(buffer, to + head_size + count);
	return true;
}
