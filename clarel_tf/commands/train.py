"""Trains CLAREL, chooses alpha on validation, trains on trainval and tests once.

python train_main.py --dataset=demo
"""

import contextlib

from absl import flags

from clarel_tf.commands import cli, config_flags
from clarel_tf.config import Config
from clarel_tf.errors import ClarelError
from clarel_tf.presets import DEFAULT_PRESETS, default_preset


def define_flags() -> None:
    flags.DEFINE_string(
        "run_dir",
        None,
        "folder of the run (default: runs/<dataset>; runs/<dataset>-<config> for own data that has "
        "a --config)",
    )
    flags.DEFINE_integer(
        "repeats", 1, "number of seeds to train with, each in its own folder", lower_bound=1
    )
    flags.DEFINE_bool(
        "ensemble",
        False,
        "with --repeats: also test the ensemble of the models of all seeds",
    )
    flags.DEFINE_enum(
        "distribute",
        "none",
        ("none", "mirrored", "multi_worker"),
        "devices that share each batch: one (none), all GPUs of this machine (mirrored), or those "
        "of all workers in TF_CONFIG (multi_worker)",
    )
    flags.DEFINE_bool(
        "validation_only",
        False,
        "stop after alpha is chosen, without testing; repeat without this flag to continue the run",
    )
    flags.DEFINE_enum(
        "final",
        "none",
        ("none", "all"),
        "all: after the test, train once more on all images, test splits included, for the export; "
        "also for a finished run",
    )
    flags.DEFINE_bool(
        "restart", False, "rename the run in run_dir to run_dir.old-1 and start again"
    )
    cli.define_data_flags()
    config_flags.define_setting_flags()


def main() -> None:
    config = config_flags.config_from_flags()
    if flags.FLAGS.validation_only and flags.FLAGS.repeats > 1:
        raise ClarelError("--validation_only is for one run; use sweep_main.py for several")
    if flags.FLAGS.ensemble and flags.FLAGS.repeats == 1:
        raise ClarelError("--ensemble needs models of several seeds; add --repeats")
    if flags.FLAGS.final != "none" and (flags.FLAGS.validation_only or flags.FLAGS.repeats > 1):
        raise ClarelError(
            "--final=all is for one whole run, without --validation_only and --repeats; of several "
            "repeats, give the --run_dir and the --seed of the one that you want to export"
        )
    cli.share_cores(config.training.operations_at_once)
    # TensorFlow takes seconds to import, so the flags are checked first.
    distribution = cli.make_distribution(flags.FLAGS.distribute)
    # The chief may have to build the dataset in a folder that all workers share.
    with distribution.chief_first() if distribution else contextlib.nullcontext():
        builder, splits = cli.load_dataset(config.dataset, config.dataset_config)
    config = config_flags.fitted_to_data(config, len(splits["train"]))
    from clarel_tf.data.loading import class_names
    from clarel_tf.experiments.experiment import run_experiment, run_validation
    from clarel_tf.experiments.repeats import follow_repeats, repeats_table, run_repeats
    from clarel_tf.reporting.results_table import results_table, validation_table

    if distribution and not distribution.is_chief:
        follow_repeats(config, splits, flags.FLAGS.repeats, distribution, final=flags.FLAGS.final)
        distribution.finish()
        print(f"Worker {distribution.worker} is done; worker 0 has the results.")
        return
    run_dir = flags.FLAGS.run_dir or _default_run_dir(config)
    names = class_names(builder)
    _announce(config)
    how = {"restart": flags.FLAGS.restart, "distribution": distribution}
    if flags.FLAGS.validation_only:
        print(validation_table(run_validation(config, splits, run_dir, **how)))
    elif flags.FLAGS.repeats > 1:
        how["ensemble"] = flags.FLAGS.ensemble
        print(
            repeats_table(run_repeats(config, splits, run_dir, flags.FLAGS.repeats, names, **how))
        )
    else:
        final = flags.FLAGS.final
        print(results_table(run_experiment(config, splits, run_dir, names, final=final, **how)))
        _point_at_final(run_dir)
    if distribution:
        distribution.finish()
    print(f"\nRun folder: {run_dir}")


def _default_run_dir(config: Config) -> str:
    """A folder by the name of the dataset; own data can have several, by their configs."""
    is_own = config.dataset not in DEFAULT_PRESETS and config.dataset_config
    return f"runs/{config.dataset}" + (f"-{config.dataset_config}" if is_own else "")


def _announce(config: Config) -> None:
    """Prints how many steps a run takes if the user has not chosen them, and how to change that."""
    steps = f"{config.training.steps:,}"
    if flags.FLAGS.config_file or flags.FLAGS.preset not in (None, "paper"):
        return
    if flags.FLAGS.preset == "paper" or default_preset(config.dataset) == "paper":
        print(
            f"Preset paper: {steps} steps, twice; 150,000 steps, twice, are about a day on two "
            "cores. The expected time follows after the first steps. --preset=fast takes less than "
            "an hour on CUB, and was more accurate there."
        )
    elif config.dataset not in DEFAULT_PRESETS:
        print(
            f"Own data is trained with the preset fast: {steps} steps of "
            f"{config.training.batch_size} images on train, and as many passes on trainval. If "
            "that takes long, the expected time follows after the first steps; --steps, "
            "--batch_size, --preset and --config_file change this."
        )


def _point_at_final(run_dir: str) -> None:
    from clarel_tf.experiments.run_folder import RunFolder
    from clarel_tf.reporting.final_report import final_notice

    folder = RunFolder(run_dir)
    if folder.final_path.exists():
        notice = final_notice(folder.read_final())
        print(f"\n{notice} export_main.py exports it from {folder.final}.")


def run() -> None:
    """The console command."""
    define_flags()
    cli.run(main, __doc__.splitlines()[0], "the same command continues from the last checkpoint")


if __name__ == "__main__":
    run()
