"""Options of a target: what `store.toml` may say about how it is reached. Never a secret."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ckptstore.errors import AccessDenied, ConfigError
from ckptstore.redaction import CREDENTIALS
from ckptstore.targets.retry import DEADLINE

__all__ = ["KINDS", "LOOPBACK", "Options", "check_environment", "check_options", "credentials_now", "refuse_secrets"]

LOOPBACK = ("http://127.", "http://localhost", "http://[::1]")
KINDS = ("file", "memory", "obstore", "fsspec")
SECRET = re.compile(
    r"secret|password|passwd|token|credential|access_?key|account_?key|api_?key|private|sas|^key$|signature",
    re.IGNORECASE,
)
ENVIRONMENT = (
    "give credentials by environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS, "
    "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY), by profile or by the machine's role"
)


ROTATING = (*CREDENTIALS, "GOOGLE_APPLICATION_CREDENTIALS")
"""Credentials that a job may put new ones in the place of while it runs: session tokens last an hour or a day."""

SENT = (*CREDENTIALS, "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AZURE_STORAGE_ACCOUNT_NAME")
"""What becomes part of a request's headers or address."""

SERVICES = {"s3": "AWS_", "s3a": "AWS_", "az": "AZURE_", "abfs": "AZURE_", "abfss": "AZURE_"}
UNSENDABLE = re.compile(r"[\x00-\x1f\x7f]")


def credentials_now() -> tuple[str | None, ...]:
    """The credentials that the environment holds, for a client to see whether it was made with others."""
    return tuple(map(os.environ.get, ROTATING))


def check_environment(name: str, scheme: str) -> None:
    """Raise `AccessDenied` for target `name` where a variable that its service reads holds a control character.

    No header can carry one: most often a newline that a file ended in. Clients tell nothing of it, or crash.
    """
    wanted = SERVICES.get(scheme)
    if wanted is None:
        return
    bad = [key for key in SENT if key.startswith(wanted) and UNSENDABLE.search(os.environ.get(key, ""))]
    if bad:
        message = f"{name}: {' and '.join(bad)} in the environment: a newline or another control character is in it"
        hint = "set it again without: from a file, $(cat FILE) leaves out the newline that the file ends in"
        raise AccessDenied(message, target=name, hint=hint)


@dataclass(frozen=True)
class Options:
    """Checked options, as docs/configuration.md lists them. Times in seconds.

    The bounds are what a request needs on a loaded machine, not what a good day gives: `connect_timeout` for
    the connection, `read_timeout` for silence, `timeout` for the whole request with its body.
    """

    kind: str
    deadline: float = DEADLINE
    endpoint: str | None = None
    region: str | None = None
    signed_payload: bool | None = None
    fsync: bool = True
    connect_timeout: float = 1.0
    read_timeout: float = 5.0
    timeout: float = 30.0
    filesystem: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rule:
    """What one option may be."""

    kinds: tuple[str, ...]
    types: tuple[type, ...]
    allowed: str
    check: re.Pattern[str] | None = None


SECONDS = "a number of seconds above 0"
RULES = {
    "client": Rule(
        ("obstore", "fsspec", "file", "memory"), (str,), '"obstore" or "fsspec"', re.compile("obstore|fsspec")
    ),
    "deadline": Rule(KINDS, (int, float), SECONDS),
    "endpoint": Rule(
        ("obstore", "fsspec"), (str,), '"http://host:port" or "https://…"', re.compile(r"https?://[^/?#@]+/?")
    ),
    "region": Rule(("obstore", "fsspec"), (str,), 'a region\'s name, as in "us-east-1"', re.compile("[a-z0-9-]+")),
    "signed_payload": Rule(("obstore",), (bool,), "true or false"),
    "fsync": Rule(("file",), (bool,), "true or false"),
    "connect_timeout": Rule(("obstore", "fsspec"), (int, float), SECONDS),
    "read_timeout": Rule(("obstore", "fsspec"), (int, float), SECONDS),
    "timeout": Rule(("obstore", "fsspec"), (int, float), SECONDS),
    "filesystem": Rule(("fsspec",), (dict,), "a table of arguments for the fsspec filesystem"),
}

AZURE_ENDPOINT = Rule(
    RULES["endpoint"].kinds,
    (str,),
    '"https://…" or, for an emulator, "http://host:port/account"',
    re.compile(r"https?://[^/?#@]+(/[a-z0-9]*)?"),
)


def check_options(name: str, kind: str, options: Mapping[str, Any], scheme: str = "") -> Options:
    """`options` of target `name`, checked. Raises `ConfigError` naming the key and what is allowed."""
    if kind not in KINDS:
        allowed = "a path, file://, s3://, gs://, az://, memory:// or fsspec+<scheme>://"
        raise ConfigError(
            f"targets.{name}.url: scheme {kind}:// is not known; allowed: {allowed}",
            key=f"targets.{name}.url",
        )
    for key, value in options.items():
        rule = AZURE_ENDPOINT if (key, SERVICES.get(scheme)) == ("endpoint", "AZURE_") else RULES.get(key)
        if rule is None or kind not in rule.kinds:
            allowed = ", ".join(sorted(key for key, rule in RULES.items() if kind in rule.kinds))
            message = f"targets.{name}.options.{key}: no such option of a {kind} target; allowed: {allowed}"
            raise ConfigError(message, key=f"targets.{name}.options.{key}")
        if not _fits(rule, value):
            message = f"targets.{name}.options.{key} = {value!r}: {rule.allowed} is wanted"
            raise ConfigError(message, key=f"targets.{name}.options.{key}")
    return Options(kind, **{key: value for key, value in options.items() if key != "client"})


def refuse_secrets(name: str, url: str, options: Mapping[str, Any]) -> None:
    """Raises `ConfigError` where a URL or an option could hold a secret. The message never repeats it."""
    if "://" in url and "@" in url.partition("://")[2].partition("/")[0]:
        key = f"targets.{name}.url"
        raise ConfigError(
            f"{key} holds a user or password before '@'; a store file never does", key=key, hint=ENVIRONMENT
        )
    for key, value in options.items():
        if SECRET.search(key):
            _refuse(name, key)
        if isinstance(value, Mapping):
            refuse_secrets(f"{name}.options", "", value)
        elif isinstance(value, str) and "://" in value and _has_userinfo_or_query(value):
            _refuse(name, key)


def _refuse(name: str, key: str) -> None:
    where = f"targets.{name}.options.{key}"
    raise ConfigError(f"{where} looks like a secret; a store file never holds one", key=where, hint=ENVIRONMENT)


def _has_userinfo_or_query(url: str) -> bool:
    host = url.partition("://")[2].partition("/")[0]
    return "@" in host or "?" in url


def _fits(rule: Rule, value: object) -> bool:
    if not isinstance(value, rule.types) or (isinstance(value, bool) and bool not in rule.types):
        return False
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value > 0
    return rule.check is None or (isinstance(value, str) and rule.check.fullmatch(value) is not None)
