/*
 * Prints one layout table of core/cpython/versions (layout_3xx.c) for the CPython whose headers it
 * is compiled against; `make_tables` runs it once per version. It is not part of gpumem's build.
 *
 * Each row names the struct, the member and the header it comes from. Structs that CPython keeps in
 * its .c files are copied below with their source.
 */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#include <structmember.h>
#include <stddef.h>
#include <stdio.h>

#include <pycore_gc.h>
#include <pycore_interp.h>
#include <pycore_pystate.h>
#include <pycore_runtime.h>
#include <pycore_code.h>
#if PY_VERSION_HEX >= 0x030a0000
#include <pycore_moduleobject.h>
#else
/* Objects/moduleobject.c (3.9) */
typedef struct {
	PyObject_HEAD PyObject *md_dict;
	struct PyModuleDef *md_def;
	void *md_state;
	PyObject *md_weaklist;
	PyObject *md_name;
} PyModuleObject;
#endif
#if PY_VERSION_HEX >= 0x030b0000
#include <pycore_dict.h>
#include <pycore_object.h>
#include <pycore_frame.h>
#else
/* Objects/dict-common.h (3.9, 3.10) */
struct _dictkeysobject {
	Py_ssize_t dk_refcnt;
	Py_ssize_t dk_size;
	void *dk_lookup;
	Py_ssize_t dk_usable;
	Py_ssize_t dk_nentries;
	char dk_indices[];
};
#endif

#if PY_VERSION_HEX >= 0x030e0000
#include <pycore_ceval.h>
#endif
#if PY_VERSION_HEX >= 0x030c0000
#include <pycore_obmalloc.h>
#define POOL_SOURCE "POOL_SIZE, Include/internal/pycore_obmalloc.h"
#elif PY_VERSION_HEX >= 0x030a0000
#define POOL_SIZE (1 << 14)
#define POOL_SOURCE "POOL_SIZE, Objects/obmalloc.c"
#else
#define POOL_SIZE (1 << 12)
#define POOL_SOURCE "POOL_SIZE, Objects/obmalloc.c"
#endif

/* Modules/_collectionsmodule.c: dequeobject and BLOCK (3.9 to 3.13) */
#define BLOCKLEN 64
struct deque_block {
	struct deque_block *leftlink;
	PyObject *data[BLOCKLEN];
	struct deque_block *rightlink;
};
struct deque {
	PyObject_VAR_HEAD struct deque_block *leftblock;
	struct deque_block *rightblock;
	Py_ssize_t leftindex;
	Py_ssize_t rightindex;
	size_t state;
	Py_ssize_t maxlen;
	PyObject *weakreflist;
};
/* Objects/descrobject.c: propertyobject (prop_name from 3.10 on), mappingproxyobject (3.9 to
 * 3.13) */
struct property {
	PyObject_HEAD PyObject *prop_get, *prop_set, *prop_del, *prop_doc, *prop_name;
};
struct mappingproxy {
	PyObject_HEAD PyObject *mapping;
};
/* Modules/_functoolsmodule.c: partialobject (3.9 to 3.13) */
struct partial {
	PyObject_HEAD PyObject *fn, *args, *kw, *dict;
};
/* Objects/funcobject.c: classmethod, staticmethod (3.9 to 3.13) */
struct callable_wrapper {
	PyObject_HEAD PyObject *callable;
	PyObject *dict;
};
/* Objects/iterobject.c seqiterobject, listobject.c _PyListIterObject, tupleobject.c (3.9 to
 * 3.13) */
struct sequence_iterator {
	PyObject_HEAD Py_ssize_t index;
	PyObject *sequence;
};

#define ROW(name, value, source) printf("\t.%s = %ld, /* %s */\n", #name, (long)(value), source)
#define FIELD(name, type, member, header)                               \
	printf("\t.%s = %ld, /* " #type "." #member ", %s */\n", #name, \
	        (long)offsetof(type, member), header)
#define NONE(name) printf("\t.%s = GM_NO_FIELD,\n", #name)

/* A field that CPython publishes about itself: where _Py_DebugOffsets has the offset, and the size
 * of the struct. */
#define PUBLISHED(name, group, member)                                                       \
	printf("\t{offsetof(struct gm_python_layout, %s), %ld, %ld}, /* " #group "." #member \
	       " */\n",                                                                      \
	        #name, (long)offsetof(struct _Py_DebugOffsets, group.member),                \
	        (long)offsetof(struct _Py_DebugOffsets, group.size))

