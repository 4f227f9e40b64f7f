"""sweep_main.py, and the tables it makes."""

import csv
import shutil
from pathlib import Path

import matplotlib.image
import pytest

from clarel_tf.config import Config
from clarel_tf.data.loading import get_builder, load_splits
from clarel_tf.data.protocols import apply_protocol
from clarel_tf.errors import ClarelError
from clarel_tf.experiments.experiment import run_validation
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.experiments.sweep import collect, grid_configs, parse_grid, remove_figures
from clarel_tf.reporting.statistics import MeanAndInterval
from clarel_tf.reporting.sweep_report import ablation_table, averaged, settings_table
from clarel_tf.storage.files import read_json
from tests.helpers.programs import SMALL_MODEL, call_program, run_program

MEASURED = {"zsl": 50.0, "u0": 30.0, "s0": 60.0, "h0": 40.0, "alpha": 0.1, "ausuc": 40.0}


def row(h, **settings):
    return {**settings, **MEASURED, "u": 50.0, "s": 50.0, "h": h}


def test_grid_of_any_setting():
    grid = parse_grid(["kappa=0,0.5", "lambda=1", "optimizer=sgd,adam", "seed=3"])
    assert grid == {"kappa": [0, 0.5], "lambda_": [1], "optimizer": ["sgd", "adam"], "seed": [3]}
    configs = grid_configs(Config(), grid)
    assert len(configs) == 4
    one = configs["kappa=0,lambda_=1,optimizer=adam,seed=3"]
    assert (one.loss.kappa, one.loss.lambda_, one.training.optimizer, one.seed) == (0, 1, "adam", 3)


def test_lists_in_a_grid_stand_in_brackets():
    grid = parse_grid(["filters=[128,256],[64,128]", "seed=3"])
    assert grid == {"filters": [(128, 256), (64, 128)], "seed": [3]}
    configs = grid_configs(Config(), grid)
    assert {name: config.model.filters for name, config in configs.items()} == {
        "filters=128x256,seed=3": (128, 256),
        "filters=64x128,seed=3": (64, 128),
    }
    assert list(grid_configs(Config(), grid, one_at_a_time=True)) == list(configs)
    with pytest.raises(ClarelError, match="filters must be a list"):
        grid_configs(Config(), parse_grid(["filters=128,256"]))


def test_one_setting_at_a_time_meets_in_the_base():
    grid = parse_grid(["lambda=0,0.5,1", "kappa=0,0.5", "seed=3,4"])
    configs = grid_configs(Config(), grid, one_at_a_time=True)
    points = [(c.loss.lambda_, c.loss.kappa, c.seed) for c in configs.values()]
    # Three on one axis and two on the other share their middle: four points, each with two seeds.
    around = [(0.0, 0.5), (0.5, 0.5), (1.0, 0.5), (0.5, 0.0)]
    assert points == [(*point, seed) for seed in (3, 4) for point in around]
    divided = grid_configs(Config(), parse_grid(["kappa=0,1", "class_division=1,2"]), True)
    points = [(c.loss.kappa, c.class_division) for c in divided.values()]
    assert points == [(0, 1), (1, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "the grid is empty"),
        (["kappa"], "NAME=VALUE"),
        (["kappa=0", "kappa=1"], "each name once"),
    ],
)
def test_bad_grids(items, message):
    with pytest.raises(ClarelError, match=message):
        parse_grid(items)


def test_impossible_values_are_named():
    with pytest.raises(ClarelError, match="kappa must be at most 1"):
        grid_configs(Config(), parse_grid(["kappa=0,2"]))
    with pytest.raises(ClarelError, match="unknown config key 'kapa'"):
        grid_configs(Config(), parse_grid(["kapa=0"]))


def test_seeds_are_averaged():
    rows = [row(40.0, kappa=0.5), row(44.0, kappa=0.5), row(10.0, kappa=1.0)]
    first, second = averaged(rows, ["kappa"])
    assert (first["runs"], first["h"].mean) == (2, 42.0)
    assert second["h"] == MeanAndInterval(10.0, None)


