"""Tokens a second of PyTorch on the run of suites/training/gpt2-124m.toml: the same model, batch,
optimizer and clipping, bf16 by autocast, eager and compiled.

    python3 tests/benchmarks/training.py [--steps N] [--eager]

Beside it, in the same minutes:  opbound train suites/training/gpt2-124m.toml --device cuda
--policy bf16-fast --steps N --log FILE.jsonl
"""
import argparse
import pathlib
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY, SEQUENCES = 12, 12, 768, 1024, 50304, 32
TEXT = pathlib.Path(__file__).resolve().parents[2] / "suites" / "training" / "text.txt"


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.c_fc, self.out = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, _ = x.shape
        heads = [part.view(b, t, HEADS, WIDTH // HEADS).transpose(1, 2)
                 for part in self.c_attn(self.ln_1(x)).split(WIDTH, dim=2)]
        y = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.out(functional.gelu(self.c_fc(self.ln_2(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(CONTEXT, device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.ln_f(x), self.wte.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def measured(steps, is_compiled):
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), fused=True)
    run = torch.compile(model) if is_compiled else model
    text = torch.tensor(list(TEXT.read_bytes()), device="cuda")
    times, loss = [], None
    torch.cuda.reset_peak_memory_stats()
    for _ in range(steps):
        first = torch.randint(len(text) - CONTEXT - 1, (SEQUENCES, 1), device="cuda")
        rows = text[first + torch.arange(CONTEXT + 1, device="cuda")]
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    later = times[len(times) // 2:]
    print(f"torch {torch.__version__} {'compiled' if is_compiled else 'eager'}: "
          f"{SEQUENCES * CONTEXT / statistics.median(later):.0f} tokens/s, "
          f"{1e3 * statistics.median(later):.1f} ms a step, "
          f"{torch.cuda.max_memory_allocated() / 2 ** 20:.0f} MiB, loss {loss.item():.3f}",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--eager", action="store_true", help="not compiled only")
    options = parser.parse_args()
    measured(options.steps, False)
    if not options.eager:
        measured(options.steps, True)


if __name__ == "__main__":
    main()
