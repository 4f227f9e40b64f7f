"""Small files that would expand to gigabytes, and the memory and time that reading one takes."""

import io
import json
import os
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.helpers.programs import ROOT

MEGABYTE = 1 << 20
LARGE = 256 * MEGABYTE  # what most of the files expand to


def squeezed(pieces: Iterable[bytes], form: int = 15) -> bytes:
    """Deflated pieces; `form` 31 makes a gzip file, 15 a zlib stream, -15 a bare one."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, form)
    return b"".join([*map(squeeze.compress, pieces), squeeze.flush()])


def repeated(unit: bytes, size: int) -> Iterable[bytes]:
    """About `size` bytes of `unit` over and over, in large pieces."""
    piece = unit * max(1, MEGABYTE // len(unit))
    return (piece for _ in range(max(1, size // len(piece))))


# MATLAB files.


def element(kind: int, content: bytes) -> bytes:
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def head(array_class: int, shape: tuple[int, ...], name: bytes) -> bytes:
    dimensions = struct.pack(f"<{len(shape)}i", *shape)
    return (
        element(6, struct.pack("<II", array_class, 0)) + element(5, dimensions) + element(1, name)
    )


def mat_file(
    unit: bytes, size: int, array_class: int, name: bytes = b"features", start: bytes | None = None
) -> bytes:
    """One compressed variable whose contents are `unit` over and over."""
    pieces = list(repeated(unit, size))
    length = sum(map(len, pieces))
    start = head(array_class, (length // len(unit), 1), name) if start is None else start
    matrix = struct.pack("<II", 14, len(start) + length) + start
    content = squeezed([matrix, *pieces])
    header = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    return header + struct.pack("<II", 15, len(content)) + content


NOTHING = element(1, b"")  # eight bytes
NO_TEXT = element(14, head(4, (0, 0), b"") + element(16, b""))
SHORT_TEXT = element(14, head(4, (1, 3), b"") + element(16, b"abc"))


# Tar archives.


def tar_header(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.USTAR_FORMAT if size < 1 << 33 else tarfile.GNU_FORMAT)


def tar_member(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE) -> bytes:
    return tar_header(name, len(data), kind) + data + bytes(-len(data) % 512)


def pax_record(key: str, value: str) -> bytes:
    rest = f" {key}={value}\n".encode()
    length = len(rest) + 1
    while len(str(length)) + len(rest) != length:
        length += 1
    return str(length).encode() + rest


CAPTIONS = b"a bird.\n" * 10
END = bytes(1024)


def global_keys(keys: int, members: int) -> bytes:
    records = b"".join(pax_record(f"k{number}", "") for number in range(keys))
    names = (tar_member(f"texts/c/{number}.txt", CAPTIONS) for number in range(members))
    return squeezed([tar_member("g", records, tarfile.XGLTYPE), *names, END], 31)


def many_texts(count: int) -> bytes:
    return squeezed([*(tar_member(f"texts/c/{n}.txt", CAPTIONS) for n in range(count)), END], 31)


def nested_pax(count: int) -> bytes:
    header = tar_member("x", pax_record("path", "texts/c/a.txt"), tarfile.XHDTYPE)
    return squeezed([header * count, tar_member("texts/c/a.txt", CAPTIONS), END], 31)


def pax_of(data: bytes, count: int) -> bytes:
    header = tar_member("x", data, tarfile.XHDTYPE) + tar_member("texts/c/a.jpg")
    return squeezed([*([header] * count), END], 31)


def sparse_map(size: int) -> bytes:
    """A sparse member of the GNU kind whose map goes on and on."""
    first = bytearray(tar_header("texts/c/a.txt", 0, tarfile.GNUTYPE_SPARSE))
    first[386:482] = b"00000000001\0" * 8
    first[482] = 1
    first[148:156] = b" " * 8
    first[148:156] = b"%06o\0 " % sum(first)
    block = (b"00000000001\0" * 42 + b"\1").ljust(512, b"\0")
    return squeezed([bytes(first), *repeated(block, size)], 31)


# Zip archives.


def zip_file(name: str, pieces: Iterable[bytes], claimed: int | None = None) -> bytes:
    """One deflated member, which may claim to be of another size than it is."""
    buffer = io.BytesIO()
    first = b""
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(name, "w") as member,
    ):
        for piece in pieces:
            member.write(piece)
            first = first or piece
    data = bytearray(buffer.getvalue())
    if claimed is not None:
        # Checksum and size, in the header of the member and in the directory at the end.
        for start in (14, data.rindex(b"PK\x01\x02") + 16):
            struct.pack_into("<I", data, start, zlib.crc32(first[:claimed]))
            struct.pack_into("<I", data, start + 8, claimed)
    return bytes(data)


def npy_header(shape: tuple[int, ...], dtype: str) -> bytes:
    text = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode().ljust(117)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text + b"\n"


_WATCHED = """
import json, resource, sys, time
sys.path.insert(0, {root!r})
{before}
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
start, clock = peak(), time.process_time()
said = None
try:
    {code}
except Exception as error:
    said = type(error).__name__ + ": " + str(error)