#define INTERNAL "Include/internal/"
#define CPYTHON "Include/cpython/"

static void runtime(void)
{
	FIELD(runtime_initialized, _PyRuntimeState, initialized, INTERNAL "pycore_runtime.h");
	FIELD(runtime_interpreters_head, _PyRuntimeState, interpreters.head,
	        INTERNAL "pycore_runtime.h");
	FIELD(interpreter_next, PyInterpreterState, next, INTERNAL "pycore_interp.h");
#if PY_VERSION_HEX >= 0x030b0000
	FIELD(interpreter_threads, PyInterpreterState, threads.head, INTERNAL "pycore_interp.h");
#else
	FIELD(interpreter_threads, PyInterpreterState, tstate_head, INTERNAL "pycore_interp.h");
#endif
#if PY_VERSION_HEX >= 0x030c0000
	FIELD(interpreter_modules, PyInterpreterState, imports.modules, INTERNAL "pycore_import.h");
#else
	FIELD(interpreter_modules, PyInterpreterState, modules, INTERNAL "pycore_interp.h");
#endif
	FIELD(interpreter_builtins, PyInterpreterState, builtins, INTERNAL "pycore_interp.h");
	FIELD(interpreter_gc, PyInterpreterState, gc, INTERNAL "pycore_interp.h");
	FIELD(interpreter_generations, PyInterpreterState, gc.generations, INTERNAL "pycore_gc.h");
	ROW(gc_generation_size, sizeof(struct gc_generation),
	        "sizeof(struct gc_generation), " INTERNAL "pycore_gc.h");
	ROW(gc_generation_count, NUM_GENERATIONS, "NUM_GENERATIONS, " INTERNAL "pycore_gc.h");
	FIELD(interpreter_permanent, PyInterpreterState, gc.permanent_generation,
	        INTERNAL "pycore_gc.h");
	ROW(pool_size, POOL_SIZE, POOL_SOURCE);
	ROW(gc_head_size, sizeof(PyGC_Head), "sizeof(PyGC_Head), " INTERNAL "pycore_gc.h");
	FIELD(gc_head_next, PyGC_Head, _gc_next, INTERNAL "pycore_gc.h");
	FIELD(gc_head_previous, PyGC_Head, _gc_prev, INTERNAL "pycore_gc.h");
}

static void thread(void)
{
	FIELD(thread_next, PyThreadState, next, CPYTHON "pystate.h");
	FIELD(thread_interpreter, PyThreadState, interp, CPYTHON "pystate.h");
	FIELD(thread_ident, PyThreadState, thread_id, CPYTHON "pystate.h");
	FIELD(thread_exc_info, PyThreadState, exc_info, CPYTHON "pystate.h");
	FIELD(exc_item_value, _PyErr_StackItem, exc_value, CPYTHON "pystate.h");
	FIELD(exc_item_previous, _PyErr_StackItem, previous_item, CPYTHON "pystate.h");
#if PY_VERSION_HEX >= 0x030c0000
	FIELD(thread_raised, PyThreadState, current_exception, CPYTHON "pystate.h");
#else
	FIELD(thread_raised, PyThreadState, curexc_value, CPYTHON "pystate.h");
#endif
	FIELD(thread_context, PyThreadState, context, CPYTHON "pystate.h");
	FIELD(thread_dict, PyThreadState, dict, CPYTHON "pystate.h");
#if PY_VERSION_HEX >= 0x030b0000
	FIELD(thread_native_id, PyThreadState, native_thread_id, CPYTHON "pystate.h");
	FIELD(thread_chunk, PyThreadState, datastack_chunk, CPYTHON "pystate.h");
	FIELD(thread_chunk_top, PyThreadState, datastack_top, CPYTHON "pystate.h");
	FIELD(thread_chunk_limit, PyThreadState, datastack_limit, CPYTHON "pystate.h");
	FIELD(chunk_previous, _PyStackChunk, previous, CPYTHON "pystate.h");
	FIELD(chunk_size, _PyStackChunk, size, CPYTHON "pystate.h");
	FIELD(chunk_top, _PyStackChunk, top, CPYTHON "pystate.h");
	FIELD(chunk_data, _PyStackChunk, data, CPYTHON "pystate.h");
#else
	NONE(thread_native_id);
	NONE(thread_chunk);
	NONE(thread_chunk_top);
	NONE(thread_chunk_limit);
	NONE(chunk_previous);
	NONE(chunk_size);
	NONE(chunk_top);
	NONE(chunk_data);
#endif
#if PY_VERSION_HEX >= 0x030d0000
	FIELD(thread_frame, PyThreadState, current_frame, CPYTHON "pystate.h");
	NONE(thread_cframe);
	NONE(cframe_frame);
#elif PY_VERSION_HEX >= 0x030b0000
	NONE(thread_frame);
	FIELD(thread_cframe, PyThreadState, cframe, CPYTHON "pystate.h");
	FIELD(cframe_frame, _PyCFrame, current_frame, CPYTHON "pystate.h");
#else
	FIELD(thread_frame, PyThreadState, frame, CPYTHON "pystate.h");
	NONE(thread_cframe);
	NONE(cframe_frame);
#endif
	ROW(thread_size, sizeof(PyThreadState), "sizeof(PyThreadState), " CPYTHON "pystate.h");
}

