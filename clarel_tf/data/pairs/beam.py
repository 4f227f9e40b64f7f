"""Joins captions and features of a user's own data on Apache Beam.

It is part of the package, not of the dataset's folder, so that workers on other machines can import
it.
"""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow_datasets as tfds

from clarel_tf.data.pairs.features import read_features
from clarel_tf.data.pairs.folder import PairsFolder, make_description, make_example
from clarel_tf.data.pairs.table import ROW_SPLITS, TRAINVAL_SPLITS, image_rows
from clarel_tf.data.schema import DESCRIPTIONS, SPLITS


def joined_examples(pipeline: beam.Pipeline, folder: PairsFolder) -> dict[str, beam.PCollection]:
    """Keyed examples of each split; each file is read once, by one worker."""
    labels = {name: label for label, name in enumerate(folder.class_names)}
    # Splits depend on all rows, so workers cannot compute them. The rows of a table always have the
    # same order, so one byte for each row is enough to send a split, without ids.
    tables = [
        (
            str(path.resolve()),
            bytes(ROW_SPLITS.index(split) for split in folder.splits_of_table(index)),
        )
        for index, path in enumerate(folder.tables)
    ]
    rows = (
        pipeline
        | "Tables" >> beam.Create(tables)
        | "SpreadTables" >> beam.Reshuffle()
        | "ReadTables" >> beam.FlatMap(_keyed_rows, labels)
    )
    features = (
        pipeline
        | "Features" >> beam.Create([str(path.resolve()) for path in folder.features])
        | "SpreadFeatures" >> beam.Reshuffle()
        | "ReadFeatures" >> beam.FlatMap(_keyed_features)
    )
    by_split = (
        {"row": rows, "features": features}
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


def _keyed_features(path: str) -> Iterator[tuple[str, bytes]]:
    ids, features = read_features(tfds.core.Path(path))
    for image_id, row in zip(ids, features, strict=True):
        yield image_id, row.tobytes()


def _tagged_examples(joined: tuple[str, dict[str, list]]) -> Iterator[Any]:
    image_id, parts = joined
    [(number, label, captions)] = parts["row"]
    [features] = parts["features"]
    split = ROW_SPLITS[number]
    vector = np.frombuffer(features, np.float32)
    example = make_example(image_id, vector, captions, label, split)
    yield beam.pvalue.TaggedOutput(split, (image_id, example))
    if split in TRAINVAL_SPLITS:
        yield beam.pvalue.TaggedOutput("trainval", (image_id, example))
