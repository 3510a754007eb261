"""Checkpoints of other tools, in and out: Hugging Face folders, DCP folders, torch files, DeepSpeed's universal ones.

`importing` and `exporting` choose by format. `torch` is imported by the modules named `torch_…` only, and by these two
when one of those is needed.
"""
