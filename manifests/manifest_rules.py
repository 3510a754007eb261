"""The rules of what counts on a commit target: manifests, marks, sessions, standings."""

from manifests import checks, paths
from manifests.errors import shown
from manifests.format_errors import UnsafeName
from manifests.schema import Begun, Identity, Manifest, Mark, Members, Reference, Session, Standing

MANIFEST_KINDS = ("save", "repair", "copy", "void")
MARK_KINDS = ("delete", "undelete", "tag", "untag", "collect")

MAX_DOCUMENT_BYTES = 512 << 20
"""Largest document written or read: twice the record of a shard with the largest safetensors header."""


def check_manifest(manifest: Manifest) -> None:
    """Require a whole manifest; of a kind that is unknown here, what all kinds have in common."""
    checks.name(paths.check_run, manifest.run, "run")
    checks.save(manifest.session, manifest.ordinal, "")
    checks.number(manifest.version, "version", 1, paths.MAX_NUMBER)
    checks.number(manifest.world, "world")
    checks.number(manifest.bytes, "bytes")
    if manifest.step is not None:
        checks.number(manifest.step, "step")
    for field, tolerance in (("tolerance", manifest.tolerance), ("planned", manifest.planned)):
        if tolerance is not None:
            checks.number(tolerance.targets, f"{field}.targets")
            checks.number(tolerance.domains, f"{field}.domains")
    checks.json_value(manifest.user, "user")
    _check_missing(manifest)
    _check_copies(manifest)
    for i, (session, ordinal) in enumerate(manifest.uses):
        checks.save(session, ordinal, f"uses[{i}].")
    if manifest.kind in MANIFEST_KINDS:
        _check_kind(manifest)


def _check_missing(manifest: Manifest) -> None:
    checks.labels([missing.target for missing in manifest.missing], "missing.target")
    for i, missing in enumerate(manifest.missing):
        checks.number(missing.fragments, f"missing[{i}].fragments")
        checks.number(missing.records, f"missing[{i}].records")


def _check_copies(manifest: Manifest) -> None:
    checks.labels([copy.tier for copy in manifest.copies], "copies.tier")
    for i, copy in enumerate(manifest.copies):
        field = f"copies[{i}].index."
        check_reference(copy.index, "index", field)
        if copy.index.path.split("/")[1] != manifest.run:
            message = f"{field}path {shown(copy.index.path)} is not of run {manifest.run}"
            raise UnsafeName(message, field=f"{field}path", name=copy.index.path)


def _check_kind(manifest: Manifest) -> None:
    first = manifest.kind in {"save", "void"}
    checks.value(manifest.version == 1, [first], f"version {manifest.version} of kind {manifest.kind}: being first")
    if manifest.kind == "void":
        checks.count(len(manifest.copies), 0, "copies")
    else:
        checks.number(len(manifest.copies), "copies", 1)
        checks.present(manifest.tolerance, "tolerance", "there is data")


def check_reference(reference: Reference, folder: str, field: str) -> None:
    """Require a reference to `runs/<run>/<folder>/<id>` that is small enough to be read."""
    match reference.path.split("/"):
        case ["runs", run, found, random] if found == folder:
            checks.name(paths.check_run, run, f"{field}path")
            checks.name(paths.check_token, random, f"{field}path")
        case _:
            message = f"{field}path {shown(reference.path)} is not runs/<run>/{folder}/<id>"
            raise UnsafeName(message, field=f"{field}path", name=reference.path)
    checks.number(reference.size, f"{field}size", 1, MAX_DOCUMENT_BYTES)
    checks.number(reference.raw_size, f"{field}raw_size", 1, MAX_DOCUMENT_BYTES)
    checks.sha256(reference.sha256, f"{field}sha256")
    checks.labels(reference.targets, f"{field}targets")
    checks.number(len(reference.targets), f"{field}targets", 1)


def check_mark(mark: Mark) -> None:
    """Require a whole mark; of a kind that is unknown here, what all kinds have in common."""
    checks.save(*mark.of, "of.")
    if mark.undoes is not None:
        checks.name(paths.check_token, mark.undoes, "undoes")
    if mark.tag is not None:
        checks.name(paths.check_label, mark.tag, "tag")
    match mark.kind:
        case "delete":
            checks.absent(mark.tag, "tag", "a deletion has none")
        case "undelete":
            checks.present(mark.undoes, "undoes", "an undelete names the mark it undoes")
        case "collect":
            checks.present(mark.undoes, "undoes", "a collector names the delete mark that it carries out")
        case "tag":
            checks.present(mark.tag, "tag", "a tag has a name")


def check_session(session: Session) -> None:
    """Require a session that can be part of object names."""
    checks.name(paths.check_session, session.session, "session")


def check_begun(begun: Begun) -> None:
    """Require the name of a save."""
    checks.save(begun.session, begun.ordinal, "")


def check_identity(identity: Identity) -> None:
    """Require names."""
    checks.name(paths.check_token, identity.store_id, "store_id")
    checks.name(paths.check_label, identity.target, "target")


def check_standing(standing: Standing, *, understood: bool) -> None:
    """Require members that can make a quorum, and a state that this release knows, if it knows what is required."""
    checks.name(paths.check_token, standing.incarnation, "incarnation")
    if understood:
        checks.value(standing.state, ["joining", "valid"], "state")
    _check_members(standing.members, "members.")
    if (old := standing.members.old) is not None:
        _check_members(old, "members.old.")
        checks.absent(old.old, "members.old.old", "one change ends before the next begins")


def _check_members(members: Members, field: str) -> None:
    checks.number(members.number, f"{field}number", high=paths.MAX_NUMBER)
    checks.labels(members.targets, f"{field}targets")
    checks.number(len(members.targets), f"{field}targets", 1)
    checks.number(members.t, f"{field}t", 0, len(members.targets) - 1)