static void frame(void)
{
#if PY_VERSION_HEX >= 0x030b0000
#define FRAME INTERNAL "pycore_frame.h"
#if PY_VERSION_HEX >= 0x030d0000
	FIELD(frame_code, _PyInterpreterFrame, f_executable, FRAME);
	FIELD(frame_instruction, _PyInterpreterFrame, instr_ptr, FRAME);
#else
	FIELD(frame_code, _PyInterpreterFrame, f_code, FRAME);
	FIELD(frame_instruction, _PyInterpreterFrame, prev_instr, FRAME);
#endif
#if PY_VERSION_HEX >= 0x030c0000
	FIELD(frame_function, _PyInterpreterFrame, f_funcobj, FRAME);
	NONE(frame_is_entry);
#else
	FIELD(frame_function, _PyInterpreterFrame, f_func, FRAME);
	FIELD(frame_is_entry, _PyInterpreterFrame, is_entry, FRAME);
#endif
	NONE(frame_lasti);
	FIELD(frame_previous, _PyInterpreterFrame, previous, FRAME);
	FIELD(frame_globals, _PyInterpreterFrame, f_globals, FRAME);
	FIELD(frame_builtins, _PyInterpreterFrame, f_builtins, FRAME);
	FIELD(frame_locals, _PyInterpreterFrame, f_locals, FRAME);
	FIELD(frame_object, _PyInterpreterFrame, frame_obj, FRAME);
#if PY_VERSION_HEX >= 0x030e0000
	FIELD(frame_stacktop, _PyInterpreterFrame, stackpointer, FRAME);
#else
	FIELD(frame_stacktop, _PyInterpreterFrame, stacktop, FRAME);
#endif
	NONE(frame_valuestack);
	FIELD(frame_owner, _PyInterpreterFrame, owner, FRAME);
	FIELD(frame_localsplus, _PyInterpreterFrame, localsplus, FRAME);
#if PY_VERSION_HEX >= 0x030e0000
	ROW(stackref_tags, Py_TAG_BITS, "Py_TAG_BITS, " INTERNAL "pycore_stackref.h");
	ROW(stackref_uncounted, Py_TAG_REFCNT, "Py_TAG_REFCNT, " INTERNAL "pycore_stackref.h");
#else
	ROW(stackref_tags, 0, "slots are PyObject *, " FRAME);
	ROW(stackref_uncounted, 0, "slots are PyObject *, " FRAME);
#endif
	FIELD(frameobject_frame, PyFrameObject, f_frame, FRAME);
	FIELD(frameobject_back, PyFrameObject, f_back, FRAME);
	FIELD(frameobject_trace, PyFrameObject, f_trace, FRAME);
#else
#define FRAME CPYTHON "frameobject.h"
	FIELD(frame_code, PyFrameObject, f_code, FRAME);
	NONE(frame_instruction);
	NONE(frame_function);
	NONE(frame_is_entry);
	FIELD(frame_lasti, PyFrameObject, f_lasti, FRAME);
	FIELD(frame_previous, PyFrameObject, f_back, FRAME);
	FIELD(frame_globals, PyFrameObject, f_globals, FRAME);
	FIELD(frame_builtins, PyFrameObject, f_builtins, FRAME);
	FIELD(frame_locals, PyFrameObject, f_locals, FRAME);
	NONE(frame_object);
#if PY_VERSION_HEX >= 0x030a0000
	FIELD(frame_stacktop, PyFrameObject, f_stackdepth, FRAME);
#else
	FIELD(frame_stacktop, PyFrameObject, f_stacktop, FRAME);
#endif
	FIELD(frame_valuestack, PyFrameObject, f_valuestack, FRAME);
	NONE(frame_owner);
	FIELD(frame_localsplus, PyFrameObject, f_localsplus, FRAME);
	ROW(stackref_tags, 0, "slots are PyObject *, " FRAME);
	ROW(stackref_uncounted, 0, "slots are PyObject *, " FRAME);
	NONE(frameobject_frame);
	FIELD(frameobject_back, PyFrameObject, f_back, FRAME);
	FIELD(frameobject_trace, PyFrameObject, f_trace, FRAME);
#endif
}

