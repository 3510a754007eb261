"""Where targets refuse us, waiting doesn't help: that is told apart from targets that may come back."""

from collections.abc import Iterable

from ckptstore.errors import AccessDenied, TargetError

DENIED = "check the credentials in the environment, or owner, mode and mount of the directories; then: ckpt doctor"
"""What to do where several targets refuse, whatever kind they are of."""

__all__ = ["DENIED", "denied"]


def denied(message: str, failed: Iterable[TargetError]) -> AccessDenied | None:
    """The error for what can't be done because targets refuse it. None where none does, or another failure may pass."""
    errors = list(failed)
    refusals = [error for error in errors if isinstance(error, AccessDenied)]
    if not refusals or any(error.transient for error in errors):
        return None
    hints = {error.hint for error in refusals}
    hint = refusals[0].hint if len(hints) == 1 else None
    return AccessDenied(message, target=", ".join(error.target for error in refusals), hint=hint or DENIED)
