"""Replicas whose copies of the weights differ: on two logical CPUs, and as two real workers.

By default, one check on two logical CPUs: tests/training/test_distribution.py.
"""

import numpy as np
import pytest

from clarel_tf.storage import files
from clarel_tf.training.distributed.drift import drifted
from tests.helpers.workers import HELPERS, processes

TOLERANCES = np.array([1e-3, 1e-3, 0.0])


def test_what_counts_as_drift():
    projections = np.array([[1.0, 0.0, 7.0], [1.0 + 1e-4, 1e-8, 7.0], [1.0, 0.0, 7.0]])
    norms = np.array([[2.0, 0.0, 7.0]] * 3)
    assert not drifted(projections, norms, TOLERANCES).any()
    for replica, variable, value in ((1, 0, 1.01), (2, 1, 1e-3), (0, 2, 8.0), (1, 0, np.nan)):
        changed = projections.copy()
        changed[replica, variable] = value
        expected = np.zeros((3, 3), bool)
        expected[replica, variable] = True
        np.testing.assert_array_equal(drifted(changed, norms, TOLERANCES), expected)
    # Not finite anywhere: the checkpoint has a better message for it.
    changed = projections.copy()
    changed[:, 0] = np.nan
    assert not drifted(changed, norms, TOLERANCES).any()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mirrored", "multi_worker"])
def test_replicas_that_drift_apart_end_the_job(tmp_path, small_config, kind):
    """The change is made after step 3, between the checkpoints of steps 2 and 4."""
    config = small_config.override({"steps": 6, "checkpoint_every": 2, "log_every": 2})
    files.write_json(tmp_path / "config.json", config.to_dict())
    command = [HELPERS / "drifting_run.py", kind, tmp_path / "config.json", tmp_path / "run"]
    workers = 2 if kind == "multi_worker" else 0
    with processes([*command, "3", "3.0"], tmp_path, workers) as started:
        outputs = [process.communicate(timeout=200) for process in started]
    assert "disturbed" in outputs[-1][0]
    for process, (_, err) in zip(started, outputs, strict=True):
        assert process.returncode == 1
        assert "ClarelError: the replicas have drifted apart at or before step 4: their" in err
        assert "Nothing was saved after the last good checkpoint" in err
        assert "the same command continues from the last checkpoint" in err
    saved = (tmp_path / "run" / "validation" / "checkpoints").glob("*.npz")
    assert [path.name for path in saved] == ["step_000000002.npz"]
