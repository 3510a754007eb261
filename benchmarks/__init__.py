"""Measurements beside what a user would pick instead: `python -m benchmarks` runs them all, see docs/performance.md."""
