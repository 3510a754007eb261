"""Checksums of a zip archive whose records were filled after it was written, set right in place.

Of PKWARE's APPNOTE: a record's CRC-32 stands in the central directory (4.3.12) and, where bit 3 of its flags is set,
in a data descriptor behind its data (4.3.9). torch writes archives so, and doesn't check them; other tools do.
"""

import struct
import zipfile
import zlib
from typing import BinaryIO

CHUNK = 1 << 20
LOCAL = struct.Struct("<26xHH")
CENTRAL = struct.Struct("<28xHHH12x")
DESCRIPTOR = b"PK\x07\x08"
HAS_DESCRIPTOR = 1 << 3

__all__ = ["data_start", "set_checksums"]


def data_start(file: BinaryIO, record: zipfile.ZipInfo) -> int:
    """Where the data of a record begins in the file."""
    file.seek(record.header_offset)
    name, extra = LOCAL.unpack(file.read(LOCAL.size))
    return int(record.header_offset + LOCAL.size + name + extra)


def set_checksums(file: BinaryIO) -> None:
    """Compute the checksum of every record of an uncompressed archive, and write it where it stands otherwise."""
    with zipfile.ZipFile(file) as archive:
        records, at = archive.infolist(), archive.start_dir
    for record in records:
        start = data_start(file, record)
        found = _crc(file, start, record.file_size)
        if found != record.CRC:
            _write(file, at + 16, found)
            _write_descriptor(file, record, start, found)
        file.seek(at)
        at += CENTRAL.size + sum(CENTRAL.unpack(file.read(CENTRAL.size)))


def _crc(file: BinaryIO, start: int, size: int) -> int:
    file.seek(start)
    crc = 0
    while size:
        data = file.read(min(CHUNK, size))
        crc = zlib.crc32(data, crc)
        size -= len(data)
    return crc


def _write_descriptor(file: BinaryIO, record: zipfile.ZipInfo, start: int, crc: int) -> None:
    at = start + record.compress_size
    file.seek(at)
    if record.flag_bits & HAS_DESCRIPTOR and file.read(len(DESCRIPTOR)) == DESCRIPTOR:
        _write(file, at + len(DESCRIPTOR), crc)


def _write(file: BinaryIO, at: int, crc: int) -> None:
    file.seek(at)
    file.write(struct.pack("<I", crc))
