"""The demo: a training run loses a rank, targets and bits, and goes on bit-equal to one that lost nothing.

`scenario` is the play, step by step; `train` is what runs under torchrun. `make demo` and `ckpt demo` run it.
"""

__all__: list[str] = []
