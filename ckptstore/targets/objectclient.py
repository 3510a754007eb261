"""obstore's client for one bucket: made by the first request, bounded in time, never carried across a fork."""

import os
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from obstore.store import AzureStore, GCSStore, S3Store

from ckptstore.errors import ForkedClient
from ckptstore.targets.options import LOOPBACK, Options, check_environment, credentials_now

if TYPE_CHECKING:
    from obstore.store import AzureConfig, ClientConfig, GCSConfig, RetryConfig

__all__ = ["Client", "Store"]

Store = S3Store | GCSStore | AzureStore


@dataclass
class _Runtime:
    """The process in which obstore's threads were started.

    They don't survive a fork, and can't be started again: every call in the child, by an old client or a new
    one, would wait for ever (measured with obstore 0.12).
    """

    pid: int | None = None


_runtime = _Runtime()


class Client:
    """Two clients of one bucket that differ in patience.

    obstore's `read_timeout` counts from the start of a request, body included, to the answer (measured: a
    body that goes out steadily for longer is cut off). So a large body goes by the one whose only bound is
    `timeout`; everything else by the one that gives up after `read_timeout` seconds of silence.

    They read the environment once. Where it holds other credentials than then, new ones are made: a token that was
    renewed there is used from the next request on. obstore renews a machine role's by itself.
    """

    def __init__(self, name: str, scheme: str, bucket: str, options: Options) -> None:
        self._name, self._scheme, self._bucket, self._options = name, scheme, bucket, options
        self._lock = threading.Lock()
        self._made: tuple[Store, Store] | None = None
        self._made_with: tuple[str | None, ...] = ()

    def brisk(self) -> Store:
        """The client for small bodies and all reads. Raises `ForkedClient`, `AccessDenied`, and what obstore raises."""
        return self._stores()[0]

    def patient(self) -> Store:
        """The client for large bodies. Raises as `brisk` does."""
        return self._stores()[1]

    def close(self) -> None:
        """Drop both."""
        self._made = None

    def _stores(self) -> tuple[Store, Store]:
        if _runtime.pid not in {None, os.getpid()}:
            message = f"{self._name}: this process was forked from {_runtime.pid}, which had used object stores"
            hint = "start workers by spawn or forkserver (multiprocessing.set_start_method), and open the store in them"
            raise ForkedClient(message, hint=hint, target=self._name)
        check_environment(self._name, self._scheme)
        with self._lock:
            credentials = credentials_now()
            if self._made is None or self._made_with != credentials:
                _runtime.pid = os.getpid()
                self._made_with = credentials
                self._made = self._make(self._options.read_timeout), self._make(self._options.timeout)
            return self._made

    def _make(self, silence: float) -> Store:
        options = self._options
        client: ClientConfig = {
            "connect_timeout": timedelta(seconds=options.connect_timeout),
            "read_timeout": timedelta(seconds=silence),
            "timeout": timedelta(seconds=options.timeout),
            "allow_http": (options.endpoint or "").startswith("http://"),
        }
        retry: RetryConfig = {"max_retries": 0, "retry_timeout": timedelta(seconds=options.timeout)}
        if self._scheme == "gs":
            base: GCSConfig = {"base_url": options.endpoint} if options.endpoint else {}
            return GCSStore(self._bucket, config=base, client_options=client, retry_config=retry)
        if self._scheme == "az":
            endpoint: AzureConfig = {"endpoint": options.endpoint} if options.endpoint else {}
            return AzureStore(self._bucket, config=endpoint, client_options=client, retry_config=retry)
        place = {key: value for key in ("endpoint", "region") if (value := getattr(options, key))}
        unsigned = not _wants_signature(options)
        return S3Store(self._bucket, client_options=client, retry_config=retry, unsigned_payload=unsigned, **place)


def _wants_signature(options: Options) -> bool:
    """Whether bodies are signed, which takes 0.65 CPU-s per GiB (measured).

    Digests guard them anyway; on a bare wire the signature also keeps a stranger from replacing them.
    """
    if options.signed_payload is not None:
        return options.signed_payload
    endpoint = options.endpoint or "https://"
    return not endpoint.startswith(("https://", *LOOPBACK))
