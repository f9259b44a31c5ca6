"""Modules, optimizers, mixed precision, data loaders, caches: what training keeps."""

import copy

import torch
import torch.nn as nn
from hold import DEVICE, SIDE, big, mark, other, way


def linear():
    return nn.Linear(SIDE, SIDE, device=DEVICE)


@way("parameter 'weight' of Linear: {g}")
def parameter():
    held = linear()
    mark(held.weight)
    return held


@way("parameter 'weight' of Linear: module '0' of Sequential: {g}")
def parameter_of_a_module_within():
    held = nn.Sequential(linear(), nn.ReLU())
    mark(held[0].weight)
    return held


@way("buffer 'running' of Linear: {g}")
def buffer():
    held = linear()
    held.register_buffer("running", big())
    return held


@way("parameter '1' of ParameterList: {g}")
def parameter_list():
    held = nn.ParameterList([other(3), big()])
    return held


@way("parameter 'kept' of ParameterDict: {g}")
def parameter_dict():
    return nn.ParameterDict({"kept": big()})


@way("parameter 'weight' of Linear: module 'first' of ModuleDict: {g}", "parameter 'weight' of Linear: module 'second' of ModuleDict: {g}")  # fmt: skip
def tied_weights():
    held = nn.ModuleDict({"first": linear(), "second": linear()})
    held["second"].weight = held["first"].weight
    mark(held["first"].weight)
    return held


@way("attribute 'cache' of Linear: {g}")
def attribute_of_a_module():
    held = linear()
    held.cache = big()
    return held


@way("closure variable 'kept' of hook(): key of OrderedDict: attribute '_forward_hooks' of Linear: {g}")
def forward_hook():
    kept = big()

    def hook(module, inputs, output):
        return kept

    held = linear()
    held.register_forward_hook(hook)
    return held


@way("closure variable 'kept' of hook(): key of OrderedDict: attribute '_backward_hooks' of Linear: {g}")
def backward_hook():
    kept = big()

    def hook(module, inputs, output):
        return kept

    held = linear()
    held.register_full_backward_hook(hook)
    return held


@way(".grad of a Parameter: parameter 'weight' of Linear: {g}")
def gradient_of_a_parameter():
    held = linear()
    held(other()).sum().backward()
    mark(held.weight.grad)
    return held


@way("key '0.weight' of OrderedDict: {g}")
def state_dict():
    held = nn.Sequential(linear()).state_dict()
    mark(held["0.weight"])
    return held


@way("key '0.weight' of OrderedDict: {g}", "parameter 'weight' of Linear: module '0' of Sequential: global 'saved_net' of module training")  # fmt: skip
def state_dict_of_a_living_module():
    net = globals()["saved_net"] = nn.Sequential(linear())
    held = net.state_dict()
    mark(held["0.weight"])
    return held


@way("parameter 'weight' of Linear: module '0' of Sequential: {g}")
def deep_copy():
    held = copy.deepcopy(nn.Sequential(linear()))
    mark(held[0].weight)
    return held


@way("parameter 'weight' of Linear: module 'module' of AveragedModel: {g}")
def moving_average():
    held = torch.optim.swa_utils.AveragedModel(linear())
    held.update_parameters(linear())
    mark(held.module.weight)
    return held


def trained(kind=torch.optim.AdamW, **keys):
    net = nn.Sequential(linear(), nn.ReLU())
    optimizer = kind(net.parameters(), lr=0.1, **keys)
    net(other(2, SIDE)).sum().backward()
    optimizer.step()
    return net, optimizer


@way("optimizer state 'exp_avg' of AdamW for parameter '0.weight': item 1 of tuple: {g}")
def optimizer_moment():
    net, optimizer = trained()
    mark(optimizer.state[net[0].weight]["exp_avg"])
    return net, optimizer


@way("optimizer state 'exp_avg_sq' of AdamW: {g}")
def optimizer_moment_alone():
    net, optimizer = trained()
    mark(optimizer.state[net[0].weight]["exp_avg_sq"])
    return optimizer


@way("optimizer state 'momentum_buffer' of SGD: {g}")
def momentum():
    net, optimizer = trained(torch.optim.SGD, momentum=0.9)
    mark(optimizer.state[net[0].weight]["momentum_buffer"])
    return optimizer


@way(
    "parameter 'weight' of Linear: module '0' of Sequential: item 0 of tuple: {g}",
    "item 0 of list: key 'params' of dict: item 0 of list: attribute 'param_groups' of AdamW: item 1 of tuple: {g}",
    "a key itself of defaultdict: attribute 'state' of AdamW: item 1 of tuple: {g}",
)
def parameter_under_optimization():
    net, optimizer = trained()
    mark(net[0].weight)
    return net, optimizer


@way("key 'exp_avg' of dict: key '0' of dict: key 'state' of dict: {g}")
def optimizer_state_dict():
    net, optimizer = trained()
    held = copy.deepcopy(optimizer.state_dict())
    mark(held["state"][0]["exp_avg"])
    return held


@way("attribute '_scale' of GradScaler: {g}")
def grad_scaler():
    held = torch.amp.GradScaler(DEVICE, init_scale=2.0)
    held.scale(other(3))
    mark(held._scale)
    return held


@way("item 0 of tuple: attribute 'tensors' of TensorDataset: attribute 'dataset' of DataLoader: {g}")
def data_set():
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(big()), batch_size=4)


@way("local 'batch' of generator batches(): {g}")
def batch_of_a_generator():
    def batches():
        for batch in torch.utils.data.DataLoader([0], collate_fn=lambda items: big()):
            yield 1
            del batch

    held = batches()
    next(held)
    return held


@way("parameter 'original' of ParametrizationList: module 'weight' of ModuleDict: module 'parametrizations' of ParametrizedLinear: {g}")  # fmt: skip
def parametrized():
    class Double(nn.Module):
        def forward(self, value):
            return value * 2

    held = linear()
    torch.nn.utils.parametrize.register_parametrization(held, "weight", Double())
    mark(held.parametrizations.weight.original)
    return held


@way("item 0 of list: key 'params' of dict: item 0 of list: attribute 'param_groups' of AdamW: attribute 'optimizer' of StepLR: {g}")  # fmt: skip
def scheduler():
    tensor = nn.Parameter(big())
    return torch.optim.lr_scheduler.StepLR(torch.optim.AdamW([tensor]), 3)

