/*
 * Host implementations of kernels that decide control flow, chosen by the kernel's name.
 *
 * A kernel of PyTorch is a template: its mangled name, which the program registers, spells out the
 * operation, the element types and how elements are found, and its arguments carry the pointers. A
 * plan is made from the name once, at the first launch; a launch then reads its arguments through
 * it and computes on the host what a GPU would have computed, in the simulated device's own memory.
 * What has no plan, is larger than the limit or names memory that is not there computes nothing, as
 * before.
 *
 * Layouts are those of ATen (aten/src/ATen/native/cuda/ and ATen/cuda/detail/), the same from
 * torch 2.4 to 2.11 where nothing else is said; the captures of a lambda stand in the order in
 * which its body first uses them. Everything read from arguments is checked before it is used: a
 * plan that does not fit computes nothing.
 *
 * name.c takes names apart, element.c loads and stores elements, operand.c finds and checks memory,
 * functor.c and functions.c know the operations; one file a family of kernels does the rest.
 */
#ifndef GM_SIM_KERNELS_H
#define GM_SIM_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* --- name.c --- */

/* A part of a name; not NUL-terminated. */
struct gm_sim_text {
	const char *at;
	size_t size;
};

/* The readable name, without "void ", "at::native::" and "(anonymous namespace)::"; NULL where that
 * cannot be. */
char *gm_sim_name_readable(const char *mangled);
/* The template's own name ("vectorized_elementwise_kernel") and its arguments; the number of all of
 * them. */
unsigned gm_sim_name_template(struct gm_sim_text name, struct gm_sim_text *ret_base,
        struct gm_sim_text *ret_arguments, unsigned most);
/* The parameter types in the first parentheses behind the template's arguments. */
unsigned gm_sim_name_parameters(
        struct gm_sim_text name, struct gm_sim_text *ret_types, unsigned most);
bool gm_sim_text_is(struct gm_sim_text text, const char *word);
bool gm_sim_text_has(struct gm_sim_text text, const char *word);
bool gm_sim_text_begins(struct gm_sim_text text, const char *word);
/* That of prod(), which is compiled at run time: a plain name, which tells no types. */
bool gm_sim_name_is_product(const char *name);
/* The types in the last "{lambda(T, U)#2}"; *ret_number is the 2. */
unsigned gm_sim_name_lambda(struct gm_sim_text name, struct gm_sim_text *ret_types, unsigned most,
        unsigned *ret_number);

/* --- element.c --- */

enum gm_sim_type {
	GM_SIM_NONE,
	GM_SIM_F64,
	GM_SIM_F32,
	GM_SIM_F16,
	GM_SIM_BF16,
	GM_SIM_BOOL,
	GM_SIM_I8,
	GM_SIM_U8,
	GM_SIM_I16,
	GM_SIM_U16,
	GM_SIM_I32,
	GM_SIM_U32,
	GM_SIM_I64,
	GM_SIM_U64,
};

struct gm_sim_value {
	double real;
	int64_t integer;
	bool is_real;     /* which of the two holds */
	bool is_unsigned; /* the integer's bits are those of a uint64_t */
};

enum gm_sim_type gm_sim_type_of(struct gm_sim_text name); /* a type's C++ name */
enum gm_sim_type gm_sim_type_of_scalar(int scalar_type);  /* a c10::ScalarType */
unsigned gm_sim_type_size(enum gm_sim_type type);
bool gm_sim_type_is_real(enum gm_sim_type type);
/* What ATen computes in (at::opmath_type): float for the halves. */
enum gm_sim_type gm_sim_type_wide(enum gm_sim_type type);
struct gm_sim_value gm_sim_load(enum gm_sim_type type, const void *at);
void gm_sim_store(enum gm_sim_type type, void *at, struct gm_sim_value value);
/* The value as a computation of that type would hold it. */
struct gm_sim_value gm_sim_round(enum gm_sim_type type, struct gm_sim_value value);
/* A sum or product that is kept in double precision: as the type has it where it is too large or
 * too small for the type, else unchanged. */
double gm_sim_limited(enum gm_sim_type type, double real);
struct gm_sim_value gm_sim_real(double real);
struct gm_sim_value gm_sim_integer(int64_t integer);
double gm_sim_as_real(struct gm_sim_value value);
int64_t gm_sim_as_integer(struct gm_sim_value value);
/* Below, at or above 0, as a is below, equal to or above b; both are integers. */
int gm_sim_order_integers(struct gm_sim_value a, struct gm_sim_value b);
/* An argument that is a pointer: arguments need not be aligned. */
static inline char *gm_sim_load_pointer(const void *at)
{
	char *value;
	memcpy(&value, at, sizeof(value));
	return value;
}

/* --- operand.c --- */

enum { GM_SIM_DIMS = 25, GM_SIM_OPERANDS = 4 };

/* at::OffsetCalculator<N> (ATen/cuda/detail/OffsetCalculator.cuh): strides in bytes here. */
struct gm_sim_offsets {
	unsigned dims, operands;
	uint32_t sizes[GM_SIM_DIMS];
	int64_t strides[GM_SIM_DIMS][GM_SIM_OPERANDS];
};

size_t gm_sim_offsets_bytes(unsigned operands); /* sizeof(OffsetCalculator<operands>) */
/* Reads one; false where its figures cannot be. `numel`: the product that its sizes must have; 0:
 * any. */
bool gm_sim_offsets_read(
        const void *at, unsigned operands, uint64_t numel, struct gm_sim_offsets *ret);
/* Strides of `sizes[operand]` bytes, one dimension of `numel`. */
void gm_sim_offsets_trivial(
        uint64_t numel, unsigned operands, const unsigned *sizes, struct gm_sim_offsets *ret);
