"""Pages for people, each complete in itself: nothing is fetched, no script runs, all is escaped."""

from ckptstore.operations.pages.parts import (
    TONES,
    bars,
    command,
    frame,
    resource,
    sentence,
    table,
    tag,
    text,
)

__all__ = ["TONES", "bars", "command", "frame", "resource", "sentence", "table", "tag", "text"]
