"""Several tensors on one memory, and memory that others share."""

import ctypes
import gc

import torch
import torch.utils.dlpack
from hold import DEVICE, SIDE, Skip, big, mark, need, other, running, stay, way


@way("{g}")
def view():
    return big()[5:]


@way("{g}")
def expanded():
    return big()[:1].expand(700, SIDE)


@way("{g}")
def transposed():
    return big().t()


@way("{g}")
def detached():
    return big().detach()


@way("{g}")
def data():
    return big().data


@way("items 0 to 2 of tuple: {g}")
def chunks():
    return big().chunk(3)


@way("{g}", "global 'second_view' of module views")
def two_views():
    tensor = big()
    globals()["second_view"] = tensor[10:]
    return tensor[:10]


@way("{g}")
def untyped_storage():
    return big().untyped_storage()


@way("attribute '_untyped_storage' of TypedStorage: {g}")
def typed_storage():
    return big().storage()


@way("{g}")
def set_storage():
    held = torch.empty(0, device=DEVICE)
    held.set_(big())
    return held


@way("{g}")
def other_type_of_view():
    return big().view(torch.int32)


@way("{g}", "leaf of the autograd graph, in the graph of: {g}")
def view_of_what_needs_a_gradient():
    held = big().requires_grad_()
    return held[0]


@way("{g}")
def dlpack():
    return torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(big()))


@way("tensor of dltensor capsule: {g}")
def dlpack_capsule():
    return torch.utils.dlpack.to_dlpack(big())


@way("base of ndarray: {g}")
def numpy_array():
    return big("cpu").numpy()


@way("base of ndarray: base of ndarray: {g}")
def numpy_view():
    return big("cpu").numpy()[3:].view("int32")


@way("{g}")
def from_numpy():
    return mark(torch.from_numpy(need("numpy").ones((SIDE, SIDE), "float32")))


@way("attribute 'tensor' of Exporter: item 1 of tuple: {g}", "item 0 of tuple: {g}")
def cuda_array_interface():
    class Exporter:
        def __init__(self, tensor):
            self.tensor = tensor
            self.__cuda_array_interface__ = tensor.__cuda_array_interface__

    if DEVICE != "cuda":
        raise Skip("no CUDA device")
    exporter = Exporter(big())
    return torch.as_tensor(exporter, device=DEVICE), exporter


@way("base of ndarray: exporter of managedbuffer: buffer of memoryview: {g}")
def memory_view():
    return memoryview(big("cpu").numpy())


@way("base of ndarray: exporter of managedbuffer: buffer of memoryview: key 'ffffffff' of dict: attribute '_objects' of c_char_Array_360000: {g}")  # fmt: skip
def ctypes_array():
    need("numpy")
    return (ctypes.c_char * (SIDE * SIDE * 4)).from_buffer(big("cpu").numpy())


@way("{g}")
def from_buffer():
    return mark(torch.frombuffer(bytearray(SIDE * SIDE * 4), dtype=torch.float32))


@way("{g}")
def shared_memory():
    return mark(big("cpu").share_memory_())


@way("{g}")
def pinned_memory():
    if DEVICE != "cuda":
        raise Skip("no CUDA device")
    return mark(torch.ones(SIDE, SIDE).pin_memory())


@way("values of a SparseTensorImpl: {g}")
def sparse_values():
    made = torch.sparse_coo_tensor([[0, 1], [1, 0]], other(2, SIDE), (2, 2, SIDE), device=DEVICE)
    mark(made._values())
    return made


@way("values of a SparseCsrTensorImpl: {g}")
def sparse_rows_values():
    made = torch.sparse_csr_tensor([0, 1, 2], [0, 1], other(2), (2, 2), device=DEVICE)
    mark(made.values())
    return made


@way("{g}")
def nested_tensor():
    made = torch.nested.nested_tensor([other(3, 4), other(5, 4)])
    mark(made.unbind()[0])
    return made


@way("attribute '_values' of NestedTensor: {g}", "base of a view: {g}", "base of a view: {g}")
def jagged_tensor():
    made = torch.nested.nested_tensor([other(3, 4), other(5, 4)], layout=torch.jagged)
    mark(made._values)
    gc.collect()
    return made


@way("{g}")
def quantized():
    made = torch.quantize_per_tensor(torch.ones(SIDE, SIDE), 0.1, 0, torch.quint8)
    return mark(made)


@way("quantizer of a QTensorImpl: {g}")
def quantized_scales():
    made = torch.quantize_per_channel(
        torch.ones(SIDE, 4), torch.ones(SIDE, dtype=torch.float64), torch.zeros(SIDE, dtype=torch.int64), 0, torch.quint8
    )  # fmt: skip
    mark(made.q_per_channel_scales())
    return made


@way("{g}")
def subclass():
    class Named(torch.Tensor):
        pass

    return big().as_subclass(Named)


@way("attribute 'inner' of Wrapper: {g}")
def wrapper_subclass():
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
            raise NotImplementedError

    return Wrapper(big())


@way("{g}")
def mode_subclass():
    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, arguments=(), keywords=None):
            return super().__torch_function__(function, types, arguments, keywords or {})

    return big().as_subclass(Logged)


@way("{g}")
def complex_view():
    return torch.view_as_complex(big().view(-1, 2))


@running("value of a BatchedTensorImpl: local 'row' of {f}", some=True)
def vmapped():
    def function(row):
        stay()
        return row

    torch.func.vmap(function)(big())


@way("tangent of a Tensor: {g}")
def forward_gradient():
    torch.autograd.forward_ad.enter_dual_level()
    # the first call imports modules, which fail on some Pythons and leave the frames of this call to the collector
    torch.autograd.forward_ad.make_dual(other(), other())
    return torch.autograd.forward_ad.make_dual(other(), big())


@way("{g}")
def a_resized_storage_is_no_holder():
    tensor, released = big(), big()
    released.untyped_storage().resize_(0)
    globals()["released"] = released
    return mark(tensor)


@way("item 500 of list: {g}", "item 501 of list: {g}")
def two_of_many_views():
    tensor = big()
    held = [None] * 1000
    held[500], held[501] = tensor[0], tensor[1]
    return held


@way("items 0 to 299 of list: {g}")
def many_views():
    return list(big())