/* Python/bytecodes.c: FOR_ITER has the iterator; in 3.15 above it an index or NULL */
static void loops(void)
{
	ROW(loop_slots, PY_VERSION_HEX >= 0x030f0000 ? 2 : 1, "FOR_ITER, Python/bytecodes.c");
}

static void code(void)
{
#define CODE CPYTHON "code.h"
	FIELD(code_name, PyCodeObject, co_name, CODE);
	FIELD(code_filename, PyCodeObject, co_filename, CODE);
	FIELD(code_first_line, PyCodeObject, co_firstlineno, CODE);
	FIELD(code_names, PyCodeObject, co_names, CODE);
	FIELD(code_consts, PyCodeObject, co_consts, CODE);
	FIELD(code_flags, PyCodeObject, co_flags, CODE);
	FIELD(code_stacksize, PyCodeObject, co_stacksize, CODE);
	FIELD(code_nlocals, PyCodeObject, co_nlocals, CODE);
#if PY_VERSION_HEX >= 0x030b0000
	FIELD(code_qualname, PyCodeObject, co_qualname, CODE);
	FIELD(code_lines, PyCodeObject, co_linetable, CODE);
	FIELD(code_locals_names, PyCodeObject, co_localsplusnames, CODE);
	FIELD(code_locals_kinds, PyCodeObject, co_localspluskinds, CODE);
	FIELD(code_locals_count, PyCodeObject, co_nlocalsplus, CODE);
	FIELD(code_adaptive, PyCodeObject, co_code_adaptive, CODE);
	FIELD(code_exceptions, PyCodeObject, co_exceptiontable, CODE);
	FIELD(code_first_traceable, PyCodeObject, _co_firsttraceable, CODE);
	NONE(code_bytes);
	NONE(code_varnames);
	NONE(code_cellvars);
	NONE(code_freevars);
#else
	NONE(code_qualname);
#if PY_VERSION_HEX >= 0x030a0000
	FIELD(code_lines, PyCodeObject, co_linetable, CODE);
#else
	FIELD(code_lines, PyCodeObject, co_lnotab, CODE);
#endif
	NONE(code_locals_names);
	NONE(code_locals_kinds);
	NONE(code_locals_count);
	NONE(code_adaptive);
	NONE(code_exceptions);
	NONE(code_first_traceable);
	FIELD(code_bytes, PyCodeObject, co_code, CODE);
	FIELD(code_varnames, PyCodeObject, co_varnames, CODE);
	FIELD(code_cellvars, PyCodeObject, co_cellvars, CODE);
	FIELD(code_freevars, PyCodeObject, co_freevars, CODE);
#endif
#if PY_VERSION_HEX >= 0x030c0000
	FIELD(code_framesize, PyCodeObject, co_framesize, CODE);
	FIELD(code_version, PyCodeObject, co_version, CODE);
	FIELD(code_monitoring, PyCodeObject, _co_monitoring, CODE);
	FIELD(monitoring_lines, _PyCoMonitoringData, lines, CODE);
#if PY_VERSION_HEX >= 0x030e0000
	ROW(monitoring_line_size, 0, "bytes_per_entry, " INTERNAL "pycore_instruments.h");
#else
	ROW(monitoring_line_size, sizeof(_PyCoLineInstrumentationData),
	        "sizeof(_PyCoLineInstrumentationData), " CODE);
#endif
	FIELD(monitoring_opcodes, _PyCoMonitoringData, per_instruction_opcodes, CODE);
#else
	NONE(code_framesize);
	NONE(code_version);
	NONE(code_monitoring);
	NONE(monitoring_lines);
	NONE(monitoring_line_size);
	NONE(monitoring_opcodes);
#endif
#if PY_VERSION_HEX >= 0x030b0000
	ROW(code_size, offsetof(PyCodeObject, co_code_adaptive),
	        "PyCodeObject up to co_code_adaptive");
#else
	ROW(code_size, sizeof(PyCodeObject), "sizeof(PyCodeObject), " CODE);
#endif
}

