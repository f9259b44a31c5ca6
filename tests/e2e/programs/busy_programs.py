"""A program without a rest, whose result shows whether anything disturbed it: `busy_programs.py KIND [STEPS...]`.

training  one thread trains a model
server    an HTTP server answers the requests of a client; each answer changes a cache of tensors
threads   16 threads train a model each

Prints its process id and the address of a block that two variables keep. When its input is closed it prints how many steps
each thread did, and a digest of what came out. With STEPS (of each thread) it does so many: the digest has to be the same.
"""

import collections
import gc
import hashlib
import http.client
import http.server
import os
import sys
import threading

import torch

torch.set_num_threads(1)
kept = torch.full((1000,), 3.0, device="cuda")
registry = {"kept": [kept]}
ended = threading.Event()


def goes_on(step, wanted):
    return not ended.is_set() if wanted is None else step < wanted


class Trainer:
    """Trains on the host, where numbers are real, with as many tensors on the device beside it."""

    def __init__(self, number):
        generator = torch.Generator().manual_seed(number)
        self.model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 16))
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.history = collections.deque(maxlen=10)

    def step(self, step):
        inputs = torch.full((8, 16), float(step % 7))
        outputs = self.model(inputs)
        loss = (outputs - inputs).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.history.append((loss.detach(), torch.empty(100 + step % 50, device="cuda")))

    def run(self, wanted=None):
        step = 0
        while goes_on(step, wanted):
            self.step(step)
            step += 1
            if step % 50 == 0:
                gc.collect()
        return step

    def result(self):
        return b"".join(parameter.detach().numpy().tobytes() for parameter in self.model.parameters())


def train(wanted):
    trainer = Trainer(0)
    return [trainer.run(*wanted)], [trainer.result()]


def train_in_threads(wanted):
    trainers = [Trainer(number) for number in range(16)]
    steps = [0] * len(trainers)

    def run(number):
        steps[number] = trainers[number].run(*wanted[number : number + 1])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(trainers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return steps, [trainer.result() for trainer in trainers]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    trainer = Trainer(1)
    cache = collections.OrderedDict()

    def do_GET(self):
        number = int(self.path[1:])
        with torch.no_grad():
            outputs = self.trainer.model(torch.full((4, 16), float(number % 11)))
        self.cache[number] = outputs, torch.empty(100 + number % 50, device="cuda")
        while len(self.cache) > 20:
            self.cache.popitem(last=False)
        answer = b"".join(host.numpy().tobytes() for host, _ in self.cache.values())
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *words):
        pass


def serve(wanted):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = http.client.HTTPConnection(*server.server_address)
    digest, number = hashlib.sha256(), 0
    while goes_on(number, *wanted or [None]):
        client.request("GET", f"/{number}")
        digest.update(client.getresponse().read())
        number += 1
    client.close()
    server.shutdown()
    return [number], [digest.digest()]


def wait_for_end():
    sys.stdin.read()
    ended.set()


def main():
    kind, *wanted = sys.argv[1:]
    if not wanted:
        print(os.getpid(), hex(kept.data_ptr()), flush=True)
        threading.Thread(target=wait_for_end, daemon=True).start()
    steps, results = {"training": train, "server": serve, "threads": train_in_threads}[kind]([int(count) for count in wanted])
    print(*steps, hashlib.sha256(b"".join(results)).hexdigest(), registry["kept"][0] is kept, flush=True)


main()
# PyTorch's thread for backward takes the GIL when it ends. Where the interpreter has ended before it, that is std::terminate().
os._exit(0)
