"""Pictures for tests: encoded in many ways, damaged, and with headers that claim too much."""

import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

ORIENTATION = 0x0112


def picture(width: int = 90, height: int = 60, seed: int = 0) -> Image.Image:
    """A smooth picture without any symmetry."""
    rng = np.random.default_rng(seed)
    x, y = np.meshgrid(np.linspace(0, 5, width), np.linspace(0, 3, height))
    waves = [np.sin(a * x + b * y + c) for a, b, c in rng.uniform(0.3, 1.5, (3, 3))]
    return Image.fromarray((np.stack(waves, -1) * 120 + 128).astype(np.uint8))


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def see_through(image: Image.Image) -> Image.Image:
    """A picture with transparency from nothing to everything."""
    image = image.convert("RGBA")
    image.putalpha(Image.linear_gradient("L").resize(image.size))
    return image


def turned(orientation: int, kind: str = "JPEG", image: Image.Image | None = None) -> bytes:
    """A picture with an EXIF orientation."""
    return encoded(image or picture(), kind, exif=exif(orientation))


def exif(orientation: int) -> Image.Exif:
    data = Image.Exif()
    data[ORIENTATION] = orientation
    return data


def many_kinds() -> dict[str, bytes]:
    """Pictures that TensorFlow decodes, by name."""
    image, frames = picture(), [picture(seed=n).convert("P") for n in (1, 2)]
    return {
        "jpeg": encoded(image, "JPEG"),
        "progressive jpeg": encoded(image, "JPEG", progressive=True),
        "grey jpeg": encoded(image.convert("L"), "JPEG"),
        "cmyk jpeg": encoded(image.convert("CMYK"), "JPEG"),
        "png": encoded(image, "PNG"),
        "grey png": encoded(image.convert("L"), "PNG"),
        "palette png": encoded(image.convert("P"), "PNG"),
        "transparent png": encoded(see_through(image), "PNG"),
        "transparent grey png": encoded(see_through(image).convert("LA"), "PNG"),
        "transparent palette png": encoded(image.convert("P"), "PNG", transparency=3),
        "gif": encoded(image.convert("P"), "GIF"),
        "animated gif": encoded(image.convert("P"), "GIF", save_all=True, append_images=frames),
        "bmp": encoded(image, "BMP"),
        "lossy webp": encoded(image, "WEBP"),
        "lossless webp": encoded(image, "WEBP", lossless=True),
        "transparent lossy webp": encoded(see_through(image), "WEBP"),
        "transparent lossless webp": encoded(see_through(image), "WEBP", lossless=True),
        "1 x 1 png": encoded(picture(1, 1), "PNG"),
        "1 x 1 jpeg": encoded(picture(1, 1), "JPEG"),
        "1 x 900 png": encoded(picture(1, 900), "PNG"),
    }


def only_pillow() -> dict[str, bytes]:
    """Pictures that TensorFlow does not decode, by name."""
    image = picture()
    return {
        "palette bmp": encoded(image.convert("P"), "BMP"),
        "animated webp": encoded(image, "WEBP", save_all=True, append_images=[picture(seed=1)]),
    }


def huge() -> dict[str, bytes]:
    """A few bytes each that claim 20,000 x 10,000 pixels."""
    ihdr = b"IHDR" + struct.pack(">IIBBBBB", 20000, 10000, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + ihdr + struct.pack(">I", zlib.crc32(ihdr))
    jpeg = bytearray(encoded(picture(), "JPEG"))
    at = jpeg.index(b"\xff\xc0")
    jpeg[at + 5 : at + 9] = struct.pack(">HH", 10000, 20000)
    gif = bytearray(encoded(picture().convert("P"), "GIF"))
    gif[6:10] = struct.pack("<HH", 20000, 10000)
    bmp = bytearray(encoded(picture(), "BMP"))
    bmp[18:26] = struct.pack("<ii", 20000, 10000)
    webp = bytearray(encoded(see_through(picture()), "WEBP"))
    webp[24:30] = (19999).to_bytes(3, "little") + (9999).to_bytes(3, "little")
    end = b"\0\0\0\0IEND\xaeB`\x82"
    return {"png": png + end, "jpeg": jpeg, "gif": gif, "bmp": bmp, "webp": webp}


def broken() -> dict[str, tuple[bytes, str]]:
    """Contents that are no picture, and what is said of them."""
    kinds = many_kinds()
    cut = {
        name: (kinds[name][: len(kinds[name]) * 2 // 3], "is damaged or cut off")
        for name in ("jpeg", "progressive jpeg", "png", "gif", "bmp", "lossy webp")
    }
    size = "has 20000 x 10000 pixels; at most 64 million are decoded"
    return {
        **{f"cut {name}": value for name, value in cut.items()},
        **{f"huge {name}": (bytes(data), size) for name, data in huge().items() if name != "bmp"},
        "empty": (b"", "is empty (0 bytes)"),
        "text": (b"no picture at all", "is not a JPEG, PNG, GIF, BMP or WebP picture"),
        "beginning": (b"\xff\xd8\xff\xe0", "is damaged or cut off"),
    }


def fill(folder: Path, files: dict[str, bytes]) -> None:
    """Writes files by their path in the folder."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def damaged(data: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """Copies with some bytes changed, or cut off."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        copy = bytearray(data)
        for place in rng.integers(2, min(len(copy), 600), 3):
            copy[place] = rng.integers(256)
        yield bytes(copy[: rng.integers(1, len(copy))] if number % 3 == 0 else copy)
