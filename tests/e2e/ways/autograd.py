"""The autograd graph: what it saves, what hooks keep, gradients."""

import ctypes
import gc

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from hold import DEVICE, SIDE, Skip, big, mark, other, way


def weights(*shape):
    return other(*shape, requires_grad=True)


@way("saved 'self' of MulBackward0, in the graph of: {g}")
def saved_by_mul():
    return big() * weights()


@way("saved 'other' of MulBackward0, in the graph of: {g}")
def saved_by_mul_as_other():
    return weights() * big()


@way("saved 'other' of DivBackward0, in the graph of: {g}")
def saved_by_div():
    return weights() / big()


@way("saved 'self' of MmBackward0, in the graph of: {g}")
def saved_by_mm():
    return big() @ weights()


@way("saved 'mat1' of AddmmBackward0, in the graph of: {g}")
def saved_by_linear():
    return F.linear(big(), weights(), weights(SIDE))


@way("saved 'mat2' of BmmBackward0, in the graph of: {g}")
def saved_by_bmm():
    return torch.bmm(weights(2, 4, SIDE), mark(torch.ones(2, SIDE, SIDE, device=DEVICE)))


@way("saved 'result' of ExpBackward0, in the graph of: {g}")
def saved_by_exp():
    result = torch.exp(weights())
    mark(result)
    return result.sum()


@way("saved 'result' of ReluBackward0, in the graph of: {g}")
def saved_by_relu():
    return mark(torch.relu(weights())).sum()


@way("saved 'self' of GeluBackward0, in the graph of: {g}")
def saved_by_gelu():
    return F.gelu(mark(weights() + 1)).sum()


@way("saved 'result' of SigmoidBackward0, in the graph of: {g}")
def saved_by_sigmoid():
    return mark(torch.sigmoid(weights())).sum()


@way("saved 'result' of SoftmaxBackward0, in the graph of: {g}")
def saved_by_softmax():
    return mark(torch.softmax(weights(), -1)).sum()


@way("saved 'input' of ConvolutionBackward0, in the graph of: {g}")
def saved_by_conv():
    return F.conv1d(big("cpu").view(1, SIDE, SIDE), torch.randn(2, SIDE, 3, requires_grad=True)).sum()


@way("saved 'input' of NativeLayerNormBackward0, in the graph of: {g}")
def saved_by_layer_norm():
    return F.layer_norm(big(), (SIDE,), weights(SIDE), weights(SIDE)).sum()


@way("saved 'indices' of EmbeddingBackward0, in the graph of: {g}")
def saved_by_embedding():
    return F.embedding(mark(torch.zeros(SIDE, SIDE, dtype=torch.int64, device=DEVICE)), weights()).sum()


@way("saved 'target' of NllLossBackward0, in the graph of: {g}")
def saved_by_cross_entropy():
    return F.cross_entropy(weights(5000, 9), mark(torch.zeros(5000, dtype=torch.int64, device=DEVICE)))


@way("saved 'index' of GatherBackward0, in the graph of: {g}")
def saved_by_gather():
    return weights().gather(0, mark(torch.zeros(SIDE, SIDE, dtype=torch.int64, device=DEVICE))).sum()


@way("saved 'condition' of WhereBackward0, in the graph of: {g}")
def saved_by_where():
    return torch.where(mark(torch.ones(SIDE, SIDE, dtype=torch.bool, device=DEVICE)), weights(), other()).sum()


@way("saved 'exponent' of PowBackward1, in the graph of: {g}")
def saved_by_pow():
    return torch.pow(weights(), big()).sum()


@way("saved 'indices' of MaxBackward0, in the graph of: {g}")
def saved_by_max():
    values, indices = weights(SIDE, 200, 4).max(-1)
    mark(indices)
    return values.sum()


@way("saved 'mask' of MaskedFillBackward0, in the graph of: {g}")
def saved_by_masked_fill():
    return weights().masked_fill(mark(torch.ones(SIDE, SIDE, dtype=torch.bool, device=DEVICE)), 0.0).sum()


@way("saved 'running_mean' of NativeBatchNormBackward0, in the graph of: {g}")
def saved_by_batch_norm():
    held = torch.zeros(5000)
    mark(held)
    return torch.native_batch_norm(torch.randn(2, 5000, requires_grad=True), None, None, held, torch.ones(5000), True, 0.1, 1e-5)[0]  # fmt: skip


@way("saved 'self' of PowBackward0, in the graph of: {g}")
def deep_in_the_graph():
    value = mark(weights() + 1) ** 2
    for _ in range(400):
        value = value + 1
    return value.sum()


@way("saved 'self' of PowBackward0, in the graph of: {g}")
def total_of_losses():
    total = 0
    for step in range(5):
        output = weights() + 1
        if step == 2:
            mark(output)
        total = total + (output**2).mean()
    return total


@way("saved 'self' of PowBackward0, in the graph of: item 2 of list: {g}")
def list_of_losses():
    losses = []
    for step in range(5):
        output = weights() + 1
        if step == 2:
            mark(output)
        losses.append((output**2).mean())
    return losses


@way("leaf of the autograd graph, in the graph of: {g}")
def leaf():
    return big().requires_grad_() + 1


def words_of(python, field=2):
    """The C++ object behind a Python object, as words: `cdata` follows the head (and until 2.8 a flag word)."""
    fields = ctypes.cast(id(python), ctypes.POINTER(ctypes.c_uint64))
    address = fields[field] if fields[field] > 1 else fields[field + 1]
    return address, ctypes.cast(address, ctypes.POINTER(ctypes.c_uint64))


