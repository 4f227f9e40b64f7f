"""Runs a grid of experiments, several at a time, and writes tables and figures.

python sweep_main.py --dataset=demo --grid=kappa=0,0.5,1 --grid=seed=0,1 --sweep_dir=sweeps/kappa
"""

import concurrent.futures
import os
import subprocess
import sys
from pathlib import Path

from absl import flags

from clarel_tf.commands import cli, config_flags
from clarel_tf.config import Config
from clarel_tf.errors import ClarelError
from clarel_tf.storage import files


def define_flags() -> None:
    flags.DEFINE_multi_string(
        "grid", [], "values of a setting, NAME=VALUE,VALUE,...; a list in brackets; repeatable"
    )
    flags.DEFINE_bool(
        "one_at_a_time",
        False,
        "vary each setting of the grid alone, with every seed and class division",
    )
    flags.DEFINE_string("sweep_dir", "sweeps/sweep", "folder of the sweep")
    flags.DEFINE_bool(
        "validation_only",
        False,
        "compare on the validation splits, without testing",
    )
    flags.DEFINE_integer(
        "jobs", None, "number of parallel runs (default: one for every two cores)", lower_bound=1
    )
    cli.define_data_flags()
    config_flags.define_setting_flags()


def main() -> None:
    base = config_flags.config_from_flags()
    cli.start_tensorflow()
    from clarel_tf.experiments.sweep import (
        claim_sweep_dir,
        collect,
        grid_configs,
        parse_grid,
        write_csv,
    )

    grid = parse_grid(flags.FLAGS.grid)
    with cli.about_flag("grid"):
        configs = grid_configs(base, grid, flags.FLAGS.one_at_a_time)
    sweep_dir = Path(flags.FLAGS.sweep_dir)
    claim_sweep_dir(sweep_dir)
    base = config_flags.fitted_to_data(base, _prepare_data(base))
    configs = grid_configs(base, grid, flags.FLAGS.one_at_a_time)
    cores = os.cpu_count() or 1
    jobs = min(flags.FLAGS.jobs or max(1, cores // 2), len(configs))
    print(f"{len(configs)} runs, {jobs} at a time, in {sweep_dir}")
    failed = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        running = {
            pool.submit(_run, config, sweep_dir, name, max(1, cores // jobs)): name
            for name, config in configs.items()
        }
        for done in concurrent.futures.as_completed(running):
            name, error = running[done], done.result()
            print(f"  {name}: {error or 'done'}")
            failed += [name] if error else []
            write_csv(
                sweep_dir / "sweep.csv",
                collect(sweep_dir, configs, grid, flags.FLAGS.validation_only),
            )
    _draw(sweep_dir, configs, grid, base)
    if failed:
        raise ClarelError(f"{len(failed)} of {len(configs)} runs failed, such as {failed[0]}")


def _prepare_data(config: Config) -> int:
    """Builds the dataset once, so that the runs need not; returns the number of training images."""
    from clarel_tf.data.loading import get_builder
    from clarel_tf.data.preparation import prepare

    builder = get_builder(config.dataset, config.dataset_config, flags.FLAGS.data_dir)
    prepare(builder, flags.FLAGS.manual_dir)
    return builder.info.splits["train"].num_examples


def _run(config: Config, sweep_dir: Path, name: str, threads: int) -> str | None:
    """Runs one experiment in its own process; returns the error message, or None."""
    configs = sweep_dir / "configs"
    configs.mkdir(parents=True, exist_ok=True)
    files.write_json(configs / f"{name}.json", config.to_dict())
    command = [sys.executable, "-m", "clarel_tf.commands.train"]
    command += [f"--config_file={configs / name}.json", f"--run_dir={sweep_dir / name}"]
    command += [f"--data_dir={flags.FLAGS.data_dir}"] if flags.FLAGS.data_dir else []
    command += ["--validation_only"] if flags.FLAGS.validation_only else []
    limits = {"TF_NUM_INTRAOP_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    # The package that runs now, independent of the current folder.
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, **limits, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {done.returncode}"


def _draw(sweep_dir: Path, configs: dict, grid: dict, base: Config) -> None:
    from clarel_tf.experiments import sweep
    from clarel_tf.reporting import sweep_report
    from clarel_tf.reporting.sweep_report import alpha_band_figure, save_png, setting_figure

    rows = sweep.collect(sweep_dir, configs, grid, flags.FLAGS.validation_only)
    if not rows:
        return
    keys = sweep.compared(grid)
    curves: dict[str, list] = {}
    for row in rows:
        group = ", ".join(f"{key.rstrip('_')}={row[key]}" for key in keys) or "all runs"
        outcome = sweep.read_outcome(sweep_dir / row["run"], flags.FLAGS.validation_only)
        assert outcome is not None  # every row belongs to a finished run
        curves.setdefault(group, []).append(outcome.alpha_curve)
    save_png(alpha_band_figure(curves), sweep_dir / "alpha.png")
    drawn = ["alpha.png"]
    for key in keys:
        # Runs along one axis: all other settings as in the base config, if such runs exist.
        along = rows
        for other in keys:
            at_base = [row for row in along if row[other] == sweep.value_of(base, other)]
            along = at_base if other != key and at_base else along
        if len({row[key] for row in along}) > 1 and not isinstance(along[0][key], str | tuple):
            drawn.append(f"{key.rstrip('_')}.png")
            save_png(setting_figure(along, key), sweep_dir / drawn[-1])
    sweep.remove_figures(sweep_dir, drawn)
    if flags.FLAGS.validation_only:
        name, table = "validation.md", sweep_report.settings_table(rows, keys)
    else:
        name, table = "ablation.md", sweep_report.ablation_table(rows, base, keys)
    files.write_text(sweep_dir / name, table)
    print(f"\n{table}\nWritten: {sweep_dir}/sweep.csv, {name} and the figures beside it")


def run() -> None:
    """The console command."""
    define_flags()
    cli.run(main, __doc__.splitlines()[0], "the same command continues from the last checkpoint")


if __name__ == "__main__":
    run()
