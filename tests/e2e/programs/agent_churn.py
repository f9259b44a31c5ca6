"""Allocates and frees blocks of sizes that only it knows, for ever, and keeps its own account of it: agent_churn.py FOLDER.

For each line "NUMBER" on its input it forks a process that does so, and prints that one's process id and a line
"begins". The account is FOLDER/NUMBER.account: pairs of int64 (address, bytes asked for; negative when freed), mapped, so
that it outlives whatever ends the process; its first word is the number of pairs that are whole. With MARKS=1 it
says a long mark before each, so that its record grows by a kilobyte an event.
"""

import ctypes
import mmap
import os
import random
import struct
import sys

import torch

PAIRS = 1 << 20


def say(word):
    os.write(1, f"{word}\n".encode())  # at once: parent and child speak at the same time


def churn(path, number):
    with open(path, "wb") as file:
        file.truncate(8 + 16 * PAIRS)
    file = open(path, "r+b")
    account = mmap.mmap(file.fileno(), 0)
    whole = memoryview(account)[:8].cast("q")  # written in one piece; struct.pack_into() writes zeros first
    choose = random.Random(number)
    device = torch.device("cuda")
    kept, count = [], 0

    def note(address, size):
        nonlocal count
        struct.pack_into("<qq", account, 8 + 16 * count, address, size)
        count += 1
        whole[0] = count

    def mark():
        if os.environ.get("MARKS"):
            agent.gpumem_agent_push(b"x" * 1000)
            agent.gpumem_agent_pop()

    agent = ctypes.CDLL(None)
    torch.empty(1, device=device)
    say("begins")
    while count < PAIRS - 2:
        mark()
        if len(kept) > 100 or (kept and choose.random() < 0.4):
            block, size = kept.pop(choose.randrange(len(kept)))
            address = block.data_ptr()
            del block
            note(address, -size)
        else:
            size = choose.randrange(1, 5_000_000)
            block = torch.empty(size, dtype=torch.uint8, device=device)
            kept.append((block, size))
            note(block.data_ptr(), size)
            del block


for line in sys.stdin:
    child = os.fork()
    if child == 0:
        churn(f"{sys.argv[1]}/{line.strip()}.account", int(line))
        os._exit(0)
    say(child)
    os.waitpid(child, 0)
