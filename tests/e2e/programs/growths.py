"""growths.py SEED [STEPS]: prints a training program in which several lines keep blocks, each in a way of its own.

Each such line ends with a comment: LEAK; BOUNDED, if the recording shows that the growth ends; LIMIT, if only the holder shows it;
NOTED, if the holder shows a limit that is no proof, or too far away; EITHER, if nothing can show it: a cache by lengths of which none
comes again. `main(seed)` returns the text.
"""

import random
import sys

HEAD = '''
import collections, functools, os, random, sys
import torch
from torch import nn

numbers = random.Random({seed})
model = nn.Linear(64, 64).to("cuda")


class Recent:
    """The latest items that were asked for."""

    def __init__(self, capacity):
        self.capacity, self.items = capacity, collections.OrderedDict()

    def get(self, key, make):
        if key not in self.items:
            self.items[key] = make()
        self.items.move_to_end(key)
        while len(self.items) > self.capacity:
            self.items.popitem(last=False)
        return self.items[key]


{setup}

def train():
    for step in range({steps}):
        length = {length}
        inputs = torch.randn(8, length, 64, device="cuda")
{body}
        model(inputs).square().mean().backward()
        model.zero_grad()


train()
print(os.getpid(), flush=True)
sys.stdin.readline()
'''

# How long the inputs are, and whether lengths come again.
LENGTHS = {
    "alike": "48",
    "few": "numbers.choice((20, 36, 52, 76, 100, 132))",
    "many": "20 + 2 * numbers.randrange(24)",
    "longer": "20 + 3 * step",
    "curriculum": "20 + 16 * (step // 6)",
}


def shape(rng, lengths):
    return rng.choice(["(8, 300)", "(8, length, 64)"] if lengths != "alike" else ["(8, 300)", "(500,)"])


def leak(rng, number, lengths, steps):
    made, way = f"torch.zeros({shape(rng, lengths)}, device=\"cuda\")", rng.randrange(4)
    if way == 0:
        return f"kept{number} = []", [f"kept{number}.append({made})  # LEAK"]
    if way == 1:
        return f"kept{number} = {{}}", [f"kept{number}[step] = {made}  # LEAK"]
    if way == 2:
        return f"kept{number} = []", [f"if step % 2 == 0: kept{number}.append({made})  # LEAK"]
    return f"kept{number} = collections.deque()", [f"kept{number}.append({made})  # LEAK"]


def full(rng, number, lengths, steps):
    """A buffer that has been full for the last six steps, at least."""
    made, room, way = f"torch.zeros({shape(rng, lengths)}, device=\"cuda\")", rng.randint(2, steps - 6), rng.randrange(3)
    if way == 0:
        return f"kept{number} = collections.deque(maxlen={room})", [f"kept{number}.append({made})  # BOUNDED"]
    if way == 1:
        return f"kept{number} = [None] * {room}", [f"kept{number}[step % {room}] = {made}  # BOUNDED"]
    return f"kept{number} = [None] * {room}", [f"kept{number}[step if step < {room} else numbers.randrange({room})] = {made}  # BOUNDED"]


def filling(rng, number, lengths, steps):
    """A buffer that has room for more steps than there are."""
    made, room, way = f"torch.zeros({shape(rng, lengths)}, device=\"cuda\")", rng.randint(steps + 5, 4 * steps), rng.randrange(3)
    if way == 0:
        return f"kept{number} = collections.deque(maxlen={room})", [f"kept{number}.append({made})  # LIMIT"]
    if way == 1:
        return f"kept{number} = [None] * {room}", [f"kept{number}[step] = {made}  # LIMIT"]
    return f"kept{number} = Recent({room})", [f"kept{number}.get(step, lambda: {made})  # NOTED"]


def far(rng, number, lengths, steps):
    """A buffer with room for many times as many steps: until it is full it grows."""
    made, room = f"torch.zeros({shape(rng, lengths)}, device=\"cuda\")", rng.randint(12, 200) * steps
    if rng.random() < 0.5:
        return f"kept{number} = collections.deque(maxlen={room})", [f"kept{number}.append({made})  # NOTED"]
    return f"kept{number} = [None] * {room}", [f"kept{number}[step] = {made}  # NOTED"]


def replaced(rng, number, lengths, steps):
    """What is kept for each version of a tensor that is replaced by a larger or a smaller one: an optimizer's state of old parameters."""
    every, more, first = rng.randint(2, 5), rng.choice([7, -7]), rng.randint(400, 500)
    setup = f"moments{number} = {{}}"
    return setup, [
        f"rows{number} = {first} + {more} * (step // {every})",
        f"tensor{number} = torch.ones(rows{number}, 64, device=\"cuda\").square()",
        f"if step % {every} == 0: moments{number}[step] = torch.zeros(rows{number}, 64, device=\"cuda\")  # LEAK",
    ]


def by_length(rng, number, lengths, steps):
    """A cache with an entry for each length."""
    made = rng.choice(["torch.zeros(length, length, device=\"cuda\")", "torch.zeros(1, length, 64, device=\"cuda\")"])
    mark = "EITHER" if lengths in ("longer", "curriculum") else "BOUNDED"
    if rng.random() < 0.5:
        return f"kept{number} = {{}}", [f"if length not in kept{number}: kept{number}[length] = {made}  # {mark}"]
    text = f"@functools.lru_cache(maxsize=None)\ndef kept{number}(length): return {made}  # {mark}"
    return text, [f"kept{number}(length)"]


def main(seed, steps=36):
    rng = random.Random(seed)
    lengths = rng.choice(list(LENGTHS))
    ways = rng.sample([leak, full, filling, far, replaced, by_length], rng.randint(2, 4))
    parts = [way(rng, number, lengths, steps) for number, way in enumerate(ways)]
    body = [line for _, lines in parts for line in lines]
    return HEAD.format(
        seed=seed,
        steps=steps,
        setup="\n".join(setup for setup, _ in parts),
        length=LENGTHS[lengths],
        body="\n".join(f"        {line}" for line in body),
    )


if __name__ == "__main__":
    sys.stdout.write(main(*map(int, sys.argv[1:])))
