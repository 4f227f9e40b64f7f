"""Files of pictures: found in a folder, and read as bytes that TensorFlow decodes.

A few kinds that TensorFlow does not decode, animated WebP and BMP with palettes, are decoded by
Pillow and packed as PNG, without loss.
"""

import io
import os
import warnings
from pathlib import Path

from PIL import Image, ImageOps

from clarel_tf.errors import ClarelError
from clarel_tf.images.headers import DAMAGED, MAX_PIXELS, NO_MEMORY
from clarel_tf.storage import files

SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".webp")
MAX_BYTES = 512 << 20
_KINDS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")


def list_pictures(folder: Path) -> list[str]:
    """The pictures in a folder and below it, by their relative paths, sorted.

    A file counts as a picture by its suffix. Hidden files and folders are left out, and links to
    folders are not followed.
    """
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        raise ClarelError(f"the folder of pictures {folder} {what}")
    found, others = [], 0
    for path, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            relative = (Path(path) / name).relative_to(folder).as_posix()
            if name.startswith(".") or not name.lower().endswith(SUFFIXES):
                others += 1
            elif relative.encode("utf-8", "replace").decode() != relative:
                raise ClarelError(
                    f"{folder}: the name {relative!r} is not UTF-8, so it cannot be the id of a "
                    "picture; rename it"
                )
            else:
                found.append(relative)
    if not found:
        raise ClarelError(
            f"{folder} holds no pictures: no file, of {others}, ends in {', '.join(SUFFIXES)}"
        )
    return sorted(found)


def read_picture(path: Path) -> bytes:
    """The contents of a file, at most `MAX_BYTES`."""
    try:
        with files.open_regular(path) as handle:
            size = os.fstat(handle.fileno()).st_size
            if size > MAX_BYTES:
                raise ClarelError(f"{path} has {size >> 20} MB; at most {MAX_BYTES >> 20} are read")
            return handle.read()
    except OSError as error:
        raise ClarelError(f"cannot read {path}: {error.strerror}") from error


def size_of(path: Path) -> tuple[int, int] | None:
    """Width and height of a picture, from the beginning of its file; None if it cannot be read."""
    try:
        with warnings.catch_warnings(), files.open_regular(path) as handle:
            warnings.simplefilter("ignore")  # nothing is decoded
            return Image.open(handle, formats=_KINDS).size
    except Exception:  # Pillow raises many kinds of exceptions on damage
        return None


def read_decodable(path: Path) -> bytes:
    """As `read_picture`; the kinds that TensorFlow does not decode are repacked, without loss."""
    data = read_picture(path)
    is_animated = data[:4] == b"RIFF" and data[8:16] == b"WEBPVP8X" and data[20:21] > b"\0"
    if data[:2] == b"BM" or (is_animated and data[20] & 2):
        return repacked(data, path)
    return data


def repacked(data: bytes, path: str | Path) -> bytes:
    """A picture that TensorFlow does not decode, as PNG; of an animation, the first frame."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # our limit is lower
            image = Image.open(io.BytesIO(data), formats=("BMP", "WEBP"))
        if image.width * image.height > MAX_PIXELS:
            size = f"{image.width} x {image.height}"
            raise ClarelError(
                f"{path} has {size} pixels; at most {MAX_PIXELS // 10**6} million are decoded"
            )
        packed = io.BytesIO()
        upright = ImageOps.exif_transpose(image).convert("RGB")
        upright.save(packed, "PNG", compress_level=1)
        return packed.getvalue()
    except ClarelError:
        raise
    except MemoryError as error:
        raise ClarelError(f"{path} {NO_MEMORY}") from error
    except Exception as error:  # Pillow raises many kinds of exceptions on damage
        raise ClarelError(f"{path} {DAMAGED}") from error


def _raise(error: OSError) -> None:
    raise ClarelError(f"cannot read {error.filename}: {error.strerror}") from error
