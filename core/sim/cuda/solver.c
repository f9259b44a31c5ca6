/*
 * cuSOLVER: the sizes of the workspaces that PyTorch asks for. Computation is left to stubs.c.
 *
 * The formulas were found from sizes that cuSOLVER 12 gave on an H100 (CUDA 13.0): 5,300 calls on
 * random matrices of up to 1,000 rows in four types. "Exact" is said of those that gave every size
 * to the byte; the others differ by a rounding (under 1 %), or by what a comment says. A size in
 * elements is the same for all types unless the comment says otherwise.
 */
#include "sim/cuda/sim.h"

#define API(name, ...)         \
	int name(__VA_ARGS__); \
	GM_SIM_EXPORT int name(__VA_ARGS__)

enum { SUCCESS, INVALID_VALUE = 3 };

/* More columns than any matrix has, and more elements than any memory: below them no formula
 * overflows. */
enum { MOST = 1 << 24 };
#define MOST_ELEMENTS (1ll << 50)

static int64_t up(int64_t value, int64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Blocks of 32 columns. */
static int64_t blocks(int64_t n)
{
	return (n + 31) / 32;
}

static int answer(int64_t elements, int *ret)
{
	if (!ret)
		return INVALID_VALUE;
	*ret = (int)smaller(elements, INT32_MAX);
	return SUCCESS;
}

static int answer_bytes(int64_t bytes, size_t *ret_device, size_t *ret_host)
{
	if (!ret_device || !ret_host)
		return INVALID_VALUE;
	*ret_device = (size_t)bytes;
	*ret_host = 0;
	return SUCCESS;
}

static bool valid(int64_t m, int64_t n)
{
	return m >= 0 && n >= 0 && m <= MOST && n <= MOST;
}

static bool valid_batch(int64_t m, int64_t n, int64_t batch)
{
	return valid(m, n) && batch >= 0 &&
	       batch <= MOST_ELEMENTS / (larger(m, n) * larger(m, n) + 4096);
}

/* Bytes of a cudaDataType (library_types.h): R_32F 0, R_64F 1, C_32F 4, C_64F 5. */
static int64_t element(int type)
{
	return type == 0 ? 4 : type == 5 ? 16 : 8;
}

/* Cholesky: a mark for each pair of blocks. In bytes, for all types. Exact. */
static int64_t potrf(int64_t n)
{
	return up(4 * blocks(n) * blocks(n), 32) + 128;
}

/* LU, of square matrices: in bytes, for all types. Exact. */
static int64_t getrf(int64_t m, int64_t n)
{
	int64_t columns = blocks(smaller(m, n)), power = 1;
	while (power < columns && power < 16)
		power *= 2;
	return 256 * (columns + 1 + power);
}

/* LDL: a panel of 64 columns. Exact. The least size differs by type. */
static int64_t sytrf(int64_t n, int64_t bytes)
{
	return larger(64 * (n + 1), bytes == 4 ? 24608 : bytes == 8 ? 13328 : 11016);
}

/* QR: panels of 1024 rows. Exact. */
static int64_t geqrf(int64_t n, int64_t bytes)
{
	return 1024 * (larger(n, 256) + 512) + 128 / bytes;
}

/* Q from the k columns of a QR, 128 at a time. Exact. */
static int64_t orgqr(int64_t m, int64_t n, int64_t k)
{
	int64_t panel = smaller(k, 128);
	return up(m * panel, 32) + larger(32768, up(2 * n * panel, 32) + 16384) + 256;
}

/* Q times n columns. */
static int64_t ormqr(int64_t m, int64_t n, int64_t k)
{
	return 256 * (m + 2 * n + 257) + up(m * k, 32) + up(k * k, 32);
}

/* Eigenvalues by divide and conquer, from two sizes upward by another algorithm. */
static int64_t syevd(int64_t n)
{
	return larger(3 * n * n + 768 * n + 65620, 4 * n * n + 127 * n + 32990);
}

/* Eigenvalues by Jacobi's method: marks for pairs of blocks. Exact. */
static int64_t syevj(int64_t n)
{
	return n * n + n + 4 * blocks(n) * blocks(n) + 1025 * blocks(n) + 1024;
}

/* Singular values by Jacobi's method; a matrix that is not square is made so by QR before. */
static int64_t gesvdj(int64_t m, int64_t n, int64_t bytes)
{
	int64_t least = smaller(m, n);
	if (larger(m, n) <= 32)
		return 992;
	if (m == n)
		return 2 * n * n + 4 * blocks(n) * blocks(n) + 2080 * blocks(n) + 1054;
	return geqrf(least, bytes) + (m < n ? up(m * n, 32) : 0) + up(least, 32);
}

/* Singular values by QR iterations (up to 5 % off if the matrix is not square). */
static int64_t gesvd(int64_t m, int64_t n, int64_t bytes)
{
	int64_t least = smaller(m, n);
	if (m == n)
		return 3 * n * n + 260 * n + 65850;
	return geqrf(least, bytes) + 33000 + 2 * m * n + 23 * least * least / 10;
}

/* Singular values by eigenvalues: in bytes for one matrix. Complex ones need twice as much, single
 * and double precision the same. */
static int64_t gesvda(int64_t m, int64_t n, int64_t batch, bool complex)
{
	int64_t least = smaller(m, n), most = larger(m, n), bytes, once = 0;
	if (least < 32) {
		bytes = 24 * least * least + 40 * least + 8130;
		once = 8288;
	} else if (least <= 512) {
		bytes = 40 * least * least + 6164 * least + 525000;
	} else {
		bytes = 48 * least * least + 1200000;
	}
	bytes += 8 * least * (most - least);
	return (once + bytes * batch) * (complex ? 2 : 1);
}

/* Eigenvalues of a matrix that is not symmetric: the matrix, or its reduction by QR. */
static int64_t geev(int64_t n)
{
	return larger(n * n + 4 * n + 96, orgqr(n, n, n) + 3 * n + 32);
}

/* Handles keep nothing: only the thread's last stream is known from these (capture.c). */
API(cusolverDnSetStream, void *handle, void *stream)
{
	gm_sim_stream_captures(stream);
	return SUCCESS;
}

API(cusparseSetStream, void *handle, void *stream)
{
	gm_sim_stream_captures(stream);
	return SUCCESS;
}

#define TYPE(L, bytes, complex, org, orm, sy)                                                     \
	API(cusolverDn##L##potrf_bufferSize, void *handle, int uplo, int n, void *a, int lda,     \
	        int *ret)                                                                         \
	{                                                                                         \
		return valid(n, n) ? answer(potrf(n) / (bytes), ret) : INVALID_VALUE;             \
	}                                                                                         \
	API(cusolverDn##L##getrf_bufferSize, void *handle, int m, int n, void *a, int lda,        \
	        int *ret)                                                                         \
	{                                                                                         \
		return valid(m, n) ? answer(getrf(m, n) / (bytes), ret) : INVALID_VALUE;          \
	}                                                                                         \
	API(cusolverDn##L##sytrf_bufferSize, void *handle, int n, void *a, int lda, int *ret)     \
	{                                                                                         \
		return valid(n, n) ? answer(sytrf(n, bytes), ret) : INVALID_VALUE;                \
	}                                                                                         \
	API(cusolverDn##L##geqrf_bufferSize, void *handle, int m, int n, void *a, int lda,        \
	        int *ret)                                                                         \
	{                                                                                         \
		return valid(m, n) ? answer(geqrf(n, bytes), ret) : INVALID_VALUE;                \
	}                                                                                         \
	API(cusolverDn##L##org##_bufferSize, void *handle, int m, int n, int k, const void *a,    \
	        int lda, const void *tau, int *ret)                                               \
	{                                                                                         \
		return valid(m, n) && valid(k, 0) ? answer(orgqr(m, n, k), ret) : INVALID_VALUE;  \
	}                                                                                         \
	API(cusolverDn##L##orm##_bufferSize, void *handle, int side, int transpose, int m, int n, \
	        int k, const void *a, int lda, const void *tau, const void *c, int ldc, int *ret) \
	{                                                                                         \
		return valid(m, n) && valid(k, 0) ? answer(ormqr(m, n, k), ret) : INVALID_VALUE;  \
	}                                                                                         \
	API(cusolverDn##L##sy##evd_bufferSize, void *handle, int jobz, int uplo, int n,           \
	        const void *a, int lda, const void *w, int *ret)                                  \
	{                                                                                         \
		return valid(n, n) ? answer(syevd(n), ret) : INVALID_VALUE;                       \
	}                                                                                         \
	API(cusolverDn##L##sy##evj_bufferSize, void *handle, int jobz, int uplo, int n,           \
	        const void *a, int lda, const void *w, int *ret, void *parameters)                \
	{                                                                                         \
		return valid(n, n) ? answer(syevj(n), ret) : INVALID_VALUE;                       \
	}                                                                                         \
	API(cusolverDn##L##gesvdj_bufferSize, void *handle, int jobz, int economy, int m, int n,  \
	        const void *a, int lda, const void *s, const void *u, int ldu, const void *v,     \
	        int ldv, int *ret, void *parameters)                                              \
	{                                                                                         \
		return valid(m, n) ? answer(gesvdj(m, n, bytes), ret) : INVALID_VALUE;            \
	}                                                                                         \
	API(cusolverDn##L##gesvdjBatched_bufferSize, void *handle, int jobz, int m, int n,        \
	        const void *a, int lda, const void *s, const void *u, int ldu, const void *v,     \
	        int ldv, int *ret, void *parameters, int batch)                                   \
	{                                                                                         \
		return valid(m, n) ? answer(gesvdj(m, n, bytes), ret) : INVALID_VALUE;            \
	}                                                                                         \
	API(cusolverDn##L##gesvd_bufferSize, void *handle, int m, int n, int *ret)                \
	{                                                                                         \
		return valid(m, n) ? answer(gesvd(m, n, bytes), ret) : INVALID_VALUE;             \
	}                                                                                         \
	API(cusolverDn##L##gesvdaStridedBatched_bufferSize, void *handle, int jobz, int rank,     \
	        int m, int n, const void *a, int lda, long long stride_a, const void *s,          \
	        long long stride_s, const void *u, int ldu, long long stride_u, const void *v,    \
	        int ldv, long long stride_v, int *ret, int batch)                                 \
	{                                                                                         \
		if (!valid_batch(m, n, batch))                                                    \
			return INVALID_VALUE;                                                     \
		return answer(gesvda(m, n, batch, complex) / (bytes), ret);                       \
	}

TYPE(S, 4, false, orgqr, ormqr, sy)
TYPE(D, 8, false, orgqr, ormqr, sy)
TYPE(C, 8, true, ungqr, unmqr, he)
TYPE(Z, 16, true, ungqr, unmqr, he)

/* The generic functions: sizes in bytes, on the device and on the host. */

API(cusolverDnXpotrf_bufferSize, void *handle, void *parameters, int uplo, int64_t n, int type,
        const void *a, int64_t lda, int compute, size_t *ret_device, size_t *ret_host)
{
	return valid(n, n) ? answer_bytes(potrf(n), ret_device, ret_host) : INVALID_VALUE;
}

API(cusolverDnXgeqrf_bufferSize, void *handle, void *parameters, int64_t m, int64_t n, int type,
        const void *a, int64_t lda, int tau_type, const void *tau, int compute, size_t *ret_device,
        size_t *ret_host)
{
	int64_t bytes = element(type);
	return valid(m, n) ? answer_bytes(geqrf(n, bytes) * bytes, ret_device, ret_host)
	                   : INVALID_VALUE;
}

API(cusolverDnXsyevd_bufferSize, void *handle, void *parameters, int jobz, int uplo, int64_t n,
        int type, const void *a, int64_t lda, int w_type, const void *w, int compute,
        size_t *ret_device, size_t *ret_host)
{
	return valid(n, n) ? answer_bytes(syevd(n) * element(type), ret_device, ret_host)
	                   : INVALID_VALUE;
}

API(cusolverDnXsyevBatched_bufferSize, void *handle, void *parameters, int jobz, int uplo,
        int64_t n, int type, const void *a, int64_t lda, int w_type, const void *w, int compute,
        size_t *ret_device, size_t *ret_host, int64_t batch)
{
	if (!valid_batch(n, n, batch))
		return INVALID_VALUE;
	return answer_bytes((syevd(n) - 80) * element(type) * batch, ret_device, ret_host);
}

API(cusolverDnXgeev_bufferSize, void *handle, void *parameters, int left, int right, int64_t n,
        int type, const void *a, int64_t lda, int w_type, const void *w, int left_type,
        const void *vl, int64_t ldvl, int right_type, const void *vr, int64_t ldvr, int compute,
        size_t *ret_device, size_t *ret_host)
{
	return valid(n, n) ? answer_bytes(geev(n) * element(type), ret_device, ret_host)
	                   : INVALID_VALUE;
}
