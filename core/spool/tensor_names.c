/* Names of tensors, from extents of names into the log. */
#include <stdlib.h>
#include <string.h>

#include "spool/internal.h"

enum { NAMES_MAX = 1 << 20 };

/* There are few readings, and they are usually in order already. */
static bool insert(struct gm_spool_named_list *list, const struct gm_spool_named *named)
{
	if (!gm_array_push(&list->items, *named))
		return false;
	size_t at = list->items.count - 1;
	for (; at > list->written && list->items.items[at - 1].sequence > named->sequence; at--)
		list->items.items[at] = list->items.items[at - 1];
	list->items.items[at] = *named;
	return true;
}

bool gm_spool_named_read(struct gm_spool_named_list *list, const struct gm_spool_record *record)
{
	struct gm_cursor in = {
	        .at = record->payload.at, .end = record->payload.at + record->payload.size};
	if (record->kind == GM_AGENT_NAMED) {
		uint64_t sequence = gm_get_varint(&in);
		/* readings ascend in the file */
		list->sequence = sequence > list->sequence ? sequence : list->sequence;
		return !in.bad;
	}
	struct gm_spool_named named = {.sequence = list->sequence};
	uint32_t kind = gm_get_u32(&in), type = gm_get_u32(&in);
	int64_t device = gm_unzigzag(gm_get_varint(&in));
	named.name.address = gm_get_varint(&in);
	named.name.offset = gm_get_varint(&in);
	named.name.size = gm_get_varint(&in);
	uint64_t length = gm_get_varint(&in);
	if (in.bad || length == 0 || length > GM_LOG_NAME_MAX ||
	        length > (uint64_t)(in.end - in.at) || memchr(in.at, 0, length) || kind == 0 ||
	        type > UINT8_MAX || device < INT16_MIN || device > INT16_MAX ||
	        named.name.offset + named.name.size < named.name.size)
		return false;
	named.name.kind = kind < GM_NAMED_COUNT ? (uint8_t)kind : GM_NAMED_ATTRIBUTE;
	named.name.device_type = (uint8_t)type;
	named.name.device = (int16_t)device;
	if (list->items.count >= NAMES_MAX)
		return true;
	named.text = strndup((const char *)in.at, length);
	if (named.text && insert(list, &named))
		return true;
	free(named.text);
	return false;
}

void gm_spool_named_deinit(struct gm_spool_named_list *list)
{
	for (size_t i = 0; i < list->items.count; i++)
		free(list->items.items[i].text);
	gm_array_deinit(&list->items);
}

bool gm_spool_named_is_late(const struct gm_spool_named_list *list, uint64_t sequence)
{
	return list->written < list->items.count &&
	       list->items.items[list->written].sequence < sequence;
}

void gm_spool_named_write(struct gm_spool_named_list *list, struct gm_log_writer *log,
        uint64_t sequence, uint64_t event)
{
	for (; list->written < list->items.count; list->written++) {
		struct gm_spool_named *named = &list->items.items[list->written];
		if (named->sequence > sequence)
			break;
		named->name.event = event;
		named->name.name = gm_log_writer_string(log, named->text);
		if (named->name.name)
			gm_log_writer_name(log, &named->name);
		free(gm_take(named->text));
	}
}
