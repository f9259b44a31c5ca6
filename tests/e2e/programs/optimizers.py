"""Two optimizers as measures of `gpumem advise` ask for them: state in 8 bits, and state in the host's memory."""

import torch


class Adam8bit(torch.optim.Optimizer):
    """Keeps what bitsandbytes.optim.Adam8bit keeps (a byte for each element, a float32 for each block of 256; float32 below 4096
    elements), and updates in place as its kernels do. The numbers are not Adam's."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 1e-3})

    def new_state(self, parameter):
        if parameter.numel() < 4096:
            return {name: torch.zeros_like(parameter) for name in ("state1", "state2")}
        state = {name: torch.zeros_like(parameter, dtype=torch.uint8) for name in ("state1", "state2")}
        blocks = -(-parameter.numel() // 256)
        return {**state, **{name: torch.zeros(blocks, device=parameter.device) for name in ("absmax1", "absmax2")}}

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                if not self.state[parameter]:
                    self.state[parameter] = self.new_state(parameter)
                parameter.add_(parameter.grad, alpha=-group["lr"])


class HostAdam:
    """Adam whose parameters are copies on the host: the device has neither state nor temporaries of it."""

    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.copies = [torch.nn.Parameter(parameter.detach().cpu()) for parameter in self.parameters]
        self.optimizer = torch.optim.Adam(self.copies)

    @torch.no_grad()
    def step(self):
        for parameter, copy in zip(self.parameters, self.copies):
            copy.grad = parameter.grad.cpu()
        self.optimizer.step()
        for parameter, copy in zip(self.parameters, self.copies):
            parameter.copy_(copy)

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None
