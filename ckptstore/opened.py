"""A store opened in this process: its targets, threads and buffers, and the commit group over them.

Made lazily and only in the process that uses it: clients, threads and locks are never carried across a fork or
a pickle. Whoever must be picklable holds a `Config` and calls `shared`.
"""

import atexit
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import msgspec

import manifests
from ckptstore.config import Config, check_config
from ckptstore.ending import check_not_ending
from ckptstore.errors import (
    ForkedClient,
    NoSpace,
    StoreClosed,
    TargetError,
    TargetUnavailable,
    ToleranceError,
)
from ckptstore.identity import why_no_puts, why_not
from ckptstore.placement import Place, Survives, place_stripe, survives
from ckptstore.protocolerrors import protocol_errors
from ckptstore.refusals import denied
from ckptstore.sessions import Sessions
from ckptstore.targets import Target, TargetRegister, check_apart, open_target
from manifests import paths

if TYPE_CHECKING:
    from ckptstore.buffers import BufferPool
    from ckptstore.load.patience import Patience

THREADS = 16  # requests in flight per process: two dozen 16 MiB fragments fill the default window

JOB = paths.new_token()[:16]
"""This job, for the sessions it opens. Whoever hands work to another process hands its own along."""

T = TypeVar("T")
P = ParamSpec("P")

__all__ = ["JOB", "Opened", "release", "shared"]


class Opened:
    """What an open store holds. Thread-safe; `close` it, or let the interpreter's exit do so."""

    def __init__(self, config: Config) -> None:
        check_apart(config)
        self.config = config
        self.targets: Mapping[str, Target] = {
            spec.name: open_target(spec.name, spec.url, options=spec.options, folder=config.folder)
            for spec in config.targets
        }
        self.domains = {place.target: place.domain for place in config.places}
        self.executor: Executor = _Threads(THREADS, thread_name_prefix="ckptstore")
        """The threads that wait for targets; none is started before there is something to wait for."""
        self._buffers: BufferPool | None = None
        self._pid = os.getpid()
        self.sessions = Sessions(lambda: self.group)
        self._tried: set[str] = set()
        self._lock = threading.Lock()

    @property
    def buffers(self) -> "BufferPool":
        """The window's stripe buffers. numpy is imported with them: looking at manifests needs neither."""
        from ckptstore.buffers import BufferPool

        with self._lock:
            if self._buffers is None:
                self._buffers = BufferPool(self.config.window_bytes)
            return self._buffers

    @cached_property
    def patience(self) -> "Patience":
        """How long reads of this store have taken, over all of its loads."""
        from ckptstore.load.patience import Patience

        return Patience()

    def check_process(self) -> None:
        """Raise `ForkedClient` in a child that a fork gave this object to."""
        if os.getpid() != self._pid:
            message = f"store {self.config.name} was opened in process {self._pid} and used in {os.getpid()}"
            raise ForkedClient(message, hint="open the store in the child, or start it by spawn or forkserver")

    @cached_property
    def group(self) -> manifests.Group:
        """The commit targets as one group. Raises `manifests.NoQuorum`, `manifests.NotAStore`."""
        self.check_process()
        registers = [TargetRegister(self.targets[spec.name]) for spec in self.config.targets if spec.commit]
        return manifests.Group.open(registers)

    @property
    def places(self) -> list[Place]:
        """Where what is stored is to be: all targets of the config but those that another has taken the place of.

        Such a one may still hold what was put there before; nothing more is put there.
        """
        members = self.group.members.targets
        gone = {spec.name for spec in self.config.targets if spec.commit and spec.name not in members}
        return [place for place in self.config.places if place.target not in gone]

    def writable(self) -> tuple[list[Place], dict[str, TargetError]]:
        """The targets that answer as the ones they should be, in the order of the config, and why others don't."""
        with protocol_errors():
            store_id = self.group.store_id
        answers = self.on_targets(lambda target: why_not(target, store_id))
        failed = {name: error for name, error in answers.items() if error is not None}
        return [place for place in self.places if place.target not in failed], failed

    def ready_to_save(self) -> list[Place]:
        """The targets to save onto, each of which has been asked once whether it takes puts.

        Raises `ToleranceError`, naming each target that doesn't and why.
        """
        places, failed = self.writable()
        self.require(places, failed)
        refusals = self.refusals([place.target for place in places])
        places = [place for place in places if place.target not in refusals]
        self.require(places, {**failed, **refusals})
        return places

    def refusals(self, names: Iterable[str]) -> dict[str, TargetError]:
        """Which of the targets named take no puts, and why; those that took one before aren't asked again."""
        store_id = self.group.store_id
        voters = {spec.name for spec in self.config.targets if spec.commit}
        asked = [name for name in names if name not in self._tried]
        replies = self.on_targets(lambda target: why_no_puts(target, store_id, votes=target.name in voters), asked)
        self._tried |= {name for name, reply in replies.items() if reply is None}
        return {name: reply for name, reply in replies.items() if reply is not None}

    def reachable_tolerance(self, places: Sequence[Place]) -> Survives:
        """What a shard placed on `places` survives."""
        homes = [places[i].target for i in place_stripe("", 0, self.config.k + self.config.m, places)] if places else []
        return survives(homes, self.config.k, self.domains)

    def votes_survive(self, counting: Iterable[str] | None = None) -> Survives:
        """How many targets may be lost with commit targets enough left to find what is stored: R = N - t of them.

        `counting`: the commit targets that count now; all of them unless told.
        """
        members = self.group.members
        names = members.targets if counting is None else set(members.targets) & set(counting)
        return survives(names, len(members.targets) - members.t, self.domains)

    def require(self, places: list[Place], failed: Mapping[str, TargetError]) -> None:
        """Raise `ToleranceError` unless what is saved onto `places` survives what `require_tolerance` asks.

        `AccessDenied` where targets refuse us, and those that may come back would not be enough.
        """
        reached, required = self.reachable_tolerance(places).targets, self.config.require_tolerance
        if reached < required:
            causes = "; ".join(error.message for error in failed.values())
            kept = f"survives the loss of {reached}" if reached >= 0 else "can't be kept"
            message = (
                f"{len(places)} of {len(self.targets)} targets are writable: code {self.config.code} on them {kept}, "
                f"require_tolerance asks for the loss of {required} ({causes})"
            )
            passing = {name for name, error in failed.items() if error.transient or isinstance(error, NoSpace)}
            back = [place for place in self.config.places if place in places or place.target in passing]
            lasting = self.reachable_tolerance(back).targets < required
            if lasting and (refusal := denied(message, [failed[name] for name in failed.keys() - passing])):
                raise refusal
            fields = {"reached": reached, "required": required, "lasting": lasting}
            raise ToleranceError(message, hint="run: ckpt doctor", **fields)

    def on_targets(self, ask: Callable[[Target], T], names: Iterable[str] | None = None) -> dict[str, T | TargetError]:
        """What `ask` gives for each target, or why it fails there; all are asked at once.

        A target that store.toml doesn't list is out of reach: it may hold what it always held.
        """
        self.check_process()
        chosen = list(self.targets if names is None else names)
        replies = self.executor.map(lambda name: _reply(ask, name, self.targets.get(name)), chosen)
        return dict(zip(chosen, replies, strict=True))

    def close(self, *, wait: bool = True) -> None:
        """Release threads, once they are through with what they were given if `wait`, and clients."""
        if os.getpid() == self._pid:
            self.executor.shutdown(wait=wait)
            for target in self.targets.values():
                target.close()


