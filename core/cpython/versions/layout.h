/*
 * Offsets of CPython's structs, one table per version. The tables (layout_3xx.c) are made by
 * tables/make_tables from each version's own headers and name the source of each row; a member's
 * meaning is CPython's. What a version lacks is GM_NO_FIELD. A new row is added here and to
 * tables/layout.c.
 */
#ifndef GM_CPYTHON_LAYOUT_H
#define GM_CPYTHON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GM_NO_FIELD INT16_MIN

struct gm_python_layout {
	int version; /* PY_VERSION_HEX >> 16 */
	int32_t runtime_initialized;
	int32_t runtime_interpreters_head;
	int32_t interpreter_next;
	int32_t interpreter_threads;
	int32_t interpreter_modules;
	int32_t interpreter_builtins;
	int32_t interpreter_gc;
	int32_t interpreter_generations;
	int32_t gc_generation_size;
	int32_t gc_generation_count;
	int32_t interpreter_permanent;
	int32_t pool_size;
	int32_t gc_head_size;
	int32_t gc_head_next;
	int32_t gc_head_previous;
	int32_t thread_next;
	int32_t thread_interpreter;
	int32_t thread_ident;
	int32_t thread_exc_info;
	int32_t exc_item_value;
	int32_t exc_item_previous;
	int32_t thread_raised;
	int32_t thread_context;
	int32_t thread_dict;
	int32_t thread_native_id;
	int32_t thread_chunk;
	int32_t thread_chunk_top;
	int32_t thread_chunk_limit;
	int32_t chunk_previous;
	int32_t chunk_size;
	int32_t chunk_top;
	int32_t chunk_data;
	int32_t thread_frame;
	int32_t thread_cframe;
	int32_t cframe_frame;
	int32_t thread_size;
	int32_t frame_code;
	int32_t frame_instruction;
	int32_t frame_function;
	int32_t frame_is_entry;
	int32_t frame_lasti;
	int32_t frame_previous;
	int32_t frame_globals;
	int32_t frame_builtins;
	int32_t frame_locals;
	int32_t frame_object;
	int32_t frame_stacktop;
	int32_t frame_valuestack;
	int32_t frame_owner;
	int32_t frame_localsplus;
	int32_t stackref_tags; /* bits of a _PyStackRef that are no address; 0: slots are pointers
	                        */
	int32_t stackref_uncounted; /* of these: the object's count does not contain it */
	int32_t loop_slots;         /* values on the stack that a `for` loop has while it runs */
	int32_t frameobject_frame;
	int32_t frameobject_back;
	int32_t frameobject_trace;
	int32_t code_name;
	int32_t code_filename;
	int32_t code_first_line;
	int32_t code_names;
	int32_t code_consts;
	int32_t code_flags;
	int32_t code_stacksize;
	int32_t code_nlocals;
	int32_t code_qualname;
	int32_t code_lines;
	int32_t code_locals_names;
	int32_t code_locals_kinds;
	int32_t code_locals_count;
	int32_t code_adaptive;
	int32_t code_exceptions;
	int32_t code_first_traceable;
	int32_t code_bytes;
	int32_t code_varnames;
	int32_t code_cellvars;
	int32_t code_freevars;
	int32_t code_framesize;
	int32_t code_version;
	int32_t code_monitoring;
	int32_t monitoring_lines;
	int32_t monitoring_line_size; /* bytes of an entry, the opcode first; 0: lines[0] says it */
	int32_t monitoring_opcodes;
	int32_t code_size;
	int32_t object_refcount;
	int32_t refcount_size;
	int32_t object_type;
	int32_t object_size;
	int32_t object_head;
	int32_t type_name;
	int32_t type_basicsize;
	int32_t type_itemsize;
	int32_t type_flags;
	int32_t type_members;
	int32_t type_base;
	int32_t type_dict;
	int32_t type_dictoffset;
	int32_t type_weaklistoffset;
	int32_t type_bases;
	int32_t type_mro;
	int32_t type_cache;
	int32_t type_size;
	int32_t heaptype_cached_keys;
	int32_t heaptype_name;
	int32_t heaptype_qualname;
	int32_t heaptype_module;
	int32_t member_name;
	int32_t member_type;
	int32_t member_offset;
	int32_t member_size;
	int32_t str_length;
	int32_t str_state;
	int32_t str_ascii_size;
	int32_t str_compact_size;
	int32_t str_data;
	int32_t bytes_data;
	int32_t long_tag;
	int32_t long_digits;
	int32_t float_value;
	int32_t tuple_items;
	int32_t list_items;
	int32_t list_allocated;
	int32_t dict_used;
	int32_t dict_keys;
	int32_t dict_values;
	int32_t keys_size;
	int32_t keys_log2_size;
	int32_t keys_log2_index_bytes;
	int32_t keys_kind;
	int32_t values_items;
	int32_t keys_entries;
	int32_t keys_indices;
	int32_t values_embedded;
	int32_t values_valid;
	int32_t values_by_dict; /* inline values are visited by the instance's dict where it has one
	                         */
	int32_t values_capacity;
	int32_t managed_dict;
	int32_t managed_values;
	int32_t set_used;
	int32_t set_mask;
	int32_t set_table;
	int32_t set_entry_size;
	int32_t deque_left_block;
	int32_t deque_left_index;
	int32_t deque_block_items;
	int32_t deque_block_right;
	int32_t deque_block_length;
	int32_t cell_content;
	int32_t function_code;
	int32_t function_globals;
	int32_t function_name;
	int32_t function_qualname;
	int32_t function_module;
	int32_t function_defaults;
	int32_t function_kwdefaults;
	int32_t function_closure;
	int32_t function_dict;
	int32_t function_doc;
	int32_t function_annotations;
	int32_t function_annotate;
	int32_t function_builtins;
	int32_t function_typeparams;
	int32_t method_function;
	int32_t method_self;
	int32_t builtin_self;
	int32_t builtin_module;
	int32_t module_dict;
	int32_t module_state;
	int32_t property_get;
	int32_t property_name;
	int32_t mappingproxy_mapping;
	int32_t partial_function;
	int32_t wrapper_callable;
	int32_t wrapper_dict;
	int32_t iterator_sequence;
	int32_t generator_frame;
	int32_t generator_state;
	int32_t generator_finished; /* this state and above: nothing is left in its frame */
	int32_t generator_code;
	int32_t generator_name;
	int32_t generator_qualname;
	int32_t generator_exc_value;
	int32_t traceback_next;
	int32_t traceback_frame;
	int32_t exception_dict;
	int32_t exception_args;
	int32_t exception_traceback;
	int32_t exception_context;
	int32_t exception_cause;
	int32_t exception_notes;
};