print("\\n" + json.dumps([said, peak() - start, time.process_time() - clock]))
"""


def watched(code: str, before: str, timeout: float = 120) -> tuple[str | None, float, float]:
    """Runs `code` in a process of its own.

    Returns:
      (what it raised or None, megabytes that it took more than `before`, seconds of the processor).
    """
    program = _WATCHED.format(root=str(ROOT), before=before, code=code)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return tuple(json.loads(done.stdout.splitlines()[-1]))


MAT = "from clarel_tf.storage.array_files import read_mat; from pathlib import Path"
NPZ = "from clarel_tf.storage.array_files import read_npz; from pathlib import Path"
TAR = "from clarel_tf.data.zero_shot.captions import read_captions; from pathlib import Path"
ZIP = "from clarel_tf.storage.archives import read_zip_member; from pathlib import Path"
GZ = "from clarel_tf.storage.word_vectors import load_word_vectors; from pathlib import Path"
READ_MAT = "read_mat(Path({path!r}), ('features', 'image_files'))"
READ_TAR = "read_captions(Path({path!r}), 'texts')"
READ_NPZ = "read_npz(Path({path!r}), ('features', 'image_ids'))"
READ_ZIP = "read_zip_member(Path({path!r}), 'member')"
READ_GZ = "load_word_vectors({path!r}, ['bird'])"

# Name -> (how to make the file, imports, how to read it).
ATTACKS: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "zeros.mat": (
        lambda: mat_file(bytes(8), LARGE, 6, start=head(6, (LARGE >> 13, 1 << 10), b"features")),
        *(MAT, READ_MAT),
    ),
    "elements.mat": (lambda: mat_file(NOTHING, 70 << 20, 6), MAT, READ_MAT),
    "unwanted.mat": (lambda: mat_file(NOTHING, 14 << 20, 6, b"other"), MAT, READ_MAT),
    "cells.mat": (lambda: mat_file(NO_TEXT, 70 << 20, 1, b"image_files"), MAT, READ_MAT),
    "short_cells.mat": (lambda: mat_file(SHORT_TEXT, 20 << 20, 1, b"image_files"), MAT, READ_MAT),
    "dimensions.mat": (
        lambda: mat_file(
            bytes(8), 1 << 20, 6, start=element(6, bytes(8)) + element(5, bytes(14 << 20))
        ),
        *(MAT, READ_MAT),
    ),
    "global_100.tar.gz": (lambda: global_keys(100_000, 100), TAR, READ_TAR),
    "global_500.tar.gz": (lambda: global_keys(100_000, 500), TAR, READ_TAR),
    "empty_members.tar.gz": (
        lambda: squeezed([*repeated(tar_member("texts/c/a.jpg"), LARGE), END], 31),
        *(TAR, READ_TAR),
    ),
    "texts.tar.gz": (lambda: many_texts(12_000), TAR, READ_TAR),
    "nested_pax.tar.gz": (lambda: nested_pax(5_000), TAR, READ_TAR),
    "digits.tar.gz": (lambda: pax_of(pax_record("comment", "1" * 32_000), 50), TAR, READ_TAR),
    "short_records.tar.gz": (lambda: pax_of(b"2 " * 16_000 + b"x=", 1), TAR, READ_TAR),
    "sparse_map.tar.gz": (lambda: sparse_map(64 << 20), TAR, READ_TAR),
    "long_name.tar.gz": (
        lambda: squeezed(
            [tar_header("a", 1 << 30, tarfile.GNUTYPE_LONGNAME), *repeated(b"a", LARGE)], 31
        ),
        *(TAR, READ_TAR),
    ),
    "zeros.npz": (
        lambda: zip_file(
            "features.npy", [npy_header((5 << 27,), "<f8"), *repeated(bytes(8), LARGE)]
        ),
        *(NPZ, READ_NPZ),
    ),
    "claimed.npz": (
        lambda: zip_file("features.npy", [npy_header((5 << 27,), "<f8"), bytes(1 << 20)]),
        *(NPZ, READ_NPZ),
    ),
    "header.npz": (
        lambda: zip_file(
            "features.npy",
            [
                b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 30) + bytes(1000),
                *repeated(b" ", LARGE),
            ],
            claimed=1000,
        ),
        *(NPZ, READ_NPZ),
    ),
    "no_width.npz": (
        lambda: zip_file("image_ids.npy", [npy_header((1 << 40,), "<U0")]),
        *(NPZ, READ_NPZ),
    ),
    "zeros.zip": (lambda: zip_file("member", repeated(bytes(8), LARGE)), ZIP, READ_ZIP),
    "liar.zip": (
        lambda: zip_file("member", repeated(bytes(8), LARGE), claimed=100),
        *(ZIP, READ_ZIP),
    ),
    "endless.gz": (
        lambda: squeezed([b"bird 1 2 3\n", *repeated(b"wren 1 2 3\n", LARGE)], 31),
        *(GZ, READ_GZ),
    ),
    "blank.gz": (lambda: squeezed([b"bird 1 2 3\n", *repeated(b"\n", LARGE)], 31), GZ, READ_GZ),
    "one_line.gz": (
        lambda: squeezed([b"bird 1 2 3\n", *repeated(b"1 ", LARGE)], 31),
        *(GZ, READ_GZ),
    ),
}


def main(folder: str) -> None:
    """Prints what reading each attack file takes."""
    for name, (make, before, code) in ATTACKS.items():
        path = Path(folder) / name
        if not path.exists():
            path.write_bytes(make())
        try:
            said, megabytes, seconds = watched(code.format(path=str(path)), before)
        except subprocess.TimeoutExpired:
            said, megabytes, seconds = "gave up after 120 s", float("nan"), 120.0
        except AssertionError as error:
            said, megabytes, seconds = f"crash {error}"[-60:], float("nan"), float("nan")
        size = path.stat().st_size / 1000
        print(f"{name} | {size:.1f} kB | {megabytes:.0f} MB | {seconds:.1f} s | {said}"[:250])


if __name__ == "__main__":
    main(sys.argv[1])