static void objects(void)
{
	FIELD(object_refcount, PyObject, ob_refcnt, "Include/object.h");
	ROW(refcount_size, sizeof(((PyObject *)0)->ob_refcnt),
	        "sizeof(PyObject.ob_refcnt), Include/object.h");
	FIELD(object_type, PyObject, ob_type, "Include/object.h");
	FIELD(object_size, PyVarObject, ob_size, "Include/object.h");
	ROW(object_head, sizeof(PyObject), "sizeof(PyObject), Include/object.h");
	FIELD(type_name, PyTypeObject, tp_name, CPYTHON "object.h");
	FIELD(type_basicsize, PyTypeObject, tp_basicsize, CPYTHON "object.h");
	FIELD(type_itemsize, PyTypeObject, tp_itemsize, CPYTHON "object.h");
	FIELD(type_flags, PyTypeObject, tp_flags, CPYTHON "object.h");
	FIELD(type_members, PyTypeObject, tp_members, CPYTHON "object.h");
	FIELD(type_base, PyTypeObject, tp_base, CPYTHON "object.h");
	FIELD(type_dict, PyTypeObject, tp_dict, CPYTHON "object.h");
	FIELD(type_dictoffset, PyTypeObject, tp_dictoffset, CPYTHON "object.h");
	FIELD(type_weaklistoffset, PyTypeObject, tp_weaklistoffset, CPYTHON "object.h");
	FIELD(type_bases, PyTypeObject, tp_bases, CPYTHON "object.h");
	FIELD(type_mro, PyTypeObject, tp_mro, CPYTHON "object.h");
	FIELD(type_cache, PyTypeObject, tp_cache, CPYTHON "object.h");
	ROW(type_size, sizeof(PyTypeObject), "sizeof(PyTypeObject), " CPYTHON "object.h");
	FIELD(heaptype_cached_keys, PyHeapTypeObject, ht_cached_keys, CPYTHON "object.h");
	FIELD(heaptype_name, PyHeapTypeObject, ht_name, CPYTHON "object.h");
	FIELD(heaptype_qualname, PyHeapTypeObject, ht_qualname, CPYTHON "object.h");
	FIELD(heaptype_module, PyHeapTypeObject, ht_module, CPYTHON "object.h");
	FIELD(member_name, PyMemberDef, name, "Include/structmember.h (3.12+: descrobject.h)");
	FIELD(member_type, PyMemberDef, type, "Include/structmember.h (3.12+: descrobject.h)");
	FIELD(member_offset, PyMemberDef, offset, "Include/structmember.h (3.12+: descrobject.h)");
	ROW(member_size, sizeof(PyMemberDef), "sizeof(PyMemberDef)");
}

static void values(void)
{
	FIELD(str_length, PyASCIIObject, length, CPYTHON "unicodeobject.h");
	FIELD(str_state, PyASCIIObject, state, CPYTHON "unicodeobject.h");
	ROW(str_ascii_size, sizeof(PyASCIIObject),
	        "sizeof(PyASCIIObject), " CPYTHON "unicodeobject.h");
	ROW(str_compact_size, sizeof(PyCompactUnicodeObject),
	        "sizeof(PyCompactUnicodeObject), " CPYTHON "unicodeobject.h");
	FIELD(str_data, PyUnicodeObject, data, CPYTHON "unicodeobject.h");
	FIELD(bytes_data, PyBytesObject, ob_sval, CPYTHON "bytesobject.h");
#if PY_VERSION_HEX >= 0x030c0000
	FIELD(long_tag, PyLongObject, long_value.lv_tag, CPYTHON "longintrepr.h");
	FIELD(long_digits, PyLongObject, long_value.ob_digit, CPYTHON "longintrepr.h");
#else
	NONE(long_tag);
	ROW(long_digits, sizeof(PyVarObject), "struct _longobject.ob_digit, Include/longintrepr.h");
#endif
	FIELD(float_value, PyFloatObject, ob_fval, CPYTHON "floatobject.h");
}

