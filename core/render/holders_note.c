#include "render/holders_note.h"

#include <inttypes.h>

#include "render/say.h"

static const char *counted_text(const struct gm_holders_note *note)
{
	switch (note->counted) {
	case GM_COUNTED_STORAGE:
		return "storage";
	case GM_COUNTED_TENSOR:
		return "tensor";
	case GM_COUNTED_NODE:
		return "autograd node";
	default:
		return note->type ? note->type : "object";
	}
}

char *gm_holders_note_text(const struct gm_holders_note *note)
{
	switch (note->kind) {
	case GM_NOTE_CUT_SHORT:
		return gm_say("the search stopped at its limit");
	case GM_NOTE_NO_PYTHON:
		return gm_say("Python's objects were not searched");
	case GM_NOTE_GUESSED:
		return gm_say("%" PRIu64 " of the %" PRIu64
		              " references found to the %s at 0x%" PRIx64 " (it counts %" PRIu64
		              ") %s whose fields gpumem does not know: whether it owns what it "
		              "points to is a guess",
		        note->guessed, note->found, counted_text(note), note->address,
		        note->refcount,
		        note->guessed == 1 ? "is a word of a C or C++ object"
		                           : "are words of C or C++ objects");
	case GM_NOTE_MISSING:
		break;
	}
	return gm_say("%" PRIu64 " of %" PRIu64 " references to the %s at 0x%" PRIx64
	              " found in typed fields; %s",
	        note->found, note->refcount, counted_text(note), note->address,
	        note->words == 0 ? "what else holds it is not known (a register, or an object that "
	                           "Python's collector does not track)"
	        : note->words == note->refcount - note->found
	                ? "as many unattributed words point to it as references are missing"
	                : "the unattributed words that point to it are listed as plausible");
}
