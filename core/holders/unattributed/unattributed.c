#include "holders/unattributed/unattributed.h"

#include <stdlib.h>

void gm_unattributed_list_deinit(struct gm_unattributed_list *unattributed_list)
{
	for (size_t i = 0; i < unattributed_list->items.count; i++)
		gm_native_owner_release(unattributed_list->items.items[i].native);
	gm_array_deinit(&unattributed_list->items);
}
