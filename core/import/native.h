/*
 * Which frames of a snapshot are native code. A frame is a file, a line and a name, without its
 * language. With stacks="all" PyTorch puts the frames of C++ between those of
 * Python, in one of these forms (torch/csrc/profiler/unwind/unwind.cpp; TORCH_SYMBOLIZE_MODE
 * chooses):
 *
 *   addr2line, fast      a source file of C++ and its line
 *   dladdr               the library or program that has the code, and as the line the offset of
 *                        the code in it, as in
 *                        {'name': '??', 'filename': '/usr/lib/libm.so.6', 'line': 1038786}
 *   nothing is known     "??" or an empty name
 *
 * Most file names show it by their suffix. A program has no such suffix ("/usr/bin/python3.11"),
 * and neither has a script that was installed as a command ("/usr/local/bin/torchrun"): there the
 * names of all frames of the file decide.
 */
#ifndef GM_IMPORT_NATIVE_H
#define GM_IMPORT_NATIVE_H

#include "import/pickle.h"

enum gm_file_kind {
	GM_FILE_UNKNOWN,
	GM_FILE_PYTHON,
	GM_FILE_SOURCE, /* of native code */
	GM_FILE_OBJECT, /* of machine code: lines are offsets in it */
};

/* What a file name tells by itself. GM_FILE_UNKNOWN: nothing. */
enum gm_file_kind gm_file_kind_of_name(const char *file, size_t length);

/* The kind of each file that a frame of the pickle names, by string id: never unknown there. The
 * caller frees the array. NULL: no memory. */
uint8_t *gm_file_kinds(const struct gm_pickle *pickle);

#endif