static void containers(void)
{
	FIELD(tuple_items, PyTupleObject, ob_item, CPYTHON "tupleobject.h");
	FIELD(list_items, PyListObject, ob_item, CPYTHON "listobject.h");
	FIELD(list_allocated, PyListObject, allocated, CPYTHON "listobject.h");
	FIELD(dict_used, PyDictObject, ma_used, CPYTHON "dictobject.h");
	FIELD(dict_keys, PyDictObject, ma_keys, CPYTHON "dictobject.h");
	FIELD(dict_values, PyDictObject, ma_values, CPYTHON "dictobject.h");
#if PY_VERSION_HEX >= 0x030b0000
#define KEYS INTERNAL "pycore_dict.h"
	NONE(keys_size);
	FIELD(keys_log2_size, struct _dictkeysobject, dk_log2_size, KEYS);
	FIELD(keys_log2_index_bytes, struct _dictkeysobject, dk_log2_index_bytes, KEYS);
	FIELD(keys_kind, struct _dictkeysobject, dk_kind, KEYS);
	FIELD(values_items, struct _dictvalues, values, KEYS);
#else
#define KEYS "Objects/dict-common.h"
	FIELD(keys_size, struct _dictkeysobject, dk_size, KEYS);
	NONE(keys_log2_size);
	NONE(keys_log2_index_bytes);
	NONE(keys_kind);
	ROW(values_items, 0, "ma_values is the array itself, Objects/dictobject.c");
#endif
	FIELD(keys_entries, struct _dictkeysobject, dk_nentries, KEYS);
	FIELD(keys_indices, struct _dictkeysobject, dk_indices, KEYS);
#if PY_VERSION_HEX >= 0x030d0000
	FIELD(values_embedded, struct _dictvalues, embedded, KEYS);
	FIELD(values_valid, struct _dictvalues, valid, KEYS);
	FIELD(values_capacity, struct _dictvalues, capacity, KEYS);
	ROW(values_by_dict, PY_VERSION_HEX >= 0x030e0000,
	        "dict_traverse(), Objects/dictobject.c; seen with gc.get_referents()");
#else
	ROW(values_by_dict, 0, "no values lie within instances");
	NONE(values_embedded);
	NONE(values_valid);
	NONE(values_capacity);
#endif
#if PY_VERSION_HEX >= 0x030d0000
	ROW(managed_dict, MANAGED_DICT_OFFSET, "MANAGED_DICT_OFFSET, " INTERNAL "pycore_object.h");
	NONE(managed_values);
#elif PY_VERSION_HEX >= 0x030c0000
	ROW(managed_dict, -3 * (long)sizeof(PyObject *),
	        "_PyObject_DictOrValuesPointer(), " INTERNAL "pycore_object.h");
	NONE(managed_values);
#elif PY_VERSION_HEX >= 0x030b0000
	ROW(managed_dict, -3 * (long)sizeof(PyObject *),
	        "_PyObject_ManagedDictPointer(), " INTERNAL "pycore_object.h");
	ROW(managed_values, -4 * (long)sizeof(PyObject *),
	        "_PyObject_ValuesPointer(), " INTERNAL "pycore_object.h");
#else
	NONE(managed_dict);
	NONE(managed_values);
#endif
	FIELD(set_used, PySetObject, used, "Include/setobject.h");
	FIELD(set_mask, PySetObject, mask, "Include/setobject.h");
	FIELD(set_table, PySetObject, table, "Include/setobject.h");
	ROW(set_entry_size, sizeof(setentry), "sizeof(setentry), Include/setobject.h");
	FIELD(deque_left_block, struct deque, leftblock, "Modules/_collectionsmodule.c");
	FIELD(deque_left_index, struct deque, leftindex, "Modules/_collectionsmodule.c");
	FIELD(deque_block_items, struct deque_block, data, "Modules/_collectionsmodule.c");
	FIELD(deque_block_right, struct deque_block, rightlink, "Modules/_collectionsmodule.c");
	ROW(deque_block_length, BLOCKLEN, "BLOCKLEN, Modules/_collectionsmodule.c");
}

