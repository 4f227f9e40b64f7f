"""train_main.py from raw files to the report, on small data in the formats of pairs and of CUB."""

from pathlib import Path

import numpy as np
import pytest

from clarel_tf.storage.files import read_json
from tests.helpers.programs import SMALL_MODEL, run_program
from tests.helpers.raw_files import CUB, RawFiles

SMALL = ["--preset=tiny", *SMALL_MODEL, "--steps=8", "--batch_size=4"]


def write_pairs(folder: Path) -> None:
    """Eight classes; 1 to 5 images a class, 1 to 3 captions an image."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    rows, ids = ["image_id,class,captions"], []
    for label in range(8):
        for k in range(1 + label % 5):
            ids.append(f"{label}_{k}")
            captions = " | ".join(f"a bird of kind {label}" for _ in range(1 + k % 3))
            rows.append(f"{ids[-1]},kind {label},{captions}")
    (folder / "table.csv").write_text("\n".join(rows) + "\n")
    np.savez(folder / "features.npz", image_ids=ids, features=rng.normal(size=(len(ids), 6)))


def write_cub(folder: Path) -> None:
    raw = RawFiles(CUB, width=6)
    raw.write_archives(folder)
    (folder / "features.mat").write_bytes(raw.features_mat())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dataset", "write", "flags"),
    [
        ("pairs", write_pairs, []),
        ("cub", write_cub, ["--config=custom", "--protocol=paper"]),
    ],
)
def test_from_raw_files_to_the_report(tmp_path, dataset, write, flags):
    write(tmp_path / "raw")
    flags = [f"--dataset={dataset}", *SMALL, *flags, f"--manual_dir={tmp_path / 'raw'}"]
    done = run_program("train_main.py", *flags, f"--data_dir={tmp_path / 'data'}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    results = read_json(tmp_path / "runs" / dataset / "results.json")
    assert results["dataset"] == dataset
    page = (tmp_path / "runs" / dataset / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 5
    assert ("paper, alpha chosen" in page) == (dataset == "cub")
