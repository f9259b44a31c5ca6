/*
 * Struct layouts of CPython 3.13 on x86-64 Linux (GIL build). Made by
 * core/cpython/versions/tables/make_tables from the headers of 3.13.0; offsets in bytes.
 */
#include "cpython/versions/layout.h"

/* clang-format off */
const struct gm_python_layout gm_python_layout_313 = {
	.version = 0x030d,
	.runtime_initialized = 600, /* _PyRuntimeState.initialized, Include/internal/pycore_runtime.h */
	.runtime_interpreters_head = 632, /* _PyRuntimeState.interpreters.head, Include/internal/pycore_runtime.h */
	.interpreter_next = 7264, /* PyInterpreterState.next, Include/internal/pycore_interp.h */
	.interpreter_threads = 7344, /* PyInterpreterState.threads.head, Include/internal/pycore_interp.h */
	.interpreter_modules = 7656, /* PyInterpreterState.imports.modules, Include/internal/pycore_import.h */
	.interpreter_builtins = 7648, /* PyInterpreterState.builtins, Include/internal/pycore_interp.h */
	.interpreter_gc = 7400, /* PyInterpreterState.gc, Include/internal/pycore_interp.h */
	.interpreter_generations = 7424, /* PyInterpreterState.gc.generations, Include/internal/pycore_gc.h */
	.gc_generation_size = 24, /* sizeof(struct gc_generation), Include/internal/pycore_gc.h */
	.gc_generation_count = 3, /* NUM_GENERATIONS, Include/internal/pycore_gc.h */
	.interpreter_permanent = 7504, /* PyInterpreterState.gc.permanent_generation, Include/internal/pycore_gc.h */
	.pool_size = 16384, /* POOL_SIZE, Include/internal/pycore_obmalloc.h */
	.gc_head_size = 16, /* sizeof(PyGC_Head), Include/internal/pycore_gc.h */
	.gc_head_next = 0, /* PyGC_Head._gc_next, Include/internal/pycore_gc.h */
	.gc_head_previous = 8, /* PyGC_Head._gc_prev, Include/internal/pycore_gc.h */
	.thread_next = 8, /* PyThreadState.next, Include/cpython/pystate.h */
	.thread_interpreter = 16, /* PyThreadState.interp, Include/cpython/pystate.h */
	.thread_ident = 152, /* PyThreadState.thread_id, Include/cpython/pystate.h */
	.thread_exc_info = 120, /* PyThreadState.exc_info, Include/cpython/pystate.h */
	.exc_item_value = 0, /* _PyErr_StackItem.exc_value, Include/cpython/pystate.h */
	.exc_item_previous = 8, /* _PyErr_StackItem.previous_item, Include/cpython/pystate.h */
	.thread_raised = 112, /* PyThreadState.current_exception, Include/cpython/pystate.h */
	.thread_context = 208, /* PyThreadState.context, Include/cpython/pystate.h */
	.thread_dict = 128, /* PyThreadState.dict, Include/cpython/pystate.h */
	.thread_native_id = 160, /* PyThreadState.native_thread_id, Include/cpython/pystate.h */
	.thread_chunk = 232, /* PyThreadState.datastack_chunk, Include/cpython/pystate.h */
	.thread_chunk_top = 240, /* PyThreadState.datastack_top, Include/cpython/pystate.h */
	.thread_chunk_limit = 248, /* PyThreadState.datastack_limit, Include/cpython/pystate.h */
	.chunk_previous = 0, /* _PyStackChunk.previous, Include/cpython/pystate.h */
	.chunk_size = 8, /* _PyStackChunk.size, Include/cpython/pystate.h */
	.chunk_top = 16, /* _PyStackChunk.top, Include/cpython/pystate.h */
	.chunk_data = 24, /* _PyStackChunk.data, Include/cpython/pystate.h */
	.thread_frame = 72, /* PyThreadState.current_frame, Include/cpython/pystate.h */
	.thread_cframe = GM_NO_FIELD,
	.cframe_frame = GM_NO_FIELD,
	.thread_size = 304, /* sizeof(PyThreadState), Include/cpython/pystate.h */
	.frame_code = 0, /* _PyInterpreterFrame.f_executable, Include/internal/pycore_frame.h */
	.frame_instruction = 56, /* _PyInterpreterFrame.instr_ptr, Include/internal/pycore_frame.h */
	.frame_function = 16, /* _PyInterpreterFrame.f_funcobj, Include/internal/pycore_frame.h */
	.frame_is_entry = GM_NO_FIELD,
	.frame_lasti = GM_NO_FIELD,
	.frame_previous = 8, /* _PyInterpreterFrame.previous, Include/internal/pycore_frame.h */
	.frame_globals = 24, /* _PyInterpreterFrame.f_globals, Include/internal/pycore_frame.h */
	.frame_builtins = 32, /* _PyInterpreterFrame.f_builtins, Include/internal/pycore_frame.h */
	.frame_locals = 40, /* _PyInterpreterFrame.f_locals, Include/internal/pycore_frame.h */
	.frame_object = 48, /* _PyInterpreterFrame.frame_obj, Include/internal/pycore_frame.h */
	.frame_stacktop = 64, /* _PyInterpreterFrame.stacktop, Include/internal/pycore_frame.h */
	.frame_valuestack = GM_NO_FIELD,
	.frame_owner = 70, /* _PyInterpreterFrame.owner, Include/internal/pycore_frame.h */
	.frame_localsplus = 72, /* _PyInterpreterFrame.localsplus, Include/internal/pycore_frame.h */
	.stackref_tags = 0, /* slots are PyObject *, Include/internal/pycore_frame.h */
	.stackref_uncounted = 0, /* slots are PyObject *, Include/internal/pycore_frame.h */
	.frameobject_frame = 24, /* PyFrameObject.f_frame, Include/internal/pycore_frame.h */
	.frameobject_back = 16, /* PyFrameObject.f_back, Include/internal/pycore_frame.h */
	.frameobject_trace = 32, /* PyFrameObject.f_trace, Include/internal/pycore_frame.h */
	.loop_slots = 1, /* FOR_ITER, Python/bytecodes.c */
	.code_name = 120, /* PyCodeObject.co_name, Include/cpython/code.h */
	.code_filename = 112, /* PyCodeObject.co_filename, Include/cpython/code.h */
	.code_first_line = 68, /* PyCodeObject.co_firstlineno, Include/cpython/code.h */
	.code_names = 32, /* PyCodeObject.co_names, Include/cpython/code.h */
	.code_consts = 24, /* PyCodeObject.co_consts, Include/cpython/code.h */
	.code_flags = 48, /* PyCodeObject.co_flags, Include/cpython/code.h */
	.code_stacksize = 64, /* PyCodeObject.co_stacksize, Include/cpython/code.h */
	.code_nlocals = 80, /* PyCodeObject.co_nlocals, Include/cpython/code.h */
	.code_qualname = 128, /* PyCodeObject.co_qualname, Include/cpython/code.h */
	.code_lines = 136, /* PyCodeObject.co_linetable, Include/cpython/code.h */
	.code_locals_names = 96, /* PyCodeObject.co_localsplusnames, Include/cpython/code.h */
	.code_locals_kinds = 104, /* PyCodeObject.co_localspluskinds, Include/cpython/code.h */
	.code_locals_count = 72, /* PyCodeObject.co_nlocalsplus, Include/cpython/code.h */
	.code_adaptive = 200, /* PyCodeObject.co_code_adaptive, Include/cpython/code.h */
	.code_exceptions = 40, /* PyCodeObject.co_exceptiontable, Include/cpython/code.h */
	.code_first_traceable = 184, /* PyCodeObject._co_firsttraceable, Include/cpython/code.h */
	.code_bytes = GM_NO_FIELD,
	.code_varnames = GM_NO_FIELD,
	.code_cellvars = GM_NO_FIELD,
	.code_freevars = GM_NO_FIELD,
	.code_framesize = 76, /* PyCodeObject.co_framesize, Include/cpython/code.h */
	.code_version = 92, /* PyCodeObject.co_version, Include/cpython/code.h */
	.code_monitoring = 176, /* PyCodeObject._co_monitoring, Include/cpython/code.h */
	.monitoring_lines = 32, /* _PyCoMonitoringData.lines, Include/cpython/code.h */
	.monitoring_line_size = 2, /* sizeof(_PyCoLineInstrumentationData), Include/cpython/code.h */
	.monitoring_opcodes = 48, /* _PyCoMonitoringData.per_instruction_opcodes, Include/cpython/code.h */
	.code_size = 200, /* PyCodeObject up to co_code_adaptive */
	.object_refcount = 0, /* PyObject.ob_refcnt, Include/object.h */
	.refcount_size = 8, /* sizeof(PyObject.ob_refcnt), Include/object.h */
	.object_type = 8, /* PyObject.ob_type, Include/object.h */
	.object_size = 16, /* PyVarObject.ob_size, Include/object.h */
	.object_head = 16, /* sizeof(PyObject), Include/object.h */
	.type_name = 24, /* PyTypeObject.tp_name, Include/cpython/object.h */
	.type_basicsize = 32, /* PyTypeObject.tp_basicsize, Include/cpython/object.h */
	.type_itemsize = 40, /* PyTypeObject.tp_itemsize, Include/cpython/object.h */
	.type_flags = 168, /* PyTypeObject.tp_flags, Include/cpython/object.h */
	.type_members = 240, /* PyTypeObject.tp_members, Include/cpython/object.h */
	.type_base = 256, /* PyTypeObject.tp_base, Include/cpython/object.h */
	.type_dict = 264, /* PyTypeObject.tp_dict, Include/cpython/object.h */
	.type_dictoffset = 288, /* PyTypeObject.tp_dictoffset, Include/cpython/object.h */
	.type_weaklistoffset = 208, /* PyTypeObject.tp_weaklistoffset, Include/cpython/object.h */
	.type_bases = 336, /* PyTypeObject.tp_bases, Include/cpython/object.h */
	.type_mro = 344, /* PyTypeObject.tp_mro, Include/cpython/object.h */
	.type_cache = 352, /* PyTypeObject.tp_cache, Include/cpython/object.h */
	.type_size = 416, /* sizeof(PyTypeObject), Include/cpython/object.h */
	.heaptype_cached_keys = 880, /* PyHeapTypeObject.ht_cached_keys, Include/cpython/object.h */
	.heaptype_name = 856, /* PyHeapTypeObject.ht_name, Include/cpython/object.h */
	.heaptype_qualname = 872, /* PyHeapTypeObject.ht_qualname, Include/cpython/object.h */
	.heaptype_module = 888, /* PyHeapTypeObject.ht_module, Include/cpython/object.h */
	.member_name = 0, /* PyMemberDef.name, Include/structmember.h (3.12+: descrobject.h) */
	.member_type = 8, /* PyMemberDef.type, Include/structmember.h (3.12+: descrobject.h) */
	.member_offset = 16, /* PyMemberDef.offset, Include/structmember.h (3.12+: descrobject.h) */
	.member_size = 40, /* sizeof(PyMemberDef) */
	.str_length = 16, /* PyASCIIObject.length, Include/cpython/unicodeobject.h */
	.str_state = 32, /* PyASCIIObject.state, Include/cpython/unicodeobject.h */
	.str_ascii_size = 40, /* sizeof(PyASCIIObject), Include/cpython/unicodeobject.h */
	.str_compact_size = 56, /* sizeof(PyCompactUnicodeObject), Include/cpython/unicodeobject.h */
	.str_data = 56, /* PyUnicodeObject.data, Include/cpython/unicodeobject.h */
	.bytes_data = 32, /* PyBytesObject.ob_sval, Include/cpython/bytesobject.h */
	.long_tag = 16, /* PyLongObject.long_value.lv_tag, Include/cpython/longintrepr.h */
	.long_digits = 24, /* PyLongObject.long_value.ob_digit, Include/cpython/longintrepr.h */
	.float_value = 16, /* PyFloatObject.ob_fval, Include/cpython/floatobject.h */
	.tuple_items = 24, /* PyTupleObject.ob_item, Include/cpython/tupleobject.h */
	.list_items = 24, /* PyListObject.ob_item, Include/cpython/listobject.h */
	.list_allocated = 32, /* PyListObject.allocated, Include/cpython/listobject.h */
	.dict_used = 16, /* PyDictObject.ma_used, Include/cpython/dictobject.h */
	.dict_keys = 32, /* PyDictObject.ma_keys, Include/cpython/dictobject.h */
	.dict_values = 40, /* PyDictObject.ma_values, Include/cpython/dictobject.h */
	.keys_size = GM_NO_FIELD,
	.keys_log2_size = 8, /* struct _dictkeysobject.dk_log2_size, Include/internal/pycore_dict.h */
	.keys_log2_index_bytes = 9, /* struct _dictkeysobject.dk_log2_index_bytes, Include/internal/pycore_dict.h */
	.keys_kind = 10, /* struct _dictkeysobject.dk_kind, Include/internal/pycore_dict.h */
	.values_items = 8, /* struct _dictvalues.values, Include/internal/pycore_dict.h */
	.keys_entries = 24, /* struct _dictkeysobject.dk_nentries, Include/internal/pycore_dict.h */
	.keys_indices = 32, /* struct _dictkeysobject.dk_indices, Include/internal/pycore_dict.h */
	.values_embedded = 2, /* struct _dictvalues.embedded, Include/internal/pycore_dict.h */
	.values_valid = 3, /* struct _dictvalues.valid, Include/internal/pycore_dict.h */
	.values_capacity = 0, /* struct _dictvalues.capacity, Include/internal/pycore_dict.h */
	.values_by_dict = 0, /* dict_traverse(), Objects/dictobject.c; seen with gc.get_referents() */
	.managed_dict = -24, /* MANAGED_DICT_OFFSET, Include/internal/pycore_object.h */
	.managed_values = GM_NO_FIELD,
	.set_used = 24, /* PySetObject.used, Include/setobject.h */
	.set_mask = 32, /* PySetObject.mask, Include/setobject.h */
	.set_table = 40, /* PySetObject.table, Include/setobject.h */
	.set_entry_size = 16, /* sizeof(setentry), Include/setobject.h */
	.deque_left_block = 24, /* struct deque.leftblock, Modules/_collectionsmodule.c */
	.deque_left_index = 40, /* struct deque.leftindex, Modules/_collectionsmodule.c */
	.deque_block_items = 8, /* struct deque_block.data, Modules/_collectionsmodule.c */
	.deque_block_right = 520, /* struct deque_block.rightlink, Modules/_collectionsmodule.c */
	.deque_block_length = 64, /* BLOCKLEN, Modules/_collectionsmodule.c */
	.cell_content = 16, /* PyCellObject.ob_ref, Include/cpython/cellobject.h */
	.function_code = 48, /* PyFunctionObject.func_code, Include/cpython/funcobject.h */
	.function_globals = 16, /* PyFunctionObject.func_globals, Include/cpython/funcobject.h */
	.function_name = 32, /* PyFunctionObject.func_name, Include/cpython/funcobject.h */
	.function_qualname = 40, /* PyFunctionObject.func_qualname, Include/cpython/funcobject.h */
	.function_module = 104, /* PyFunctionObject.func_module, Include/cpython/funcobject.h */
	.function_defaults = 56, /* PyFunctionObject.func_defaults, Include/cpython/funcobject.h */
	.function_kwdefaults = 64, /* PyFunctionObject.func_kwdefaults, Include/cpython/funcobject.h */
	.function_closure = 72, /* PyFunctionObject.func_closure, Include/cpython/funcobject.h */
	.function_dict = 88, /* PyFunctionObject.func_dict, Include/cpython/funcobject.h */
	.function_doc = 80, /* PyFunctionObject.func_doc, Include/cpython/funcobject.h */
	.function_annotations = 112, /* PyFunctionObject.func_annotations, Include/cpython/funcobject.h */
	.function_annotate = GM_NO_FIELD,
	.function_builtins = 24, /* PyFunctionObject.func_builtins, Include/cpython/funcobject.h */
	.function_typeparams = 120, /* PyFunctionObject.func_typeparams, Include/cpython/funcobject.h */
	.method_function = 16, /* PyMethodObject.im_func, Include/cpython/classobject.h */
	.method_self = 24, /* PyMethodObject.im_self, Include/cpython/classobject.h */
	.builtin_self = 24, /* PyCFunctionObject.m_self, Include/cpython/methodobject.h */
	.builtin_module = 32, /* PyCFunctionObject.m_module, Include/cpython/methodobject.h */
	.module_dict = 16, /* PyModuleObject.md_dict, Include/internal/pycore_moduleobject.h (3.9: Objects/moduleobject.c) */
	.module_state = 32, /* PyModuleObject.md_state, Include/internal/pycore_moduleobject.h (3.9: Objects/moduleobject.c) */
	.property_get = 16, /* struct property.prop_get, Objects/descrobject.c */
	.property_name = 48, /* struct property.prop_name, Objects/descrobject.c */
	.mappingproxy_mapping = 16, /* struct mappingproxy.mapping, Objects/descrobject.c */
	.partial_function = 16, /* struct partial.fn, Modules/_functoolsmodule.c */
	.wrapper_callable = 16, /* struct callable_wrapper.callable, Objects/funcobject.c */
	.wrapper_dict = 24, /* struct callable_wrapper.dict, Objects/funcobject.c */
	.iterator_sequence = 24, /* struct sequence_iterator.sequence, Objects/listobject.c */
	.generator_frame = 72, /* PyGenObject.gi_iframe, Include/cpython/genobject.h */
	.generator_state = 67, /* PyGenObject.gi_frame_state, Include/cpython/genobject.h */
	.generator_finished = 1, /* FRAME_COMPLETED, Include/internal/pycore_frame.h */
	.generator_code = GM_NO_FIELD,
	.generator_name = 24, /* PyGenObject.gi_name, Include/cpython/genobject.h */
	.generator_qualname = 32, /* PyGenObject.gi_qualname, Include/cpython/genobject.h */
	.generator_exc_value = 40, /* PyGenObject.gi_exc_state.exc_value, Include/cpython/genobject.h */
	.traceback_next = 16, /* PyTracebackObject.tb_next, Include/cpython/traceback.h */
	.traceback_frame = 24, /* PyTracebackObject.tb_frame, Include/cpython/traceback.h */
	.exception_dict = 16, /* PyBaseExceptionObject.dict, Include/cpython/pyerrors.h */
	.exception_args = 24, /* PyBaseExceptionObject.args, Include/cpython/pyerrors.h */
	.exception_traceback = 40, /* PyBaseExceptionObject.traceback, Include/cpython/pyerrors.h */
	.exception_context = 48, /* PyBaseExceptionObject.context, Include/cpython/pyerrors.h */
	.exception_cause = 56, /* PyBaseExceptionObject.cause, Include/cpython/pyerrors.h */
	.exception_notes = 32, /* PyBaseExceptionObject.notes, Include/cpython/pyerrors.h */
};

