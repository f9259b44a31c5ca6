#include "holders/native/object.h"
#include "holders/graph/graph.h"

const struct gm_class *gm_graph_class_at(struct gm_holders *graph, uint64_t object)
{
	uint64_t vtable;
	if (object == 0 || (object & 7) || !gm_image_try_u64(graph->image, object, &vtable))
		return NULL;
	return gm_classes_at(gm_torch_classes(graph->torch), vtable);
}

/* A Python object that a C++ object owns: a vertex even if Python's collector does not track it. */
void gm_graph_refer_python_by(struct gm_holders *graph, uint32_t from, uint64_t word,
        enum gm_reference kind, uint32_t extra)
{
	uint64_t object;
	if (word != 0 && gm_image_try_u64(graph->image, word, &object) && object != 0 &&
	        (object & 7) == 0 && graph->python)
		gm_graph_refer(graph, from, gm_graph_add(graph, object, GM_VERTEX_PYTHON, 0), kind,
		        extra, word);
}

void gm_graph_refer_python(
        struct gm_holders *graph, uint32_t from, uint64_t word, enum gm_reference kind)
{
	gm_graph_refer_python_by(graph, from, word, kind, 0);
}
