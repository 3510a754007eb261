"""PyTorch Distributed Checkpoint on this store: planners, writer and reader."""

__all__: list[str] = []
