"""One `validate` for every document, and what this release does not understand of it."""

from manifests import checks
from manifests.errors import NotUnderstood
from manifests.index_rules import check_index
from manifests.manifest_rules import (
    MANIFEST_KINDS,
    MARK_KINDS,
    check_begun,
    check_identity,
    check_manifest,
    check_mark,
    check_session,
    check_standing,
)
from manifests.record_rules import check_record
from manifests.schema import Begun, Identity, Index, Manifest, Mark, Session, ShardRecord, Standing
from manifests.stored import UNDERSTOOD, Document


def validate(document: Document) -> None:
    """Raise the FormatError that names the first rule of docs/format.md that `document` breaks."""
    checks.number(document.format[1], "format[1]", high=999)
    checks.unique(document.requires, "requires")
    match document:
        case Manifest():
            check_manifest(document)
        case Mark():
            check_mark(document)
        case ShardRecord():
            check_record(document, understood=not not_understood(document))
        case Index():
            check_index(document)
        case Session():
            check_session(document)
        case Begun():
            check_begun(document)
        case Identity():
            check_identity(document)
        case Standing():
            check_standing(document, understood=not not_understood(document))


def not_understood(document: Document) -> list[str]:
    """Return the features and kinds of a newer release that `document` uses; empty if it may be acted on."""
    unknown = [name for name in document.requires if name not in UNDERSTOOD]
    match document:
        case Manifest(kind=kind) if kind not in MANIFEST_KINDS:
            unknown.append(f"manifest kind {kind}")
        case Mark(kind=kind) if kind not in MARK_KINDS:
            unknown.append(f"mark kind {kind}")
    return unknown


def check_understood(document: Document) -> None:
    """Raise NotUnderstood if nothing may be written, pruned or trusted because of `document`."""
    if unknown := not_understood(document):
        message = f"this release does not know {', '.join(unknown)}: upgrade ckptstore before changing this run"
        raise NotUnderstood(message, unknown=unknown)
