"""PyTorch's row kernels, eager and compiled, on what rows.cu gives ours: 8192 rows of 4096 numbers
in bf16. Prints milliseconds, the fastest of five times twenty launches."""

import torch
from torch.nn import functional


def fastest_ms(run, launches=20):
    for _ in range(3):
        run()
    best = float("inf")
    for _ in range(5):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(launches):
            run()
        end.record()
        end.synchronize()
        best = min(best, begin.elapsed_time(end) / launches)
    return best


def main():
    n = 4096
    x = torch.randn(8192, n, device="cuda", dtype=torch.bfloat16)
    weight, bias = (torch.randn(n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    kernels = {
        "softmax": lambda x: torch.softmax(x, -1),
        "layer_norm": lambda x: functional.layer_norm(x, (n,), weight, bias, 1e-5),
        "rms_norm": lambda x: functional.rms_norm(x, (n,), weight, 1e-5),
    }
    for name, kernel in kernels.items():
        print(f"PyTorch {torch.__version__} {name} eager {fastest_ms(lambda: kernel(x)):.4f} ms")
        try:
            compiled = torch.compile(kernel)
            print(f"PyTorch {torch.__version__} {name} compiled "
                  f"{fastest_ms(lambda: compiled(x)):.4f} ms")
        except Exception as error:  # a machine without the compiler's needs
            print(f"PyTorch {torch.__version__} {name} compiled: skipped: {error!r:.200}")


if __name__ == "__main__":
    main()
