"""Protocol operations that are run one request at a time, in any order, with any fault."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from manifests.errors import ManifestError, Unavailable
from manifests.registers import Batch, Reply, Steps, perform
from manifests.testing import MemoryRegister

Fault = Literal["none", "fails", "lost", "late"]


class Operation:
    """Steps under way. `result` or `error` is set when they have ended."""

    def __init__(self, steps: Steps[Any], registers: Mapping[str, MemoryRegister]) -> None:
        self._steps = steps
        self._registers = registers
        self._replies: list[list[Reply]] = []
        self._batch = Batch(())
        self.ended = False
        self.result: Any = None
        self.error: ManifestError | None = None
        self._go(lambda: next(steps))

    def step(self, pick: int, fault: Fault = "none") -> None:
        """Perform the next request of one of the open lanes, chosen by `pick`."""
        lanes = [i for i, lane in enumerate(self._batch.lanes) if len(self._replies[i]) < len(lane)]
        i = lanes[pick % len(lanes)]
        lane = self._batch.lanes[i]
        request = lane[len(self._replies[i])]
        register = self._registers.get(request.target)
        if register is not None and fault != "none":
            _arm(register, fault, putting=request.verb not in {"get", "list"})
        try:
            self._replies[i].append(perform(request, self._registers))
        except Unavailable as error:
            self._replies[i] += [error] * (len(lane) - len(self._replies[i]))
        finally:
            if register is not None:
                _disarm(register)
        if all(len(replies) == len(lane) for replies, lane in zip(self._replies, self._batch.lanes, strict=True)):
            answered = self._replies
            self._go(lambda: self._steps.send(answered))

    def finish(self) -> "Operation":
        """Perform all that is left, without new faults."""
        while not self.ended:
            self.step(0)
        return self

    def _go(self, step: Callable[[], Batch]) -> None:
        try:
            self._batch = step()
            while not self._batch.lanes:
                self._batch = self._steps.send(())
            self._replies = [[] for _ in self._batch.lanes]
        except StopIteration as stop:
            self.ended, self.result = True, stop.value
        except ManifestError as error:
            self.ended, self.error = True, error


def _arm(register: MemoryRegister, fault: Fault, *, putting: bool) -> None:
    if fault == "fails" or not putting:
        register.failing = True
    elif fault == "lost":
        register.lose_after = 1
    else:
        register.hold_late = True


def _disarm(register: MemoryRegister) -> None:
    register.failing = False
    register.lose_after = 0
    register.hold_late = False


def run(steps: Steps[Any], registers: Mapping[str, MemoryRegister]) -> Any:
    """Run steps to their end in this thread; return their result or raise their error."""
    operation = Operation(steps, registers).finish()
    if operation.error is not None:
        raise operation.error
    return operation.result
