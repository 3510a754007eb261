"""The rules that a document must keep beyond the types of its fields."""

from manifests.stored import Document


def validate(document: Document) -> None:
    """Raise the FormatError that names the first rule `document` breaks."""
