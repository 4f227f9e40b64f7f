"""Looks at pages in Debian's chromium, if that is installed."""

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed")


def browse(page: Path, *flags: str) -> subprocess.CompletedProcess:
    """Loads a page and prints its elements as they are in the end; complaints go to stderr."""
    base = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars"
    quiet = "--disable-background-networking --disable-component-update --disable-sync"
    command = [CHROMIUM, *base.split(), *quiet.split()]
    command += [f"--user-data-dir={page.parent / 'chromium'}", "--enable-logging=stderr", "--v=0"]
    command += ["--dump-dom", *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def asked(text: str, folder: Path, script: str) -> str:
    """What `script` says of a page with this text: the value of an expression, as text.

    The page allows no script but its own; that is taken out first.
    """
    page = folder / "asked.html"
    probe = f"<script>document.title = 'said ' + ({script})</script>"
    page.write_text(_open(text).replace("</body>", f"{probe}</body>"), encoding="utf-8")
    return html.unescape(re.search(r"<title>said (.*?)</title>", browse(page).stdout, re.DOTALL)[1])


def widths_in_frames(text: str, folder: Path, widths: list[int]) -> dict[int, int]:
    """How wide a page is in frames of several widths; a window has a least width."""
    probe = (
        "<script>parent.document.title += ` ${innerWidth}:${document.documentElement.scrollWidth}`"
        "</script>"
    )
    inside = html.escape(_open(text).replace("</body>", f"{probe}</body>"))
    frames = [
        f'<iframe style="border:0;width:{width}px;height:800px" srcdoc="{inside}"></iframe>'
        for width in widths
    ]
    page = folder / "frames.html"
    page.write_text(f"<title></title>{''.join(frames)}", encoding="utf-8")
    title = re.search(r"<title>(.*?)</title>", browse(page).stdout)[1]
    return {int(width): int(needed) for width, needed in re.findall(r"(\d+):(\d+)", title)}


def _open(text: str) -> str:
    """The page without its policy, which allows no script but its own."""
    return re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