class _Threads(ThreadPoolExecutor):
    def submit(self, function: Callable[P, T], /, *args: P.args, **named: P.kwargs) -> Future[T]:
        """As every executor's. Raises `StoreClosed` where another thread has shut this one down."""
        try:
            return super().submit(function, *args, **named)
        except RuntimeError as error:
            message = "the store was closed by another thread in the middle of work"
            raise StoreClosed(message, hint="close the store when loads and saves are through") from error


def _reply(ask: Callable[[Target], T], name: str, target: Target | None) -> T | TargetError:
    if target is None:
        return TargetUnavailable(f"{name} is not among the store's targets", target=name)
    try:
        return ask(target)
    except TargetError as error:
        return error


_SHARED: dict[tuple[int, bytes], Opened] = {}
_SHARED_LOCK = threading.Lock()


def shared(config: Config) -> Opened:
    """This process's open store for these settings: opened once, closed by `release` or at exit."""
    check_config(config)
    check_not_ending()
    with _SHARED_LOCK:
        key = _key(config)
        if key not in _SHARED:
            _SHARED[key] = Opened(config)
        return _SHARED[key]


def release(config: Config) -> None:
    """Close this process's open store for these settings, if there is one."""
    with _SHARED_LOCK:
        opened = _SHARED.pop(_key(config), None)
    if opened is not None:
        opened.close()


def _key(config: Config) -> tuple[int, bytes]:
    return os.getpid(), msgspec.json.encode(config)


@atexit.register
def _close_all() -> None:
    for opened in _SHARED.values():
        opened.close(wait=False)  # where threads had to be waited for, the interpreter has done so by now


def _new_lock() -> None:
    """In a forked child: another thread of the parent may have held the lock, and isn't here to let go of it."""
    global _SHARED_LOCK  # noqa: PLW0603
    _SHARED_LOCK = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)
