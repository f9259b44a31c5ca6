/*
 * The position of a `for` loop, from its iterator on the frame's value stack. FOR_ITER leaves the
 * iterator there while the body runs, at the stack depth of the loop's head.
 *
 * The word after the iterator's PyObject head is used. In each version with a table it changes with
 * every iteration:
 *   range_iterator   Objects/rangeobject.c: 3.9-3.11 `index`, 3.12 and 3.13 `start`, which
 *                    moves by the step
 *   list_iterator    Objects/listobject.c: it_index
 *   tuple_iterator   Objects/tupleobject.c: it_index
 *   enumerate        Objects/enumobject.c: en_index
 * 3.15 makes no iterator of a list or a tuple: the container is on the stack, and above it the
 * position, a tagged int (FOR_ITER_VIRTUAL, Python/bytecodes.c). Generators and iterators
 * written in Python have no position.
 */
#include <string.h>

#include "cpython/python.h"

enum { HEAD = 16, ITERATOR_BYTES = HEAD + 8 };

static bool is_counted(struct gm_python *python, uint64_t iterator, uint64_t type)
{
	static const char *const names[] = {
	        "range_iterator", "list_iterator", "tuple_iterator", "enumerate"};
	const char *name;

	for (size_t i = 0; i < GM_ITERATOR_TYPES; i++)
		if (type == python->iterator_types[i])
			return true;
	if (type == python->other_iterator_type || !gm_python_type_name(python, iterator, &name))
		return false;
	for (size_t i = 0; i < GM_ITERATOR_TYPES; i++) {
		if (strcmp(name, names[i]) != 0)
			continue;
		/* a class of the program may have the name; the static types never move */
		const struct gm_type *known = gm_py_type(python, type);
		if (!known || (known->flags & GM_TYPE_FLAG_HEAP))
			break;
		python->iterator_types[i] = type;
		return true;
	}
	python->other_iterator_type = type;
	return false;
}

bool gm_python_loop_position(struct gm_python *python, const struct gm_python_frame *frame,
        uint32_t loop, uint64_t *ret_position)
{
	struct gm_instruction head;
	const uint64_t values = (uint64_t)python->layout.loop_slots;
	uint64_t slot, words[2];
	uint8_t bytes[ITERATOR_BYTES];

	if (loop >= frame->code->loop_count)
		return false;
	uint32_t start = frame->code->loops[loop].start;
	gm_python_instruction(python, frame->code, start, &head);
	if (head.op != GM_OP_FOR_ITER)
		return false;
	int depth = gm_py_depth_at(python, gm_py_entry_of(frame->code), start);
	if (depth < (int)values)
		return false;
	slot = gm_py_slot_address(python, frame->address,
	        (uint64_t)frame->code->local_count + (uint64_t)depth - values);
	/* the walk has just read the thread's own stack */
	if (slot >= python->window_start && python->window_size >= 8 * values &&
	        slot - python->window_start <= python->window_size - 8 * values)
		memcpy(words, python->window + (slot - python->window_start), 8 * values);
	else if (!gm_image_try_read(python->image, slot, words, 8 * values))
		return false;
	if (values > 1 && gm_stackref_is_int(&python->layout, words[1])) {
		*ret_position = words[1];
		return true;
	}
	uint64_t iterator = gm_stackref_object(&python->layout, words[0]);
	if (!iterator || (iterator & 7) ||
	        !gm_image_try_read(python->image, iterator, bytes, sizeof(bytes)) ||
	        !is_counted(python, iterator, gm_u64_at(bytes, 8)))
		return false;
	*ret_position = gm_u64_at(bytes, HEAD);
	return true;
}
