#include "holders/unattributed/stray.h"

#include <stdlib.h>

void gm_strays_deinit(struct gm_strays *strays)
{
	for (size_t i = 0; i < strays->items.count; i++)
		free(strays->items.items[i].text);
	gm_array_deinit(&strays->items);
}
