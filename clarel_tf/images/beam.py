"""Extraction on Apache Beam, for collections that one machine does not get through.

It is part of the package, so that workers on other machines can import it. They see the folders of
pictures and of features under the same paths.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np

from clarel_tf.errors import ClarelError
from clarel_tf.images.extractor import Extractor
from clarel_tf.images.feature_files import read_features, write_features
from clarel_tf.images.loading import DEFAULT, load_backbone
from clarel_tf.images.picture_files import list_pictures

_PART = 2048  # pictures of a file


def extracted_files(
    pipeline: beam.Pipeline,
    images: str | Path,
    output: str | Path,
    backbone: str = DEFAULT,
    input_size: int | None = None,
    weights: str | None = None,
    mirrored: bool = True,
    cropped: bool = False,
    skip_broken: bool = False,
    part: int = _PART,
) -> beam.PCollection:
    """The paths of files of features, `features-NNNNN.npz`, which together have all pictures.

    A file that is there already, of the same pictures and the same backbone, is not made again, so
    a pipeline that was stopped continues. `datasets/pairs` reads all of these files.

    Args:
      images: folder of pictures.
      output: folder of the files of features.
      backbone, input_size, weights, mirrored, cropped: as for `load_backbone`.
      skip_broken: leaves broken pictures out; otherwise they fail the pipeline.
      part: pictures of a file.
    """
    names = list_pictures(Path(images))
    Path(output).mkdir(parents=True, exist_ok=True)
    parts = [
        (f"features-{start // part:05d}.npz", names[start : start + part])
        for start in range(0, len(names), part)
    ]
    options = (backbone, input_size, weights, mirrored, cropped)
    return (
        pipeline
        | "Parts" >> beam.Create(parts)
        | "SpreadParts" >> beam.Reshuffle()
        | "Extract" >> beam.ParDo(_Extract(str(images), str(output), options, skip_broken))
    )


class _Extract(beam.DoFn):
    """Makes the file of one part."""

    def __init__(self, images: str, output: str, options: Sequence[Any], skip_broken: bool):
        self._images, self._output = images, output
        self._options, self._skip_broken = options, skip_broken
        self._broken = beam.metrics.Metrics.counter("clarel_tf", "broken pictures")

    def setup(self) -> None:
        self._extractor = Extractor(load_backbone(*self._options))

    def process(self, element: tuple[str, list[str]]) -> Iterator[str]:
        file_name, names = element
        path, record = Path(self._output, file_name), self._extractor.backbone.record
        if path.exists():
            its_names, _, its_record = read_features(path)
            its_record.check_same(record, path, "this pipeline")
            if set(its_names) <= set(names) and (self._skip_broken or its_names == names):
                yield str(path)
                return
        kept, blocks = [], []
        for found, features, problems in self._extractor.batches(Path(self._images), names):
            if problems and not self._skip_broken:
                raise ClarelError(problems[0])
            self._broken.inc(len(problems))
            kept += found
            blocks.append(features)
        if kept:
            write_features(path, kept, [np.concatenate(blocks)], record)
            yield str(path)
