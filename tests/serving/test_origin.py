"""Which run a version is of, and what an export says if the run or its classes change."""

import dataclasses
import math
import shutil

import pytest

from clarel_tf.decision.selected import NoneThreshold
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.models.saving import load_model
from clarel_tf.serving.client import ServingClient
from clarel_tf.serving.export import export_run
from clarel_tf.serving.local import LocalTransport
from clarel_tf.serving.origin import Origin, changed_run, origin_of
from tests.conftest import NAMES

FIRST = Origin("runs/a", "pairs/birds", "model a").with_classes(["jay", "emu"])


def test_the_same_model_again_is_not_worth_a_word():
    assert changed_run(FIRST, 1, dataclasses.replace(FIRST, run_dir="/else/runs/a"), 2) == ""


def test_a_run_of_the_same_classes_is_named():
    other = Origin("runs/b", "pairs/birds", "model b").with_classes(["emu", "jay"])
    told = changed_run(FIRST, 1, other, 2)
    assert "Version 1 is of the run runs/a, version 2 of the run runs/b" in told
    assert "warning" not in told
    again = dataclasses.replace(other, run_dir="runs/a")
    assert "of the run runs/a as it was before" in changed_run(FIRST, 1, again, 2)


@pytest.mark.parametrize(
    ("dataset", "names", "what"),
    [
        ("pairs/birds", ["emu", "owl"], "other classes"),
        ("demo", ["emu", "jay"], "another dataset"),
    ],
)
def test_other_data_is_a_warning_with_the_way_back(dataset, names, what):
    told = changed_run(FIRST, 3, Origin("runs/b", dataset, "model b").with_classes(names), 4)
    assert told.startswith(f"warning: version 4 has {what} than version 3")
    assert "runs/a (dataset pairs/birds, 2 classes)" in told
    assert "delete the folders 4 of the three models" in told and "\n" not in told


def test_an_export_tells_its_run_and_that_it_replaces_another(
    exported_run, finished_run, splits, tmp_path, capsys
):
    folder = shutil.copytree(exported_run, tmp_path / "models")  # version 1 does not tell
    model, results = (
        load_model(finished_run / "model.keras"),
        RunFolder(finished_run).read_results(),
    )
    # As a run without validation images leaves it.
    none = NoneThreshold(1e30, math.nan, math.nan)
    results = dataclasses.replace(results, alpha=0.0, temperature=1.0, none_of_these=none)
    export_run(model, splits, NAMES, results, folder, origin=Origin("runs/a", "demo", "one"))
    assert "Version 1 does not tell which run it is of; version 2 is of the run runs/a" in (
        capsys.readouterr().err
    )
    noted = origin_of(folder, 2)
    assert noted is not None and (noted.run_dir, noted.classes) == ("runs/a", 8)
    assert "of the run runs/a (dataset demo, 8 classes)" in (folder / "SERVING.md").read_text()

    images = splits["test_seen"].image_features[:2]
    client = ServingClient(LocalTransport(folder))
    with pytest.warns(UserWarning, match="no validation images: alpha is 0, .* no threshold"):
        assert client.classify(images)["accepted"].all()
    with pytest.warns(UserWarning, match="no validation images: probabilities are not calibrated$"):
        client.classify(images, 0.5, threshold=3.0)

    renamed = [f"{name} of another world" for name in NAMES]
    export_run(model, splits, renamed, results, folder, origin=Origin("runs/b", "pairs", "two"))
    assert "warning: version 3 has other classes than version 2" in capsys.readouterr().err