void gm_sim_offsets_get(const struct gm_sim_offsets *offsets, uint64_t index, int64_t *ret);

/* One launch's memory: how much was named, whether all of it is there and all that is read was ever
 * computed. */
struct gm_sim_use {
	uint64_t bytes;
	bool wrong, unknown; /* unknown: something read was never computed, or rests on such */
	/*
	 * Set before: may be 256 times as large, where all that it reads was written by something.
	 * What chooses among a vocabulary's words needs this; layers' activations, which nothing
	 * computes, do not come by it.
	 */
	bool wide;
	/* Set before: may be 64 times as large, on the same condition. Integers and truth values of
	 * a batch's tokens (positions, masks) decide how attention is computed. */
	bool integers;
	bool unwritten;
};

void gm_sim_use_read(struct gm_sim_use *use, const void *at, uint64_t size);
void gm_sim_use_write(struct gm_sim_use *use, const void *at, uint64_t size);
/* The same for an operand of an offset calculator, from its first to its last byte. */
void gm_sim_use_operand(struct gm_sim_use *use, const struct gm_sim_offsets *offsets,
        unsigned operand, const void *base, unsigned element, bool write);
/* The same of memory of which only some elements are read or written: it must be there, however
 * large. */
void gm_sim_use_extent(struct gm_sim_use *use, const struct gm_sim_offsets *offsets,
        unsigned operand, const void *base, unsigned element, bool write);
/* The same of an operand that is read and written. */
void gm_sim_use_in_place(struct gm_sim_use *use, const struct gm_sim_offsets *offsets,
        const void *base, unsigned element);
/* True where the launch may be computed: memory is there, and no more of it than the limit. */
bool gm_sim_use_good(const struct gm_sim_use *use);
/* Until it is NULL again this thread's launches compute nothing and change nothing, as none is
 * good: *ret becomes true where one is small enough, whatever its memory will contain then. */
void gm_sim_use_ask(bool *ret);
/*
 * A launch begins (again, where it has marked itself what it told so far); it ends, computed or
 * not. What a launch that was not computed would have
 * written is not what the program would have: it is marked so, as far as the launch told.
 */
void gm_sim_use_begin(void);
void gm_sim_use_end(bool computed);
/* Marks what was computed; unknown where something read was never computed itself. */
void gm_sim_use_wrote(const struct gm_sim_use *use, const void *at, uint64_t size);
void gm_sim_use_wrote_operand(const struct gm_sim_use *use, const struct gm_sim_offsets *offsets,
        unsigned operand, const void *base, unsigned element);

/* at::cuda::detail::TensorInfo<T, IndexType> (TensorInfo.cuh): data, sizes[25], strides[25],
 * dims. */
struct gm_sim_info {
	char *data;
	struct gm_sim_offsets offsets; /* the last dimension first */
	uint64_t numel;
	int64_t strides[GM_SIM_DIMS], sizes[GM_SIM_DIMS]; /* strides in elements */
};

/* wide: IndexType has eight bytes. */
bool gm_sim_info_read(const char *at, bool wide, unsigned element, struct gm_sim_info *ret);

/* --- functor.c, functions.c --- */

enum { GM_SIM_CAPTURES = 4 };

/* What is done to each element: PyTorch's functors and lambdas. */
struct gm_sim_functor {
	int function;
	unsigned number; /* which lambda of its function */
	unsigned arity;
	enum gm_sim_type in[GM_SIM_OPERANDS], out, compute;
	enum { GM_SIM_PLAIN, GM_SIM_SCALAR_FIRST, GM_SIM_SCALAR_SECOND } scalar;
	unsigned captures;
	struct {
		enum gm_sim_type type;
		unsigned offset;
	} capture[GM_SIM_CAPTURES], constant;
	unsigned size, align;
};

bool gm_sim_functor_parse(struct gm_sim_text name, struct gm_sim_functor *ret);

/* A functor with its captured values. */
struct gm_sim_bound {
	const struct gm_sim_functor *functor;
	struct gm_sim_value constant, capture[GM_SIM_CAPTURES];
};

void gm_sim_functor_bind(
        const struct gm_sim_functor *functor, const void *object, struct gm_sim_bound *ret);
struct gm_sim_value gm_sim_functor_apply(
        const struct gm_sim_bound *bound, const struct gm_sim_value *in);

/* --- families: each makes a plan, or none --- */

struct gm_sim_kernel_launch {
	unsigned grid[3], block[3];
	void **arguments;
};

struct gm_sim_plan;
typedef bool gm_sim_compute(
        const struct gm_sim_plan *plan, const struct gm_sim_kernel_launch *launch);

struct gm_sim_plan {
	gm_sim_compute *compute;
	struct gm_sim_functor functor;
	enum gm_sim_type type[GM_SIM_OPERANDS];
	unsigned form; /* what it means is the family's */
	int64_t number[4];
};

/* base: the template's name; true where the plan was made. */
typedef bool gm_sim_family(struct gm_sim_text name, struct gm_sim_text base,
        const struct gm_sim_text *arguments, unsigned count, struct gm_sim_plan *ret);
gm_sim_family gm_sim_elementwise_plan, gm_sim_reduce_plan, gm_sim_index_plan, gm_sim_random_plan,
        gm_sim_cub_plan, gm_sim_sort_plan, gm_sim_scaler_plan, gm_sim_layout_plan,
        gm_sim_various_plan;

/* The same for a kernel that is compiled at run time, under a plain name. */
bool gm_sim_product_plan(const char *name, struct gm_sim_plan *ret);

/* Bytes up to which a launch is computed: GPUMEM_SIM_COMPUTE_BELOW. */
uint64_t gm_sim_compute_limit(void);

#endif