def test_gains_are_those_of_runs_with_the_same_classes():
    """Divisions of the classes differ by ten points, and the setting makes one in each of them."""
    rows = [
        row(h, kappa=kappa, seed=0, class_division=division)
        for kappa, values in ((0.5, (60.0, 50.0)), (0.25, (61.2, 50.8)))
        for division, h in enumerate(values, start=1)
    ]
    rows.append(row(90.0, kappa=0.25, seed=1, class_division=1))  # nothing to compare it with
    _, gained = averaged(rows, ["kappa"])
    # 1.2 and 0.8: mean 1.0, standard deviation 0.2828; t(0.975, 1) = 12.706 over the root of 2.
    assert gained["h_gain"].mean == pytest.approx(1.0)
    assert gained["h_gain"].interval == pytest.approx(12.7062 * 0.282843 / 2**0.5, rel=1e-4)
    assert "| 0.25 | 3 |" in settings_table(rows, ["kappa"])
    assert settings_table(rows, ["kappa"]).splitlines()[3].endswith("| 1.0 ± 2.5 |")


def test_ablation_stands_beside_the_published_values():
    table = ablation_table([row(52.0, kappa=0.0)], Config(dataset="cub"))
    # lambda is the base's 0.5; the paper has u 53.8, s 49.6, H 51.6 for kappa = 0 with alpha.
    assert "| chosen | 0.5 | 0.0 | 1 | 50.0 | 50.0 | 52.0 | 53.8 | 49.6 | 51.6 |" in table
    assert "| 0 | 0.5 | 0.0 | 1 | 30.0 | 60.0 | 40.0 | 39.3 | 57.5 | 46.7 |" in table


def test_a_look_at_validation_tests_nothing(tmp_path, splits, small_config, finished_run):
    """That it goes on: tests/experiments/test_self_contained_runs.py, with training."""
    run_dir = Path(shutil.copytree(finished_run, tmp_path / "run"))
    shutil.rmtree(run_dir / "checkpoints")
    for name in ("results.json", "evaluation.json", "model.keras", "history.csv", "classes.npz"):
        (run_dir / name).unlink()
    chosen = run_validation(small_config, splits, tmp_path / "run")
    configs, grid = {"run": small_config}, {"kappa": [small_config.loss.kappa]}
    assert collect(tmp_path, configs, grid) == []  # no results yet
    (row,) = collect(tmp_path, configs, grid, validation_only=True)
    assert row["splits"] == "validation" and row["h"] == chosen.validation.gzsl.h
    # By hand: one run has no interval, and gains nothing on itself.
    table = settings_table([row], ["kappa"]).splitlines()
    measures = [*(row[name] for name in ("zsl", "h0", "h", "ausuc")), 0.0]
    assert table[2] == f"| {row['kappa']} | 1 | " + " | ".join(f"{x:.1f}" for x in measures) + " |"

    assert not (run_dir / "model.keras").exists() and not (run_dir / "results.json").exists()
    shutil.rmtree(run_dir)
    shutil.copytree(finished_run, run_dir)
    results = RunFolder(run_dir).read_results()
    assert results.alpha_on_validation == chosen.alpha
    (row,) = collect(tmp_path, configs, grid)
    assert row["splits"] == "test" and row["h"] == results.gzsl.h


SMALL = [*SMALL_MODEL, "--steps=8", "--batch_size=16", "--captions=2", "--warmup_steps=2"]


def read_rows(sweep_dir: Path) -> list[dict[str, str]]:
    with open(sweep_dir / "sweep.csv", newline="") as handle:
        return list(csv.DictReader(handle))


