"""Who is told what this process does: observers of all of its work and requests, beside one that a caller may give.

`work` tells of pieces of work, `targets.observed` of requests. Every opening of a directory imports this: nothing else.
"""

from ckptstore.events import Event, Observer

_LISTENERS: list[Observer] = []

__all__ = ["is_listened_to", "is_listening", "subscribe", "tell", "tell_one", "unsubscribe"]


def subscribe(observer: Observer) -> None:
    """Tell `observer` from now on of everything this process does, in all of its stores."""
    _LISTENERS.append(observer)


def unsubscribe(observer: Observer) -> None:
    """Tell it no more. One that isn't listening is left as it is."""
    if observer in _LISTENERS:
        _LISTENERS.remove(observer)


def is_listening(observer: Observer) -> bool:
    """Whether `tell` tells it."""
    return observer in _LISTENERS


def is_listened_to() -> bool:
    """Whether anybody listens: an event for nobody needn't be made."""
    return bool(_LISTENERS)


def tell(event: Event) -> None:
    """Tell all listeners. One that raises is told no more: a save must not fail of being watched."""
    for listener in tuple(_LISTENERS):
        if not tell_one(listener, event):
            unsubscribe(listener)


def tell_one(listener: Observer, event: Event) -> bool:
    """Tell one observer; False, and a word in the log, where it raises."""
    try:
        listener(event)
    except Exception as error:  # noqa: BLE001 - what it raises is no failure of the work
        _complain(listener, event, error)
        return False
    return True


def _complain(listener: Observer, event: Event, error: Exception) -> None:
    import logging

    from ckptstore.redaction import redacted

    about = f"{type(error).__name__} at {type(event).__name__}: {redacted(str(error))}"
    logging.getLogger("ckptstore").error("%r raised %s", listener, about)
