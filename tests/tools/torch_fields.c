/* Prints every field of the row that gpumem ships for a version of PyTorch, a line each:
 * torch_fields 2.8, or torch_fields 2.5 old for a build with the old std::string. For
 * tests/e2e/test_learn_torch.py and test_versions.py. */
#include <stdio.h>

#include "torch/fields.h"
#include "torch/layouts.h"

int main(int argc, char **argv)
{
	const struct gm_torch_layout *layout =
	        argc >= 2 ? gm_torch_layout_for(argv[1], argc > 2) : NULL;
	if (!layout) {
		fprintf(stderr, "no table: there are those of %s\n", gm_torch_layout_versions());
		return 1;
	}
	const char *why;
	const struct gm_torch_field *unsound = gm_torch_layout_unsound(layout, &why);
	if (unsound) {
		fprintf(stderr, "%s %s\n", unsound->name, why);
		return 1;
	}
	for (size_t i = 0; i < gm_torch_field_count; i++)
		printf("field %s %u\n", gm_torch_fields[i].name,
		        (unsigned)gm_torch_field_get(layout, &gm_torch_fields[i]));
	return 0;
}
