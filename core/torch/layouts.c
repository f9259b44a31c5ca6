#include "torch/layouts.h"

#include <stdio.h>

#include "torch/layout_rows.h"

static bool covers(const struct gm_torch_layout *layout, int major, int minor, bool old_strings)
{
	return layout->major == major && layout->old_strings == old_strings &&
	       layout->minor_first <= minor && minor <= layout->minor_last;
}

const struct gm_torch_layout *gm_torch_layout_at(size_t index)
{
	return index < gm_torch_layout_count ? &gm_torch_layouts[gm_torch_layout_count - 1 - index]
	                                     : NULL;
}

const struct gm_torch_layout *gm_torch_layout_for(const char *version, bool old_strings)
{
	int major, minor;
	if (sscanf(version, "%d.%d", &major, &minor) != 2)
		return NULL;
	const struct gm_torch_layout *layout;
	for (size_t i = 0; (layout = gm_torch_layout_at(i)); i++)
		if (covers(layout, major, minor, old_strings))
			return layout;
	return NULL;
}

const char *gm_torch_layout_versions(void)
{
	return gm_torch_layout_range;
}