const struct gm_published_field gm_published_313[] = {
	{offsetof(struct gm_python_layout, runtime_interpreters_head), 40, 24}, /* runtime_state.interpreters_head */
	{offsetof(struct gm_python_layout, interpreter_next), 64, 48}, /* interpreter_state.next */
	{offsetof(struct gm_python_layout, interpreter_threads), 72, 48}, /* interpreter_state.threads_head */
	{offsetof(struct gm_python_layout, interpreter_gc), 80, 48}, /* interpreter_state.gc */
	{offsetof(struct gm_python_layout, interpreter_modules), 88, 48}, /* interpreter_state.imports_modules */
	{offsetof(struct gm_python_layout, interpreter_builtins), 104, 48}, /* interpreter_state.builtins */
	{offsetof(struct gm_python_layout, thread_next), 168, 152}, /* thread_state.next */
	{offsetof(struct gm_python_layout, thread_interpreter), 176, 152}, /* thread_state.interp */
	{offsetof(struct gm_python_layout, thread_frame), 184, 152}, /* thread_state.current_frame */
	{offsetof(struct gm_python_layout, thread_ident), 192, 152}, /* thread_state.thread_id */
	{offsetof(struct gm_python_layout, thread_native_id), 200, 152}, /* thread_state.native_thread_id */
	{offsetof(struct gm_python_layout, thread_chunk), 208, 152}, /* thread_state.datastack_chunk */
	{offsetof(struct gm_python_layout, frame_previous), 232, 224}, /* interpreter_frame.previous */
	{offsetof(struct gm_python_layout, frame_code), 240, 224}, /* interpreter_frame.executable */
	{offsetof(struct gm_python_layout, frame_instruction), 248, 224}, /* interpreter_frame.instr_ptr */
	{offsetof(struct gm_python_layout, frame_localsplus), 256, 224}, /* interpreter_frame.localsplus */
	{offsetof(struct gm_python_layout, frame_owner), 264, 224}, /* interpreter_frame.owner */
	{0, 0, 0},
};

const struct gm_script_offsets gm_script_313 = {
	.at_support = 0, /* no debugger_support before 3.14 */
};
/* clang-format on */
