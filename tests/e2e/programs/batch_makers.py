"""batch_makers.py SEED: prints a program that trains, and whose batches a thread, an executor, a task or the loop itself makes.

The program may keep its batches, or something that it computes from them: the line that makes what is kept then ends with the comment
LEAK. The lines that make batches end with BATCH, or BATCH LEAK. `main(seed)` returns (the text, its steps).
"""

import random
import sys

HEAD = """
import asyncio, collections, concurrent.futures, queue, threading
import torch
from torch import nn

model = nn.Sequential(nn.Linear({width}, {width}), nn.ReLU(), nn.Linear({width}, {width})).to("cuda")
optimizer = torch.optim.{optimizer}(model.parameters(), lr=1e-4)
kept = []
last = collections.deque(maxlen=2)


def batch():
    return torch.randn({rows}, {width}, device="cuda")  # BATCH{batch}


def train_on(x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
{keeps}

"""

# name: (how the batches come, whether that is in a coroutine)
MAKERS = {
    "loop": """
for _ in range({steps}):
    train_on(batch())
""",
    "thread": """
def produce(batches):
    for _ in range({steps}):
        batches.put(batch())
    batches.put(None)


batches = queue.Queue({ahead})
threading.Thread(target=produce, args=(batches,)).start()
while (x := batches.get()) is not None:
    train_on(x)
""",
    "worker": """
class Loader(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.wanted, self.made = queue.Queue(), queue.Queue()
        self.start()

    def run(self):
        while self.wanted.get():
            self.made.put(batch())

    def __iter__(self):
        for _ in range({steps}):
            self.wanted.put(True)
            yield self.made.get()


for x in Loader():
    train_on(x)
""",
    "executor": """
with concurrent.futures.ThreadPoolExecutor({ahead}) as pool:
    futures = collections.deque(pool.submit(batch) for _ in range({ahead}))
    for step in range({steps}):
        x = futures.popleft().result()
        if step < {steps} - {ahead}:
            futures.append(pool.submit(batch))
        train_on(x)
""",
    "task": """
async def produce(batches):
    for _ in range({steps}):
        await batches.put(batch())
    await batches.put(None)


async def main():
    batches = asyncio.Queue({ahead})
    producer = asyncio.create_task(produce(batches))
    while (x := await batches.get()) is not None:
        train_on(x)
    await producer


asyncio.run(main())
""",
    "tasks": """
async def fetch():
    await asyncio.sleep(0)
    return batch()


async def main():
    for _ in range({steps}):
        (x,) = await asyncio.gather(fetch())
        train_on(x)


asyncio.run(main())
""",
    "asynchronous generator": """
async def each():
    for _ in range({steps}):
        await asyncio.sleep(0)
        yield batch()


async def main():
    async for x in each():
        train_on(x)


asyncio.run(main())
""",
    "to_thread": """
async def main():
    for _ in range({steps}):
        train_on(await asyncio.to_thread(batch))


asyncio.run(main())
""",
}


def main(seed):
    rng = random.Random(seed)
    # many more than are made ahead: the batches end before the training, which looks like a buffer that is full
    steps = rng.randint(14, 20)
    # each way comes in turn
    maker = list(MAKERS)[seed % len(MAKERS)]
    keeps, batch = rng.choice([
        ([], ""),
        (["last.append(x)"], ""),
        (["kept.append(x)"], " LEAK"),
        (["if len(kept) < 3: kept.append(x)"], ""),
        (["kept.append(loss.detach().expand(64, 64).clone())  # LEAK"], ""),
    ])  # fmt: skip
    text = HEAD + MAKERS[maker]
    return text.format(
        width=rng.choice([256, 320, 512]),
        rows=rng.choice([256, 384, 512]),
        optimizer=rng.choice(["SGD", "Adam"]),
        steps=steps,
        ahead=rng.randint(1, 2),
        keeps="\n".join(f"    {line}" for line in keeps) or "    del loss",
        batch=batch,
    ), steps


if __name__ == "__main__":
    sys.stdout.write(main(int(sys.argv[1]))[0])