static void callables(void)
{
#define FUNCTION CPYTHON "funcobject.h"
	FIELD(cell_content, PyCellObject, ob_ref, "Include/cpython/cellobject.h");
	FIELD(function_code, PyFunctionObject, func_code, FUNCTION);
	FIELD(function_globals, PyFunctionObject, func_globals, FUNCTION);
	FIELD(function_name, PyFunctionObject, func_name, FUNCTION);
	FIELD(function_qualname, PyFunctionObject, func_qualname, FUNCTION);
	FIELD(function_module, PyFunctionObject, func_module, FUNCTION);
	FIELD(function_defaults, PyFunctionObject, func_defaults, FUNCTION);
	FIELD(function_kwdefaults, PyFunctionObject, func_kwdefaults, FUNCTION);
	FIELD(function_closure, PyFunctionObject, func_closure, FUNCTION);
	FIELD(function_dict, PyFunctionObject, func_dict, FUNCTION);
	FIELD(function_doc, PyFunctionObject, func_doc, FUNCTION);
	FIELD(function_annotations, PyFunctionObject, func_annotations, FUNCTION);
#if PY_VERSION_HEX >= 0x030e0000
	FIELD(function_annotate, PyFunctionObject, func_annotate, FUNCTION);
#else
	NONE(function_annotate);
#endif
#if PY_VERSION_HEX >= 0x030a0000
	FIELD(function_builtins, PyFunctionObject, func_builtins, FUNCTION);
#else
	NONE(function_builtins);
#endif
#if PY_VERSION_HEX >= 0x030c0000
	FIELD(function_typeparams, PyFunctionObject, func_typeparams, FUNCTION);
#else
	NONE(function_typeparams);
#endif
	FIELD(method_function, PyMethodObject, im_func, CPYTHON "classobject.h");
	FIELD(method_self, PyMethodObject, im_self, CPYTHON "classobject.h");
	FIELD(builtin_self, PyCFunctionObject, m_self, CPYTHON "methodobject.h");
	FIELD(builtin_module, PyCFunctionObject, m_module, CPYTHON "methodobject.h");
	FIELD(module_dict, PyModuleObject, md_dict,
	        "Include/internal/pycore_moduleobject.h (3.9: Objects/moduleobject.c)");
	FIELD(module_state, PyModuleObject, md_state,
	        "Include/internal/pycore_moduleobject.h (3.9: Objects/moduleobject.c)");
	FIELD(property_get, struct property, prop_get, "Objects/descrobject.c");
#if PY_VERSION_HEX >= 0x030a0000
	FIELD(property_name, struct property, prop_name, "Objects/descrobject.c");
#else
	NONE(property_name);
#endif
	FIELD(mappingproxy_mapping, struct mappingproxy, mapping, "Objects/descrobject.c");
	FIELD(partial_function, struct partial, fn, "Modules/_functoolsmodule.c");
	FIELD(wrapper_callable, struct callable_wrapper, callable, "Objects/funcobject.c");
	FIELD(wrapper_dict, struct callable_wrapper, dict, "Objects/funcobject.c");
	FIELD(iterator_sequence, struct sequence_iterator, sequence, "Objects/listobject.c");
#if PY_VERSION_HEX >= 0x030b0000
	FIELD(generator_frame, PyGenObject, gi_iframe, CPYTHON "genobject.h");
	FIELD(generator_state, PyGenObject, gi_frame_state, CPYTHON "genobject.h");
#if PY_VERSION_HEX >= 0x030f0000
	ROW(generator_finished, FRAME_CLEARED,
	        "FRAME_STATE_FINISHED(), " INTERNAL "pycore_frame.h");
#else
	ROW(generator_finished, FRAME_COMPLETED, "FRAME_COMPLETED, " INTERNAL "pycore_frame.h");
#endif
#else
	FIELD(generator_frame, PyGenObject, gi_frame, "Include/genobject.h");
	NONE(generator_state);
	NONE(generator_finished);
#endif
#if PY_VERSION_HEX >= 0x030c0000
	NONE(generator_code);
#else
	FIELD(generator_code, PyGenObject, gi_code, "Include/genobject.h");
#endif
	FIELD(generator_name, PyGenObject, gi_name, CPYTHON "genobject.h");
	FIELD(generator_qualname, PyGenObject, gi_qualname, CPYTHON "genobject.h");
	FIELD(generator_exc_value, PyGenObject, gi_exc_state.exc_value, CPYTHON "genobject.h");
	FIELD(traceback_next, PyTracebackObject, tb_next, CPYTHON "traceback.h");
	FIELD(traceback_frame, PyTracebackObject, tb_frame, CPYTHON "traceback.h");
	FIELD(exception_dict, PyBaseExceptionObject, dict, CPYTHON "pyerrors.h");
	FIELD(exception_args, PyBaseExceptionObject, args, CPYTHON "pyerrors.h");
	FIELD(exception_traceback, PyBaseExceptionObject, traceback, CPYTHON "pyerrors.h");
	FIELD(exception_context, PyBaseExceptionObject, context, CPYTHON "pyerrors.h");
	FIELD(exception_cause, PyBaseExceptionObject, cause, CPYTHON "pyerrors.h");
#if PY_VERSION_HEX >= 0x030b0000
	FIELD(exception_notes, PyBaseExceptionObject, notes, CPYTHON "pyerrors.h");
#else
	NONE(exception_notes);
#endif
}