def test_program_on_validation_splits(tmp_path, demo_data_dir):
    sweep_dir = tmp_path / "sweep"
    flags = [*SMALL, f"--sweep_dir={sweep_dir}", "--config=small", f"--data_dir={demo_data_dir}"]
    done = call_program("sweep_main.py", *flags, "--grid=kappa=0.25", "--validation_only")
    assert done.returncode == 0, done.stderr
    (row,) = read_rows(sweep_dir)
    assert (row["kappa"], row["splits"], row["run"]) == ("0.25", "validation", "kappa=0.25")
    chosen = read_json(sweep_dir / "kappa=0.25" / "validation" / "selection.json")
    assert float(row["h"]) == pytest.approx(chosen["validation"]["gzsl"]["h"])
    table = (sweep_dir / "validation.md").read_text()
    assert "| 0.25 | 1 |" in table and table in done.stdout
    assert matplotlib.image.imread(sweep_dir / "alpha.png").std() > 0.01  # something is drawn


@pytest.mark.slow
def test_program(tmp_path, demo_data_dir):
    sweep_dir = tmp_path / "sweep"
    flags = [
        *(*SMALL, "--equal_passes", "--jobs=2"),
        *(f"--sweep_dir={sweep_dir}", "--config=small", f"--data_dir={demo_data_dir}"),
    ]
    done = run_program("sweep_main.py", *flags, "--grid=kappa=0,0.5")
    assert done.returncode == 0, done.stderr
    rows = read_rows(sweep_dir)
    assert {r["splits"] for r in rows} == {"test"}
    assert [r["kappa"] for r in rows] == ["0.0", "0.5"]
    assert all(0 <= float(r["h"]) <= 100 for r in rows)
    # Equal passes: the model that is tested took its 8 steps times 650 / 400 images.
    builder = get_builder("demo", "small", data_dir=str(demo_data_dir))
    splits = apply_protocol(load_splits(builder), "clean")
    expected = round(8 * len(splits["trainval"]) / len(splits["train"]))
    assert expected > 8 and {r["steps"] for r in rows} == {str(expected)}
    assert "| chosen | 0.5 | 0.0 |" in (sweep_dir / "ablation.md").read_text()
    for figure in ("alpha.png", "kappa.png"):
        assert matplotlib.image.imread(sweep_dir / figure).std() > 0.01  # something is drawn

    # Another grid in the same folder leaves what is there, and a run that cannot work is named.
    before = (sweep_dir / "kappa=0" / "results.json").stat().st_mtime_ns
    again = call_program("sweep_main.py", *flags, "--grid=kappa=0", "--grid=batch_size=99999")
    assert again.returncode == 1
    assert "batch_size is 99999" in again.stdout and "1 of 1 runs failed" in again.stderr
    assert (sweep_dir / "kappa=0" / "results.json").stat().st_mtime_ns == before


def test_runs_of_an_earlier_sweep_with_other_settings_are_not_taken_for_this_one(
    tmp_path, small_config, finished_run
):
    grid = parse_grid(["kappa=0.5"])
    configs = grid_configs(small_config, grid)
    shutil.copytree(finished_run, tmp_path / "kappa=0.5")
    assert len(collect(tmp_path, configs, grid)) == 1
    longer = grid_configs(small_config.override({"steps": 13}), grid)
    assert collect(tmp_path, longer, grid) == []


def test_figures_that_were_not_drawn_anew_are_removed(tmp_path):
    for name in ("alpha.png", "kappa.png", "lambda.png", "mine.png", "sweep.csv"):
        (tmp_path / name).write_text("old")
    remove_figures(tmp_path, ["alpha.png", "kappa.png"])
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"alpha.png", "kappa.png", "mine.png", "sweep.csv"}


def test_other_settings_are_not_pooled_as_if_they_were_repeats():
    rows = [row(40.0, embedding_size=16), row(60.0, embedding_size=64)]
    table = ablation_table(rows, Config(), ["embedding_size"])
    assert "| alpha | lambda | kappa | embedding_size | runs |" in table
    assert "| chosen | 0.5 | 0.5 | 16 | 1 | 50.0 | 50.0 | 40.0 |" in table
    assert "| chosen | 0.5 | 0.5 | 64 | 1 | 50.0 | 50.0 | 60.0 |" in table
