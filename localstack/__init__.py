"""Object-store servers on 127.0.0.1 for tests, the demo and drills, started from Python wheels, without Docker."""

__all__ = ["faults", "faulty", "process", "servers"]
