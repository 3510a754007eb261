"""`ckpt://`: runs of a store as an fsspec file system, for code that knows paths only (docs/filesystem.md)."""

from ckptstore.filesystem.spec import CheckpointFileSystem

__all__ = ["CheckpointFileSystem"]