@way("item 0 of tuple: {g}")
def beside_a_saved_scalar():
    """The unused half of a saved at::Scalar says what was there before: here, where the tensor is."""
    tensor, base = big(), weights()
    node = (base**2).grad_fn
    address, _ = words_of(base)
    _, words = words_of(node)
    place = next(i for i in range(50, 75) if words[i] == address)
    words[place - 1] = words_of(tensor)[0]
    return tensor, node


@way("saved 'mat2' of MmBackward0, in the graph of: {g}")
def node_alone():
    return (weights() @ big()).grad_fn


@way("saved 'self' of MulBackward0, in the graph of: {g}")
def after_backward_with_retain_graph():
    held = (big() * weights()).sum()
    held.backward(retain_graph=True)
    return held


@way("{g}")
def a_graph_that_ran_backward_is_no_holder():
    tensor = big()
    globals()["ran"] = (tensor * weights()).sum()
    globals()["ran"].backward()
    return tensor


@way("saved 'self' of PowBackward0, in the graph of: item 0 of tuple: {g}")
def second_derivative():
    leaf = weights()
    middle = mark(leaf * 2)
    return torch.autograd.grad((middle**3).sum(), leaf, create_graph=True)


@way(".grad of a Tensor: {g}")
def gradient():
    held = weights()
    held.grad = big()
    return held


@way(".grad of a Tensor: {g}")
def gradient_of_an_intermediate():
    leaf = weights()
    held = leaf * 2
    held.retain_grad()
    held.sum().backward()
    mark(held.grad)
    return held


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, what):
        doubled = value * 2
        if what == "saved":
            mark(doubled)
        ctx.save_for_backward(doubled)
        ctx.extra = big() if what == "extra" else None
        return doubled + 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


@way("saved by ScaleBackward, in the graph of: {g}")
def saved_by_a_function_of_yours():
    return Scale.apply(weights(), "saved")


@way("attribute 'extra' of ScaleBackward, in the graph of: {g}")
def attribute_of_a_context():
    return Scale.apply(weights(), "extra")


@way("closure variable 'scale' of <lambda>(): key of OrderedDict: hook of a tensor: {g}")
def tensor_hook():
    def make(scale):
        return lambda gradient: gradient * scale

    held = weights()
    held.register_hook(make(big()))
    return held


@way("closure variable 'scale' of hook(): key of OrderedDict: hook of a tensor: {g}")
def after_accumulation_hook():
    def make(scale):
        def hook(tensor):
            return scale

        return hook

    held = weights()
    held.register_post_accumulate_grad_hook(make(big()))
    return held


@way("attribute 'scale' of function: key of OrderedDict: hook of MulBackward0, in the graph of: {g}")
def node_hook():
    def hook(inputs, outputs):
        return None

    hook.scale = big()
    held = weights() * 2
    held.grad_fn.register_hook(hook)
    return held


@way("key 'note' of dict: metadata of MulBackward0, in the graph of: {g}")
def node_metadata():
    held = weights() * 2
    held.grad_fn.metadata["note"] = big()
    return held


@way("attribute 'kept' of Packed: saved by MulBackward0, in the graph of: {g}")
def saved_tensor_hooks():
    class Packed:
        def __init__(self, tensor):
            self.kept = tensor.clone() if tensor.requires_grad else mark(tensor.clone())

    factor = other()
    with torch.autograd.graph.saved_tensors_hooks(Packed, lambda packed: packed.kept):
        return weights() * factor


@way("saved by CheckpointFunctionBackward, in the graph of: {g}")
def checkpoint_reentrant():
    return torch.utils.checkpoint.checkpoint(lambda value: value * 2, mark(weights() + 1), use_reentrant=True)


def checkpoint_input():
    gc.freeze()  # garbage that other ways are about stays
    held = torch.utils.checkpoint.checkpoint(lambda value: value**2, mark(weights() + 1), use_reentrant=False)
    gc.collect()  # the checkpoint leaves a cycle behind, which holds its input too
    gc.unfreeze()
    return held


@way("saved by SavedTensor: item 0 of list: attribute 'saved_args' of _CheckpointFrame: closure variable 'frame' of pack_hook(): saved by PowBackward0, in the graph of: {g}")  # fmt: skip
def checkpoint_input_in_a_saved_tensor():
    if not hasattr(torch.utils.checkpoint, "SavedTensor"):
        raise Skip("a checkpoint keeps its inputs in the graph of an operation that does nothing")
    return checkpoint_input()


@way("saved by _NoopSaveInputsBackward, in the graph of: attribute 'input_saver' of _CheckpointFrame: closure variable 'frame' of pack_hook(): saved by PowBackward0, in the graph of: {g}")  # fmt: skip
def checkpoint_input_in_a_node():
    if hasattr(torch.utils.checkpoint, "SavedTensor"):
        raise Skip("a checkpoint keeps its inputs by itself")
    return checkpoint_input()


@way("saved 'self' of PowBackward0, in the graph of: {g}")
def anomaly_mode():
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        return mark(weights() + 1) ** 2


@way("saved 'self' of PowBackward0, in the graph of: local 'output' of generator epochs(): {g}")
def graph_in_a_generator():
    def epochs():
        output = (mark(weights() + 1) ** 2).sum()
        yield 1
        del output

    held = epochs()
    next(held)
    return held


@way("{g}")
def without_a_graph():
    with torch.no_grad():
        return mark(weights() * other())