/* Include/internal/pycore_runtime.h (3.13), pycore_debug_offsets.h (3.14+) */
static void published(int minor)
{
	printf("\nconst struct gm_published_field gm_published_3%02d[] = {\n", minor);
#if PY_VERSION_HEX >= 0x030d0000
	PUBLISHED(runtime_interpreters_head, runtime_state, interpreters_head);
	PUBLISHED(interpreter_next, interpreter_state, next);
	PUBLISHED(interpreter_threads, interpreter_state, threads_head);
	PUBLISHED(interpreter_gc, interpreter_state, gc);
	PUBLISHED(interpreter_modules, interpreter_state, imports_modules);
	PUBLISHED(interpreter_builtins, interpreter_state, builtins);
	PUBLISHED(thread_next, thread_state, next);
	PUBLISHED(thread_interpreter, thread_state, interp);
	PUBLISHED(thread_frame, thread_state, current_frame);
	PUBLISHED(thread_ident, thread_state, thread_id);
	PUBLISHED(thread_native_id, thread_state, native_thread_id);
	PUBLISHED(thread_chunk, thread_state, datastack_chunk);
	PUBLISHED(frame_previous, interpreter_frame, previous);
	PUBLISHED(frame_code, interpreter_frame, executable);
	PUBLISHED(frame_instruction, interpreter_frame, instr_ptr);
	PUBLISHED(frame_localsplus, interpreter_frame, localsplus);
	PUBLISHED(frame_owner, interpreter_frame, owner);
#endif
#if PY_VERSION_HEX >= 0x030e0000
	PUBLISHED(frame_stacktop, interpreter_frame, stackpointer);
#endif
	printf("\t{0, 0, 0},\n};\n");
}

#define AT(group, member) (long)offsetof(struct _Py_DebugOffsets, group.member)

/* Include/internal/pycore_debug_offsets.h, Include/cpython/pystate.h and
 * Include/internal/pycore_ceval.h (3.14+) */
static void script(int minor)
{
	printf("\nconst struct gm_script_offsets gm_script_3%02d = {\n", minor);
#if PY_VERSION_HEX >= 0x030e0000
#define SCRIPT(name, group, member) \
	printf("\t.at_" #name " = %ld, /* " #group "." #member " */\n", AT(group, member))
	SCRIPT(interpreter_size, interpreter_state, size);
	SCRIPT(main_thread, interpreter_state, threads_main);
	SCRIPT(enabled, debugger_support, remote_debugging_enabled);
	SCRIPT(thread_size, thread_state, size);
	SCRIPT(breaker, debugger_support, eval_breaker);
	SCRIPT(support, debugger_support, remote_debugger_support);
	SCRIPT(pending, debugger_support, debugger_pending_call);
	SCRIPT(path, debugger_support, debugger_script_path);
	SCRIPT(path_size, debugger_support, debugger_script_path_size);
#define SUPPORT CPYTHON "pystate.h"
	FIELD(pending, _PyRemoteDebuggerSupport, debugger_pending_call, SUPPORT);
	FIELD(path, _PyRemoteDebuggerSupport, debugger_script_path, SUPPORT);
	ROW(path_size, _Py_MAX_SCRIPT_PATH_SIZE, "_Py_MAX_SCRIPT_PATH_SIZE, " SUPPORT);
	ROW(stop, _PY_EVAL_PLEASE_STOP_BIT, "_PY_EVAL_PLEASE_STOP_BIT, " INTERNAL "pycore_ceval.h");
	ROW(harmless, _PY_SIGNALS_PENDING_BIT | _PY_CALLS_TO_DO_BIT | _PY_ASYNC_EXCEPTION_BIT,
	        "_PY_SIGNALS_PENDING_BIT, _PY_CALLS_TO_DO_BIT, _PY_ASYNC_EXCEPTION_BIT");
#else
	ROW(at_support, 0, "no debugger_support before 3.14");
#endif
	printf("};\n");
}

int main(void)
{
	int minor = PY_MINOR_VERSION;
	printf("/*\n * Struct layouts of CPython 3.%d on x86-64 Linux (GIL build). Made by "
	       "core/cpython/versions/tables/make_tables "
	       "from the\n * headers of %s; offsets in bytes.\n */\n#include "
	       "\"cpython/versions/layout.h\"\n\n/* clang-format off */\n",
	        minor, PY_VERSION);
	printf("const struct gm_python_layout gm_python_layout_3%02d = {\n\t.version = 0x03%02x,\n",
	        minor, minor);
	runtime();
	thread();
	frame();
	loops();
	code();
	objects();
	values();
	containers();
	callables();
	printf("};\n");
	published(minor);
	script(minor);
	printf("/* clang-format on */\n");
	return 0;
}
