"""What can go wrong in the code room. Every error carries its numbers as fields and survives pickling.

ErasureError (a ValueError)
├── CodeShapeError        k and m outside k >= 1, m >= 0, k + m <= 255
├── MatrixError           a recorded matrix isn't (m, k) bytes; or reedsolo's failed its check
├── BufferFormatError     not a 1-D contiguous uint8 array, or read-only where it is written
├── BufferCountError      too few or too many buffers
├── BufferLengthError     a buffer of another length than its fellows, or too short
├── BufferOverlapError    an output shares memory with another buffer
├── FragmentIndexError    no such fragment in this code
├── TooFewFragmentsError  fewer than k present: data is lost unless more can be found
├── UndecodableError      k or more present, but this (non-MDS) code can't solve for the wanted ones
├── RangeError            a byte range, block number or length outside what exists
├── DirtyTailError        bytes past the stripe's length aren't zero
└── KernelError           an arithmetic kernel gave a wrong answer on a known vector
"""

__all__ = [
    "BufferCountError",
    "BufferFormatError",
    "BufferLengthError",
    "BufferOverlapError",
    "CodeShapeError",
    "DirtyTailError",
    "ErasureError",
    "FragmentIndexError",
    "KernelError",
    "KernelWarning",
    "MatrixError",
    "RangeError",
    "TooFewFragmentsError",
    "UndecodableError",
]


class ErasureError(ValueError):
    """Base of all. Subclasses pass their fields as `args`, so that pickling rebuilds them."""


class CodeShapeError(ErasureError):
    """No such code: needs k >= 1, m >= 0 and k + m <= 255 (the field GF(2^8) has 255 non-zero points)."""

    def __init__(self, k: int, m: int) -> None:
        super().__init__(k, m)
        self.k, self.m = k, m

    def __str__(self) -> str:
        """Say which bound is broken."""
        return (
            f"no code with k={self.k} data and m={self.m} parity fragments (together {self.k + self.m}): "
            "choose k >= 1, m >= 0 and k + m <= 255"
        )


class MatrixError(ErasureError):
    """A parity matrix that can't belong to a (k, m) code."""

    def __init__(self, k: int, m: int, found: str) -> None:
        super().__init__(k, m, found)
        self.k, self.m, self.found = k, m, found

    def __str__(self) -> str:
        """Say what was expected and found."""
        return f"a {self.k}+{self.m} code needs a ({self.m}, {self.k}) uint8 parity matrix: {self.found}"


class BufferFormatError(ErasureError):
    """A buffer that isn't a 1-D C-contiguous uint8 numpy array, or that must be writable and isn't."""

    def __init__(self, role: str, index: int, found: str) -> None:
        super().__init__(role, index, found)
        self.role, self.index, self.found = role, index, found

    def __str__(self) -> str:
        """Name the buffer and what it is."""
        return (
            f"{self.role} buffer {self.index} must be a 1-D C-contiguous uint8 numpy array "
            f"(writable where it is an output), not {self.found}"
        )


class BufferCountError(ErasureError):
    """Too few or too many buffers."""

    def __init__(self, role: str, expected: int, got: int) -> None:
        super().__init__(role, expected, got)
        self.role, self.expected, self.got = role, expected, got

    def __str__(self) -> str:
        """Give both counts."""
        return f"{self.expected} {self.role} buffers are needed, {self.got} were given"


class BufferLengthError(ErasureError):
    """A buffer whose length differs from what the call needs."""

    def __init__(self, role: str, index: int, expected: int, got: int) -> None:
        super().__init__(role, index, expected, got)
        self.role, self.index, self.expected, self.got = role, index, expected, got

    def __str__(self) -> str:
        """Give both lengths."""
        return f"{self.role} buffer {self.index} has {self.got} bytes where {self.expected} are needed"


class BufferOverlapError(ErasureError):
    """An output shares memory with another buffer of the call, so its result would be wrong."""

    def __init__(self, role: str) -> None:
        super().__init__(role)
        self.role = role

    def __str__(self) -> str:
        """Name the role of the output."""
        return f"a {self.role} buffer overlaps another buffer of the same call: outputs need memory of their own"


class FragmentIndexError(ErasureError):
    """A fragment number that the code doesn't have, or that is both present and wanted."""

    def __init__(self, index: int, n: int, role: str) -> None:
        super().__init__(index, n, role)
        self.index, self.n, self.role = index, n, role

    def __str__(self) -> str:
        """Name the fragment and the allowed range."""
        if 0 <= self.index < self.n:
            return f"fragment {self.index} is {self.role}: a fragment is either present or wanted"
        return f"{self.role} fragment {self.index} doesn't exist: fragments are 0 to {self.n - 1}"


class TooFewFragmentsError(ErasureError):
    """Fewer than k fragments are present."""

    def __init__(self, present: int, k: int) -> None:
        super().__init__(present, k)
        self.present, self.k = present, k

    def __str__(self) -> str:
        """Give both counts."""
        return f"{self.present} fragments are present, {self.k} are needed: fetch {self.k - self.present} more"


class UndecodableError(ErasureError):
    """The recorded code isn't MDS and can't rebuild the wanted fragments from the present ones."""

    def __init__(self, present: tuple[int, ...], missing: tuple[int, ...]) -> None:
        super().__init__(present, missing)
        self.present, self.missing = present, missing

    def __str__(self) -> str:
        """Name the fragments."""
        return (
            f"this code can't rebuild data fragments {list(self.missing)} from {list(self.present)}: "
            "fetch further fragments"
        )


class RangeError(ErasureError):
    """A number or range outside what exists."""

    def __init__(self, what: str, start: int, stop: int, limit: int) -> None:
        super().__init__(what, start, stop, limit)
        self.what, self.start, self.stop, self.limit = what, start, stop, limit

    def __str__(self) -> str:
        """Give the range and the limit."""
        return f"{self.what} [{self.start}, {self.stop}) is outside [0, {self.limit})"


class DirtyTailError(ErasureError):
    """Bytes between a stripe's length and k * span must be zero: they take part in the arithmetic."""

    def __init__(self, length: int, padded: int) -> None:
        super().__init__(length, padded)
        self.length, self.padded = length, padded

    def __str__(self) -> str:
        """Name the byte range."""
        return f"stripe bytes {self.length} to {self.padded - 1} must be zero before it is encoded"


class KernelError(ErasureError):
    """An arithmetic kernel gave a wrong answer on a known vector and may not be used."""

    def __init__(self, name: str, case: str) -> None:
        super().__init__(name, case)
        self.name, self.case = name, case

    def __str__(self) -> str:
        """Name the kernel and the vector."""
        return f"the {self.name} kernel gives a wrong answer on a known vector ({self.case})"


class KernelWarning(RuntimeWarning):
    """ISA-L can't be used; results stay right, but a slower kernel makes them."""
