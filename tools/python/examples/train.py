"""A small language model of bytes in PyTorch, trained with a trace.

    python3 tools/python/examples/train.py --trace a.trace
    python3 tools/python/examples/train.py --trace b.trace --dtype bf16
    build/opbound trace diff a.trace b.trace

    python3 tools/python/examples/train.py --audit       one step, every call of aten judged
    python3 tools/python/examples/train.py --overhead    what the trace costs, in one run

Under torchrun each rank takes its share of a step's sequences: DistributedDataParallel, or with
--fsdp parameters in shards.
"""
import argparse
import contextlib
import hashlib
import os
import pathlib
import statistics
import sys
import time

import torch
import torch.distributed as dist

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import opbound  # noqa: E402  (found without being installed)

TEXT = pathlib.Path(__file__).resolve().parents[3] / "suites" / "training" / "text.txt"
CONTEXT = 64


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1 = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.norm_2 = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def attention(self, x):
        batch, length, width = x.shape
        q, k, v = (t.reshape(batch, length, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(2, 3) * (width // self.heads) ** -0.5
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        p = torch.softmax(scores.masked_fill(future, -float("inf")), -1)
        return self.out((p @ v).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        hidden = torch.nn.functional.gelu(self.up(self.norm_2(x)), approximate="tanh")
        return x + self.down(hidden)


class Model(torch.nn.Module):
    def __init__(self, width, layers, heads=4):
        super().__init__()
        self.tokens = torch.nn.Embedding(256, width)
        self.positions = torch.nn.Embedding(CONTEXT, width)
        self.blocks = torch.nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, 256, bias=False)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.positions(places))))


def sample(text, sequences, draw):
    starts = torch.randint(0, len(text) - CONTEXT - 1, (sequences,), generator=draw).tolist()
    rows = torch.stack([text[s:s + CONTEXT + 1] for s in starts])
    return rows[:, :-1], rows[:, 1:]


def loss_of(model, tokens, targets, dtype):
    device = tokens.device.type
    cast = torch.autocast(device, torch.bfloat16) if dtype == "bf16" else contextlib.nullcontext()
    with cast:
        logits = model(tokens)
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def dealt_out(model, options):
    """To ranks, if there are several."""
    if options.ranks == 1:
        return model
    if options.fsdp:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard  # new in torch 2.6
        mesh = init_device_mesh(torch.device(options.device).type, (options.ranks,))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)
    return torch.nn.parallel.DistributedDataParallel(model)


class Loop:
    """A training loop as anybody has it."""

    def __init__(self, options):
        torch.manual_seed(options.seed)
        self.options = options
        data = TEXT.read_bytes()
        self.sha256 = hashlib.sha256(data).hexdigest()
        self.text = torch.tensor(list(data))
        self.draw = torch.Generator().manual_seed(options.seed)
        model = Model(options.width, options.layers).to(options.device)
        if options.twin is not None:
            opbound.twin(model, options.twin, torch.bfloat16 if options.dtype == "bf16" else None)
        self.model = dealt_out(model, options)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=options.lr)

    def batch(self):
        tokens, targets = sample(self.text, self.options.sequences, self.draw)
        return tokens.to(self.options.device), targets.to(self.options.device)

    def step(self, trace=None):
        options = self.options
        batch = self.batch()
        tokens, targets = (t[options.rank::options.ranks] for t in batch)
        self.optimizer.zero_grad()
        loss = loss_of(self.model, tokens, targets, options.dtype)
        loss.backward()
        self.optimizer.step()
        if options.ranks > 1:  # the mean of all
            loss = loss.detach() / options.ranks
            dist.all_reduce(loss)
        if trace is not None:
            trace.step(loss, self.optimizer, batch=batch, tokens=batch[0].numel())
        return loss.item()


def train(options):
    loop = Loop(options)
    trace = None
    if options.trace:
        trace = opbound.Trace(options.trace, loop.model, full_every=options.full_every,
                              data_sha256=loop.sha256)
    for step in range(options.steps):
        loss = loop.step(trace)
        if options.rank == 0 and (step % 10 == 0 or step == options.steps - 1):
            print(f"step {step}: loss {loss:.4f}")


def audit(options):
    loop = Loop(options)
    tokens, targets = loop.batch()
    with opbound.audit(loop.model) as found:
        loss_of(loop.model, tokens, targets, options.dtype).backward()
    print(found)
    return 0 if found.passed else 1


def overhead(options):
    """Steps with and without a trace in turn: medians and quartiles of the processor's time, which
    other programs of the machine disturb least; and medians of the time that passed."""
    loop = Loop(options)
    trace = opbound.Trace(options.trace or "overhead.trace", loop.model)
    times, passed = {False: [], True: []}, {False: [], True: []}
    for step in range(2 * options.steps):
        is_traced = step % 2 == 1
        begin, own = time.perf_counter(), time.process_time()
        loop.step(trace if is_traced else None)
        times[is_traced].append(1e3 * (time.process_time() - own))
        passed[is_traced].append(1e3 * (time.perf_counter() - begin))
    count = sum(p.numel() for p in loop.model.parameters())
    print(f"{count} parameters, {options.sequences * CONTEXT} tokens a step, "
          f"{torch.get_num_threads()} threads, torch {torch.__version__} on {options.device}")
    for is_traced, name in ((False, "without"), (True, "with")):
        low, middle, high = statistics.quantiles(times[is_traced][1:], n=4)
        print(f"{name} a trace: {middle:.2f} ms of processor time a step (quartiles {low:.2f}, "
              f"{high:.2f}), {statistics.median(passed[is_traced][1:]):.2f} ms passed")
    without, with_ = (statistics.median(times[key][1:]) for key in (False, True))
    print(f"overhead: {with_ - without:.2f} ms, {100 * (with_ / without - 1):.1f}%")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", metavar="FILE", help="write a trace there, a new file")
    parser.add_argument("--full-every", type=int, default=0, metavar="N")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--sequences", type=int, default=8)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--twin", type=int, metavar="SEED", help="draw all rounding again")
    parser.add_argument("--fsdp", action="store_true", help="under torchrun: in shards")
    parser.add_argument("--audit", action="store_true", help="judge the calls of one step")
    parser.add_argument("--overhead", action="store_true", help="measure what the trace costs")
    options = parser.parse_args()
    options.rank, options.ranks = (int(os.environ.get(word, default)) for word, default in
                                   (("RANK", 0), ("WORLD_SIZE", 1)))
    if options.ranks > 1:
        is_cuda = options.device == "cuda"
        if is_cuda:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl" if is_cuda else "gloo")
    if options.audit:
        return audit(options)
    (overhead if options.overhead else train)(options)
    if options.ranks > 1:
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except opbound.Error as error:
        sys.exit(f"train.py: {error}")
