"""What must not be repeated of text that others wrote: a client's error may hold a URL with a password or a signature.

Our own settings hold no secret (`targets.options.refuse_secrets`); the environment does, and clients quote it.
"""

import os
import re

__all__ = ["CREDENTIALS", "redacted", "tellable"]

CREDENTIALS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
)
"""Variables whose very values are secrets."""

USERINFO = re.compile(r"(?<=://)[^\s\"'<>]*@")  # to the last `@`: where nobody encoded it, a password may hold `/`, `@`
QUERY = re.compile(r"(://[^\s\"'<>?]*\?)[^\s\"'<>)]+")
TELLING = 8  # characters from which on a value is no word that stands in a message by chance


def redacted(text: str) -> str:
    """`text` with `…` for the user and password of every URL, for its query, and for a credential's value."""
    for value in map(os.environ.get, CREDENTIALS):
        if value and len(value) >= TELLING:
            text = text.replace(value, "…")
    return QUERY.sub(r"\1…", USERINFO.sub("…@", text))


def tellable(error: BaseException) -> BaseException | None:
    """`error` as the cause of one of ours; None where its text, or that of what caused it, holds what must not be told.

    An exception that nobody catches is printed with all its causes.
    """
    cause: BaseException | None = error
    while cause is not None:
        if redacted(str(cause)) != str(cause):
            return None
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return error
