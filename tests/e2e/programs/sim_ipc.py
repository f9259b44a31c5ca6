"""CUDA tensors shared with torch.multiprocessing: the child sees the parent's values and the parent the child's."""

import json
import sys

import torch
import torch.multiprocessing as mp


def child(inbox, outbox):
    tensor, small = inbox.get()
    free, total = torch.cuda.mem_get_info()
    facts = {"values": tensor[:5].cpu().tolist(), "small": small.cpu().tolist(), "device": str(tensor.device)}
    tensor.copy_(torch.arange(tensor.numel(), dtype=torch.float32) * 2)
    mine = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    facts["used_with_mine"] = total - torch.cuda.mem_get_info()[0]
    facts["used"] = total - free
    outbox.put(facts)
    inbox.get()
    del tensor, small, mine
    outbox.put(None)


if __name__ == "__main__":
    mp.set_start_method("spawn")
    inbox, outbox = mp.Queue(), mp.Queue()
    tensor = torch.arange(5_000_000, dtype=torch.float32).cuda()
    small = torch.arange(3, dtype=torch.int64).cuda() + 0
    process = mp.Process(target=child, args=(inbox, outbox))
    process.start()
    inbox.put((tensor, small))
    facts = outbox.get()
    facts["back"] = tensor[:3].cpu().tolist()

    def used():
        free, total = torch.cuda.mem_get_info()
        return total - free

    facts["both"] = used()
    inbox.put(None)
    outbox.get()
    process.join()
    facts["after"] = used()
    facts["reserved"] = torch.cuda.memory_reserved()
    json.dump(facts, sys.stdout)
