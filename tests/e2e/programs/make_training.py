"""make_training.py SEED: prints a training program that is made up by chance: loops within loops or one, functions or none,
modules in modules, autocast, evaluation without gradients, threads, an optimizer, leaks. It takes OUT
and STACKS, runs with PyTorch's recorder on, and writes the snapshot to OUT."""

import random
import sys
import textwrap


def indent(lines, depth=1):
    return textwrap.indent("\n".join(lines), "    " * depth).splitlines()


def model(chance):
    width, layers = chance.choice([64, 96, 160]), chance.randint(1, 3)
    activation = chance.choice(["torch.relu", "torch.nn.functional.gelu", "torch.sigmoid"])
    residual = chance.random() < 0.5
    lines = [
        "class Block(torch.nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        f"        self.layers = torch.nn.ModuleList(torch.nn.Linear({width}, {width}) for _ in range({layers}))",
        f"        self.norm = torch.nn.LayerNorm({width})",
        "",
        "    def forward(self, x):",
        "        for layer in self.layers:",
        f"            y = {activation}(layer(x))",
        f"            x = {'x + y' if residual else 'y'}",
        "        return self.norm(x)",
        "",
    ]
    depth = chance.randint(1, 3)
    net = f"torch.nn.Sequential(*[Block() for _ in range({depth})], torch.nn.Linear({width}, 16))"
    return lines, net, width


def program(seed):
    chance = random.Random(seed)
    classes, net, width = model(chance)
    optimizer = chance.choice(["SGD(net.parameters(), lr=0.1, momentum=0.9)", "SGD(net.parameters(), lr=0.1)",
                               "AdamW(net.parameters())", "Adam(net.parameters(), foreach=False)"])  # fmt: skip
    # no accumulation: by its lines, `if step % 2: optimizer.step()` may as well stand behind a loop within
    autocast, zero_first = chance.random() < 0.5, chance.random() < 0.5
    forward = ["output = net(batch)", "loss = (output * output).mean()"]
    if autocast:
        forward = ['with torch.autocast("cuda", dtype=torch.bfloat16):', *indent(forward)]
    update = ["optimizer.step()", *([] if zero_first else ["optimizer.zero_grad()"])]
    step = [*(["optimizer.zero_grad()"] if zero_first else []), *forward, "loss.backward()", *update]
    if chance.random() < 0.5:
        step = ['with torch.autograd.profiler.record_function("pass"):', *indent(step)]
    leak = ["kept.append(output.detach())"] if chance.random() < 0.5 else []
    in_function = chance.random() < 0.5
    body = (["output = train_step(net, optimizer, batch, step)"] if in_function else step) + leak
    load = [f'batch = torch.randn({chance.choice([16, 48])}, {width}, device="cuda")']
    loop = [f"for step in range({chance.randint(3, 5)}):", *indent(load + body)]
    after = []
    if chance.random() < 0.5:
        after = ["evaluate(net, batch)"]
    if chance.random() < 0.5:
        loop = [f"for epoch in range({chance.randint(2, 3)}):", *indent(loop + after)]
    else:
        loop += after
    threads = []
    if chance.random() < 0.5:
        threads = ["thread = threading.Thread(target=worker)", "thread.start()", "thread.join()"]
    main = [f"net = {net}.cuda()", f"optimizer = torch.optim.{optimizer}", *threads, *loop, "return net, optimizer, batch"]
    return "\n".join([
        '"""Made by make_training.py."""', "import sys", "import threading", "import torch", "", "kept = []", "", *classes, "",
        "def train_step(net, optimizer, batch, step):", *indent([*step, "return output"]), "",
        "def evaluate(net, batch):", "    net.eval()", "    with torch.no_grad():", "        for _ in range(2):",
        "            guess = net(batch).argmax()", "    net.train()", "",
        "def worker():", "    for size in range(1, 4):", '        kept.append(torch.empty(1000 * size, device="cuda"))', "",
        "def main():", *indent(main), "",
        "torch.manual_seed(0)", "torch.cuda.memory._record_memory_history(stacks=sys.argv[2])", "held = main()",
        "torch.cuda.memory._dump_snapshot(sys.argv[1])", "",
    ])  # fmt: skip


if __name__ == "__main__":
    print(program(int(sys.argv[1])))