/*
 * The object in a slot of a frame: a local, a value of the stack, the code or the function. 3.14+
 * has a _PyStackRef there (Include/internal/pycore_stackref.h): 1 alone is NULL, a low bit of 1 an
 * object that is borrowed or never dies, 3 a small int without an object. 0: none.
 */
static inline uint64_t gm_stackref_object(const struct gm_python_layout *layout, uint64_t word)
{
	const uint64_t tags = (uint64_t)layout->stackref_tags;

	return (word & tags & ~(uint64_t)layout->stackref_uncounted) ? 0 : word & ~tags;
}

/* The same, where the slot has a reference of its own, which is in the object's count. */
static inline uint64_t gm_stackref_counted(const struct gm_python_layout *layout, uint64_t word)
{
	return word & (uint64_t)layout->stackref_tags ? 0 : word;
}

/* A small int of the interpreter's own, without an object; never so where slots are pointers. */
static inline bool gm_stackref_is_int(const struct gm_python_layout *layout, uint64_t word)
{
	return layout->stackref_tags && (word & (uint64_t)layout->stackref_tags) == 3;
}

/* A reference count in an object's first word; 3.14 has other things in its upper half. */
static inline uint64_t gm_refcount_in(const struct gm_python_layout *layout, uint64_t word)
{
	return layout->refcount_size == 4 ? (uint32_t)word : word;
}

extern const struct gm_python_layout gm_python_layout_309, gm_python_layout_310,
        gm_python_layout_311, gm_python_layout_312, gm_python_layout_313, gm_python_layout_314,
        gm_python_layout_315;

/* A field of the layout whose offset CPython also publishes in its _Py_DebugOffsets (3.13+). */
struct gm_published_field {
	uint16_t field;   /* offset in struct gm_python_layout */
	uint16_t at;      /* in _Py_DebugOffsets: a word with the offset */
	uint16_t size_at; /* a word with the size of the struct that the field is in; 0 ends a table
	                   */
};

extern const struct gm_published_field gm_published_309[], gm_published_310[], gm_published_311[],
        gm_published_312[], gm_published_313[], gm_published_314[], gm_published_315[];

/*
 * Where the main thread of a CPython 3.14 or later takes a script (PEP 768; script.c). at_...:
 * where _Py_DebugOffsets has the word; the others are what the version's headers say. at_support is
 * 0: the version takes none.
 */
struct gm_script_offsets {
	uint16_t at_interpreter_size, at_main_thread, at_enabled; /* of the interpreter's state */
	uint16_t at_thread_size, at_breaker, at_support;          /* of the thread's state */
	uint16_t at_pending, at_path, at_path_size;               /* of _PyRemoteDebuggerSupport */
	int32_t pending, path, path_size;
	int32_t stop, harmless; /* bits of the eval breaker */
};

extern const struct gm_script_offsets gm_script_309, gm_script_310, gm_script_311, gm_script_312,
        gm_script_313, gm_script_314, gm_script_315;

#endif
