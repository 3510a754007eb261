"""Object-store servers on 127.0.0.1 for tests, the demo and drills, started from Python wheels, without Docker.

From a shell: `python -m localstack up --seaweed 3 --gcs 1 --buckets 2`.
"""

__all__ = ["azurite", "domains", "faults", "faulty", "process", "servers"]
