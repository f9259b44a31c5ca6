#include "torch/dtypes.h"

#include <stddef.h>
#include <string.h>

/* torch/headeronly/core/ScalarType.h, AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS: numbers only
 * grow from version to version; the names are those of Python's torch.* */
static const struct {
	const char *name;
	unsigned bits;
} dtypes[] = {
        {"uint8", 8},
        {"int8", 8},
        {"int16", 16},
        {"int32", 32},
        {"int64", 64},
        {"float16", 16},
        {"float32", 32},
        {"float64", 64},
        {"complex32", 32},
        {"complex64", 64},
        {"complex128", 128},
        {"bool", 8},
        {"qint8", 8},
        {"quint8", 8},
        {"qint32", 32},
        {"bfloat16", 16},
        {"quint4x2", 8},
        {"quint2x4", 8},
        {"bits1x8", 8},
        {"bits2x4", 8},
        {"bits4x2", 8},
        {"bits8", 8},
        {"bits16", 16},
        {"float8_e5m2", 8},
        {"float8_e4m3fn", 8},
        {"float8_e5m2fnuz", 8},
        {"float8_e4m3fnuz", 8},
        {"uint16", 16},
        {"uint32", 32},
        {"uint64", 64},
        {"uint1", 8},
        {"uint2", 8},
        {"uint3", 8},
        {"uint4", 8},
        {"uint5", 8},
        {"uint6", 8},
        {"uint7", 8},
        {"int1", 8},
        {"int2", 8},
        {"int3", 8},
        {"int4", 8},
        {"int5", 8},
        {"int6", 8},
        {"int7", 8},
        {"float8_e8m0fnu", 8},
        {"float4_e2m1fn_x2", 8},
        {"bcomplex32", 32},
};

const char *gm_torch_dtype_name(unsigned scalar_type)
{
	return scalar_type < sizeof(dtypes) / sizeof(dtypes[0]) ? dtypes[scalar_type].name : NULL;
}

unsigned gm_torch_dtype_bits(unsigned scalar_type)
{
	return scalar_type < sizeof(dtypes) / sizeof(dtypes[0]) ? dtypes[scalar_type].bits : 0;
}

/* torch/csrc/utils/tensor_dtypes.cpp */
static const char *const others[][2] = {{"short", "int16"}, {"int", "int32"}, {"long", "int64"},
        {"half", "float16"}, {"float", "float32"}, {"double", "float64"}, {"chalf", "complex32"},
        {"cfloat", "complex64"}, {"cdouble", "complex128"}};

const char *gm_torch_dtype_other_name(unsigned i)
{
	return i < sizeof(others) / sizeof(others[0]) ? others[i][0] : NULL;
}

const char *gm_torch_dtype_meant(const char *text)
{
	const char *name = strncmp(text, "torch.", 6) == 0 ? text + 6 : text;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strcmp(others[i][0], name) == 0)
			return others[i][1];
	return name;
}
