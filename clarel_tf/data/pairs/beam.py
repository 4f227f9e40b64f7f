"""Makes the examples of a user's own data on Apache Beam.

It is part of the package, not of the dataset's folder, so that workers on other machines can import
it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow_datasets as tfds

from clarel_tf.data.backbone_choice import read_choice
from clarel_tf.data.pairs.features import read_features
from clarel_tf.data.pairs.folder import PairsFolder
from clarel_tf.data.pairs.table import ROW_SPLITS, TRAINVAL_SPLITS, image_rows
from clarel_tf.data.schema import DESCRIPTIONS, SPLITS, make_description, make_example
from clarel_tf.errors import ClarelError
from clarel_tf.images.embedding import embedded_batches
from clarel_tf.images.extractor import Extractor
from clarel_tf.images.picture_sources import FolderPictures

_PART = 256  # pictures that a worker gets at once


def joined_examples(pipeline: beam.Pipeline, folder: PairsFolder) -> dict[str, beam.PCollection]:
    """Keyed examples of each split; each file is read once, by one worker."""
    labels = {name: label for label, name in enumerate(folder.class_names)}
    rows, images = _rows(pipeline, folder, labels), _images(pipeline, folder)
    return _joined(pipeline, folder, labels, rows, images)


def _rows(pipeline: beam.Pipeline, folder: PairsFolder, labels: dict[str, int]) -> beam.PCollection:
    """Split, label and captions of each image."""
    if not folder.tables:
        known = [
            (image_id, (ROW_SPLITS.index(split), labels[name], captions))
            for image_id, name, captions, split in folder.images()
        ]
        return pipeline | "Images" >> beam.Create(known)
    # Splits depend on all rows, so workers cannot compute them. The rows of a table always have the
    # same order, so one byte for each row is enough to send a split, without ids.
    tables = [
        (
            str(path.resolve()),
            bytes(ROW_SPLITS.index(split) for split in folder.splits_of_table(index)),
        )
        for index, path in enumerate(folder.tables)
    ]
    return (
        pipeline
        | "Tables" >> beam.Create(tables)
        | "SpreadTables" >> beam.Reshuffle()
        | "ReadTables" >> beam.FlatMap(_keyed_rows, labels)
    )


def _images(pipeline: beam.Pipeline, folder: PairsFolder) -> beam.PCollection:
    """Features of each image as bytes, and its small JPEG, if there are pictures."""
    if folder.pictures is None:
        return (
            pipeline
            | "Features" >> beam.Create([str(path.resolve()) for path in folder.features])
            | "SpreadFeatures" >> beam.Reshuffle()
            | "ReadFeatures" >> beam.FlatMap(_keyed_features)
        )
    place = folder.place or (lambda _: "")
    named = [(image_id, path, place(image_id)) for image_id, path in folder.pictures.items()]
    parts = [named[start : start + _PART] for start in range(0, len(named), _PART)]
    return (
        pipeline
        | "Pictures" >> beam.Create(parts)
        | "SpreadPictures" >> beam.Reshuffle()
        | "EmbedPictures" >> beam.ParDo(_Embed(str(folder.path.resolve())))
    )


def _joined(
    pipeline: beam.Pipeline,
    folder: PairsFolder,
    labels: dict[str, int],
    rows: beam.PCollection,
    images: beam.PCollection,
) -> dict[str, beam.PCollection]:
    by_split = (
        {"row": rows, "image": images}
        | "Join" >> beam.CoGroupByKey()
        | "Examples" >> beam.FlatMap(_tagged_examples).with_outputs(*SPLITS)
    )
    splits = {name: by_split[name] for name in SPLITS if folder.has_split(name)}
    if folder.descriptions:
        described = [
            (name, make_description(sentences, labels[name]))
            for name, sentences in folder.descriptions.items()
        ]
        splits[DESCRIPTIONS] = pipeline | "Descriptions" >> beam.Create(described)
    return splits


def _keyed_rows(table: tuple[str, bytes], labels: dict[str, int]) -> Iterator[tuple[str, tuple]]:
    path, split_numbers = table
    for row, number in zip(image_rows(tfds.core.Path(path)), split_numbers, strict=True):
        yield row.image_id, (number, labels[row.class_name], row.captions)


def _keyed_features(path: str) -> Iterator[tuple[str, tuple[bytes, bytes]]]:
    ids, features = read_features(tfds.core.Path(path))
    for image_id, row in zip(ids, features, strict=True):
        yield image_id, (row.tobytes(), b"")


class _Embed(beam.DoFn):
    """Embeds pictures, each given by its id, its path and where a table names it."""

    def __init__(self, folder: str):
        self._folder = Path(folder)

    def setup(self) -> None:
        self._extractor = Extractor(read_choice(self._folder).load(self._folder))

    def process(self, element: list[tuple[str, str, str]]) -> Iterator[tuple]:
        paths = {image_id: path for image_id, path, _ in element}
        places = {image_id: place for image_id, _, place in element}
        place = places.__getitem__ if element[0][2] else None
        source = FolderPictures(self._folder, paths, place).pictures(list(paths))
        for batch in embedded_batches(source, self._extractor, with_jpegs=True):
            if batch.problems:
                raise ClarelError(batch.problems[0])
            for image_id, row, jpeg in zip(batch.names, batch.features, batch.jpegs, strict=True):
                yield image_id, (row.tobytes(), jpeg)


def _tagged_examples(joined: tuple[str, dict[str, list]]) -> Iterator[Any]:
    image_id, parts = joined
    [(number, label, captions)] = parts["row"]
    [(features, jpeg)] = parts["image"]
    split = ROW_SPLITS[number]
    vector = np.frombuffer(features, np.float32)
    example = make_example(image_id, vector, captions, label, split == "test_seen", jpeg)
    yield beam.pvalue.TaggedOutput(split, (image_id, example))
    if split in TRAINVAL_SPLITS:
        yield beam.pvalue.TaggedOutput("trainval", (image_id, example))
