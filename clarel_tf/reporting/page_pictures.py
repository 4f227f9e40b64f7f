"""The pictures of a page: which ones it wants, how they get into it, and how many fit."""

import base64
import html
import sys
from collections.abc import Iterable, Mapping

from clarel_tf.data.pictures import JoinedPictures
from clarel_tf.data.split import Split
from clarel_tf.errors import brief
from clarel_tf.evaluation.measures import Measures
from clarel_tf.reporting.html_page import shortened

MOST_BYTES = 2_000_000  # of all pictures of a page, as text
_JPEG = b"\xff\xd8"
_LONGEST_ALT = 100


class PagePictures:
    """Puts pictures into a page until it is full; then, and for images without one, nothing."""

    def __init__(self, pictures: Mapping[str, bytes], most_bytes: int = MOST_BYTES):
        """`pictures`: JPEG files by the ids of images."""
        self._pictures = {key: data for key, data in pictures.items() if data.startswith(_JPEG)}
        self._left = most_bytes
        self.left_out = 0

    def __bool__(self) -> bool:
        """True if there are any pictures to show."""
        return bool(self._pictures)

    def show(self, image_id: str, alternative: str) -> str:
        """The picture of an image as HTML.

        Args:
          alternative: what it shows, in words.
        """
        data = self._pictures.get(image_id)
        if data is None:
            return ""
        size = -(-len(data) // 3) * 4
        if size > self._left:
            self.left_out += 1
            return ""
        self._left -= size
        text = html.escape(shortened(alternative, _LONGEST_ALT))
        source = base64.b64encode(data).decode()
        return f'<img alt="{text}" src="data:image/jpeg;base64,{source}">'


def wanted_images(measures: Measures) -> set[str]:
    """The ids of all images that the report of a run shows."""
    wanted = {example.image_id for example in measures.examples}
    wanted.update(example.predicted_image or "" for example in measures.examples)
    wanted.update(image.image_id for one in measures.caption_examples for image in one.images)
    for pair in measures.confusions:
        wanted.update([*pair.images, *pair.predicted_images])
    return wanted - {""}


def read_pictures(splits: Iterable[Split], image_ids: Iterable[str]) -> dict[str, bytes]:
    """The pictures of these images by their ids, from the first split that has them.

    A run has taken long when its report is made. So if the dataset cannot be read any more, the
    report has no pictures, and a line says so.
    """
    try:
        return JoinedPictures.of(splits).read(set(image_ids))
    except Exception as error:  # several libraries read these files
        print(f"The report has no pictures: they cannot be read ({brief(error)}).", file=sys.stderr)
        return {}
