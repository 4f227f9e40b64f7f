"""Extraction on Beam gives the same features, and continues."""

import apache_beam as beam
import numpy as np
import pytest

from clarel_tf.images.beam import extracted_files
from clarel_tf.images.extraction import extract_folder
from clarel_tf.images.feature_files import read_features
from clarel_tf.images.loading import load_backbone
from tests.helpers import pictures
from tests.images.test_extraction import KINDS, save_small_network


def run(*arguments, **options) -> None:
    with beam.Pipeline("DirectRunner") as pipeline:
        extracted_files(pipeline, *arguments, **options)


def test_extraction_on_beam(tmp_path):
    network = str(save_small_network(tmp_path / "small.keras"))
    images, output = tmp_path / "images", tmp_path / "features"
    pictures.fill(images, KINDS)
    run(images, output, network, part=5)
    found = [read_features(path) for path in sorted(output.iterdir())]
    assert [len(names) for names, _, _ in found] == [5, 5, 5, len(KINDS) - 15]
    extract_folder(images, tmp_path / "f.npz", load_backbone(network))
    names, features, record = read_features(tmp_path / "f.npz")
    assert [name for part in found for name in part[0]] == names
    assert all(part[2] == record for part in found)
    np.testing.assert_allclose(np.concatenate([part[1] for part in found]), features, atol=1e-5)
    # Again: one file is missing, and another picture is broken.
    times = {path.name: path.stat().st_mtime_ns for path in output.iterdir()}
    (output / "features-00001.npz").unlink()
    (images / names[6]).write_bytes(b"text")
    with pytest.raises(Exception, match="is not a JPEG"):
        run(images, output, network, part=5)
    run(images, output, network, part=5, skip_broken=True)
    assert len(read_features(output / "features-00001.npz")[0]) == 4
    kept = {path.name for path in output.iterdir() if path.stat().st_mtime_ns == times[path.name]}
    assert kept == set(times) - {"features-00001.npz"}
