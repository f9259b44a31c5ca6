"""What C++ code and libraries keep: here gpumem says that the references are not all found, and where else a word points at
the tensor."""

import ctypes
import os

import subprocess
import tempfile
import threading
import time
from pathlib import Path

import torch
import torch.nn as nn
from hold import DEVICE, SIDE, Skip, big, mark, need, other, running, stay, way
from implementation import implementation


def library():
    """holder.cpp, built."""
    if not hasattr(library, "loaded"):
        folder = tempfile.mkdtemp(prefix="gpumem-ways-")
        source, made = Path(__file__).parent / "holder.cpp", Path(folder, "libholder.so")
        try:
            subprocess.run(["g++", "-O1", "-g0", "-shared", "-fPIC", "-o", made, source], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Skip(f"no C++ compiler: {error}") from None
        library.loaded = ctypes.CDLL(str(made))
        library.path = made
    return library.loaded


@way("static 'holder::kept_by_static' of libholder.so")
def cpp_static():
    tensor = big()
    library().keep_in_static(implementation(tensor))


@way("item 0 of a vector of 1 tensor, held by static 'holder::vector_of_static' of libholder.so")
def cpp_vector():
    tensor = big()
    library().keep_in_vector(implementation(tensor))


@way("item 0 of a vector of 1 tensor, held by a holder::Cache, held by static 'keep_in_object::all' of libholder.so")
def cpp_object():
    tensor = big()
    library().keep_in_object(implementation(tensor))


@way("item 0 of a vector of 1 tensor, held by a holder::Cache, held by a holder::Shelf, held by a holder::Shelf, held by static 'holder::shelf' of libholder.so")  # fmt: skip
def cpp_beside_parser():
    tensor = big()
    library().keep_beside_parser(implementation(tensor))


@way("the native stack of thread N, in holder::stand(void*)")
def cpp_stack():
    tensor = big()
    library().keep_in_thread(implementation(tensor))


@way("the native stack of thread N, in holder::stand(void*)")
def cpp_stack_without_a_guard():
    tensor = big()
    library().keep_in_unguarded_thread(implementation(tensor))


@running("autocast's cache of cast weights")
def autocast_cache():
    net = nn.Linear(SIDE, SIDE, device=DEVICE)
    with torch.autocast(DEVICE, torch.bfloat16):
        output = net(other(requires_grad=True))
        mark(output.grad_fn._saved_mat2)
        del output
        stay()


def process_group():
    distributed = need("torch.distributed")
    if not distributed.is_available():
        raise Skip("torch without torch.distributed")
    if not distributed.is_initialized():
        folder = tempfile.mkdtemp(prefix="gpumem-ways-")
        backend = "cpu:gloo,cuda:nccl" if DEVICE == "cuda" else "gloo"
        distributed.init_process_group(backend, init_method=f"file://{folder}/store", rank=0, world_size=1)
    return distributed


@way(
    ".grad of a Parameter: item 0 of list: attribute '_module_parameters' of DistributedDataParallel: {g}",
    ".grad of a Parameter: item 1 of list: attribute '_module_parameters' of DistributedDataParallel: {g}",
    "bucket_views_in[0] of DDP's bucket 0: attribute 'reducer' of DistributedDataParallel: {g}",
    "bucket_views_in[1] of DDP's bucket 0: attribute 'reducer' of DistributedDataParallel: {g}",
    "bucket_views_out[0] of DDP's bucket 0: attribute 'reducer' of DistributedDataParallel: {g}",
    "bucket_views_out[1] of DDP's bucket 0: attribute 'reducer' of DistributedDataParallel: {g}",
    "future_work of DDP's bucket 0: attribute 'reducer' of DistributedDataParallel: {g}",
    "gradients of DDP's bucket 0: attribute 'reducer' of DistributedDataParallel: {g}",
)
def ddp_bucket():
    process_group()
    held = nn.parallel.DistributedDataParallel(nn.Linear(SIDE, SIDE), gradient_as_bucket_view=True)
    held(torch.ones(2, SIDE)).sum().backward()
    mark(held.module.weight.grad)
    return held


@way("gradients of DDP's bucket 0: attribute 'reducer' of DistributedDataParallel: {g}", some=True)
def ddp_bucket_on_the_device():
    if DEVICE != "cuda":
        raise Skip("no CUDA device")
    group = process_group().new_group(backend="nccl")
    net = nn.Linear(SIDE, SIDE, device=DEVICE)
    held = nn.parallel.DistributedDataParallel(net, process_group=group, gradient_as_bucket_view=True)
    held(torch.ones(2, SIDE, device=DEVICE)).sum().backward()
    torch.cuda.synchronize()
    mark(net.weight.grad)
    return held


def nobody_waits():
    if DEVICE != "cuda":
        raise Skip("no CUDA device")
    held = process_group().new_group(backend="nccl")
    torch.distributed.all_reduce(big(), group=held, async_op=True)
    time.sleep(2)  # the watchdog moves it to the shelf when it sees that it is done
    return held


@way(
    "tensors of a collective (c10d::TensorShelf), held by a c10d::ProcessGroupNCCL",
    "tensors of a collective (c10d::TensorShelf), held by a c10d::ProcessGroupNCCL",
)
def collective_nobody_waited_for():
    if torch.__version__ < "2.8":
        raise Skip("until PyTorch 2.7 a collective that is done lets its tensors go")
    if torch.__version__ >= "2.15":
        raise Skip("from PyTorch 2.15 on it is another class's")
    return nobody_waits()


@way(
    "tensors of a collective (c10d::nccl2::WorkNCCL::InputTensorShelf), held by a c10d::nccl2::ProcessGroupNCCL",
)
def collective_nobody_waited_for_in_nccl2():
    if torch.__version__ < "2.15":
        raise Skip("before PyTorch 2.15 it is another class's")
    return nobody_waits()


@way("optimizer state 'exp_avg' of AdamW for parameter 'weight': attribute 'optim' of ZeroRedundancyOptimizer: item 1 of tuple: {g}")  # fmt: skip
def zero_optimizer():
    process_group()
    from torch.distributed.optim import ZeroRedundancyOptimizer

    net = nn.Linear(SIDE, SIDE)
    held = ZeroRedundancyOptimizer(net.parameters(), torch.optim.AdamW)
    net(torch.ones(2, SIDE)).sum().backward()
    held.step()
    mark(held.optim.state[net.weight]["exp_avg"])
    return net, held


@way("a c10::ivalue::ConcretePyObjectHolder, held by a c10::ivalue::Future, held by a torch::jit::PythonFutureWrapper: {g}")  # fmt: skip
def native_future():
    held = torch.futures.Future()
    held.set_result(big())
    return held


@way("item 1 of tuple: {g}")
def cuda_graph_output():
    if DEVICE != "cuda":
        raise Skip("no CUDA device")
    graph, inputs = torch.cuda.CUDAGraph(), other()
    with torch.cuda.graph(graph):
        output = inputs * 2
    return graph, mark(output)


@way("item 1 of tuple: {g}")
def memory_pool():
    if DEVICE != "cuda" or not hasattr(torch.cuda, "MemPool"):
        raise Skip("no torch.cuda.MemPool")
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        held = big()
    return pool, held


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.full((SIDE, SIDE), float(index))


@way("item 1 of tuple: item 0 of deque: attribute 'queue' of Queue: attribute '_data_queue' of _MultiProcessingDataLoaderIter: {g}", some=True)  # fmt: skip
def pinned_prefetch():
    if DEVICE != "cuda":
        raise Skip("no CUDA device")
    loader = torch.utils.data.DataLoader(Numbers(), num_workers=1, pin_memory=True, prefetch_factor=4)
    held = iter(loader)
    end = time.monotonic() + 20
    while held._data_queue.qsize() < 4:
        if time.monotonic() > end:
            raise Skip("no batch has come in 20 s")
        time.sleep(0.05)
    mark(held._data_queue.queue[0][1])
    return held


@way("attribute 'keys' of DynamicLayer: item 0 of list: attribute 'layers' of DynamicCache: {g}")
def kv_cache():
    transformers = need("transformers")
    held = transformers.DynamicCache()
    held.update(big().view(1, 1, SIDE, SIDE), other(1, 1, SIDE, SIDE), 0)
    if not hasattr(held, "layers"):
        raise Skip(f"transformers {transformers.__version__} keeps its cache otherwise")
    mark(held.layers[0].keys)
    return held


class Uneven(torch.utils.data.Dataset):
    """The first batch never comes."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        parent = os.getppid()
        while index == 0 and os.getppid() == parent:
            time.sleep(0.2)
        return torch.full((SIDE, SIDE), float(index))


@way("item 1 of tuple: key '1' of dict: attribute '_task_info' of _MultiProcessingDataLoaderIter: {g}", some=True)
def batch_out_of_turn():
    held = iter(torch.utils.data.DataLoader(Uneven(), num_workers=2))
    threading.Thread(target=next, args=(held,), daemon=True).start()
    end = time.monotonic() + 20
    while len(held._task_info[1]) < 2:
        if time.monotonic() > end:
            raise Skip("no batch has come in 20 s")
        time.sleep(0.05)
    mark(held._task_info[1][1])
    return held


@way("memory that was sent to other processes (CUDA IPC)", complete=False)
def sent_to_another_process():
    if DEVICE != "cuda":
        raise Skip("no CUDA device")
    held = torch.multiprocessing.get_context("spawn").SimpleQueue()
    held.put(big())
    return held


@way("item 1 of tuple: {g}")
def sent_and_kept():
    if DEVICE != "cuda":
        raise Skip("no CUDA device")
    queue, held = torch.multiprocessing.get_context("spawn").SimpleQueue(), big()
    queue.put(held)
    return queue, held


@way("item 1 of tuple: {g}")
def received_from_another_process():
    if DEVICE != "cuda":
        raise Skip("no CUDA device")
    import sender

    context = torch.multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=sender.send, args=(queue, SIDE), daemon=True)
    process.start()
    while queue.empty():
        if not process.is_alive():
            raise RuntimeError("no tensor has come from the other process")
        time.sleep(0.05)
    return process, mark(queue.get())


@way("attribute 'flat_param' of FlatParamHandle: attribute '_handle' of FullyShardedDataParallel: {g}", some=True)
def fsdp_flat_parameter():
    if DEVICE != "cuda":
        raise Skip("no CUDA device")
    process_group()
    from torch.distributed.fsdp import FullyShardedDataParallel

    held = FullyShardedDataParallel(nn.Linear(SIDE, SIDE), device_id=0)
    mark(held._flat_param)
    return held


def fully_shard():
    try:
        from torch.distributed.fsdp import fully_shard as shard
    except ImportError:
        raise Skip("torch without fully_shard") from None
    from torch.distributed.device_mesh import init_device_mesh

    return shard(nn.Linear(SIDE, SIDE, device=DEVICE), mesh=init_device_mesh(DEVICE, (1,)))


@way("attribute '_local_tensor' of DTensor: parameter 'weight' of FSDPLinear: {g}", some=True)
def fsdp2_shard():
    if DEVICE != "cuda":
        raise Skip("no CUDA device")
    process_group()
    held = fully_shard()
    mark(held.weight.to_local())
    return held


@way("parameter 'weight' of FSDPLinear: {g}", some=True)
def fsdp2_unsharded():
    if DEVICE != "cuda":
        raise Skip("no CUDA device")
    process_group()
    held = fully_shard()
    held.unshard()
    mark(held.weight)
    return held


@way("parameter 'weight' of Linear: self of bound method Linear.forward: attribute '__wrapped__' of ScriptMethod: attribute 'forward' of RecursiveScriptModule: {g}", some=True)  # fmt: skip
def script_module():
    held = torch.jit.script(nn.Linear(SIDE, SIDE, device=DEVICE))
    mark(held.weight)
    return held


@way("attribute 'cache' of Cached: self of bound method Cached.forward: attribute '__wrapped__' of ScriptMethod: attribute 'forward' of RecursiveScriptModule: {g}", some=True)  # fmt: skip
def script_module_attribute():
    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = big()

        def forward(self, value):
            return value + self.cache

    return torch.jit.script(Cached())


@way("base of ndarray: base of ndarray: external owner of a tensor's memory: {g}", "{g}")
def lent_by_a_lent_array():
    return torch.from_numpy(big("cpu").numpy()[3:])


@running("base of ndarray: local 'array' of {f}")
def array_in_a_frame():
    array = big("cpu").numpy()
    stay()
    del array


@way("tensor of dltensor capsule: base of ndarray: {g}")
def numpy_from_dlpack():
    numpy = need("numpy")
    if not hasattr(numpy, "from_dlpack"):
        raise Skip(f"numpy {numpy.__version__} has no from_dlpack")
    return numpy.from_dlpack(big("cpu"))
