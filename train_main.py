"""Trains CLAREL, chooses alpha on validation, trains on trainval and tests once.

python train_main.py --dataset=demo
"""

import contextlib

from absl import flags

from clarel_tf.commands import cli
from clarel_tf.errors import ClarelError

_RUN_DIR = flags.DEFINE_string("run_dir", None, "folder of the run (default: runs/<dataset>)")
_REPEATS = flags.DEFINE_integer(
    "repeats", 1, "train with this many seeds, each in a folder of its own", lower_bound=1
)
_ENSEMBLE = flags.DEFINE_bool(
    "ensemble",
    False,
    "with --repeats: test the models of all seeds side by side as well, as one more model",
)
_DISTRIBUTE = flags.DEFINE_enum(
    "distribute",
    "none",
    ("none", "mirrored", "multi_worker"),
    "devices that share each batch: one, all of this machine, or those of the workers in TF_CONFIG",
)
_VALIDATION_ONLY = flags.DEFINE_bool(
    "validation_only",
    False,
    "stop when alpha is chosen, before anything is tested; without this flag the run goes on",
)
_RESTART = flags.DEFINE_bool(
    "restart", False, "move the run in run_dir aside, to run_dir.old-1, and begin anew"
)


def main() -> None:
    config = cli.config_from_flags()
    if _VALIDATION_ONLY.value and _REPEATS.value > 1:
        raise ClarelError("--validation_only is for one run; sweep_main.py has it for several")
    if _ENSEMBLE.value and _REPEATS.value == 1:
        raise ClarelError("--ensemble puts models of several seeds together; give --repeats too")
    cli.share_cores(config.training.operations_at_once)
    # TensorFlow takes seconds to import: not before the flags are known to be good.
    distribution = cli.make_distribution(_DISTRIBUTE.value)
    # The chief may have to build the dataset in a folder that all workers share.
    with distribution.chief_first() if distribution else contextlib.nullcontext():
        builder, splits = cli.load_dataset(config.dataset, config.dataset_config)
    from clarel_tf.data.loading import class_names
    from clarel_tf.experiments.experiment import run_experiment, run_validation
    from clarel_tf.experiments.repeats import follow_repeats, repeats_table, run_repeats
    from clarel_tf.reporting.results_table import results_table, validation_table

    if distribution and not distribution.is_chief:
        follow_repeats(config, splits, _REPEATS.value, distribution)
        distribution.finish()
        print(f"Worker {distribution.worker} is done; worker 0 has the results.")
        return
    run_dir = _RUN_DIR.value or f"runs/{config.dataset}"
    names = class_names(builder)
    how = {"restart": _RESTART.value, "distribution": distribution}
    if _VALIDATION_ONLY.value:
        print(validation_table(run_validation(config, splits, run_dir, **how)))
    elif _REPEATS.value > 1:
        how["ensemble"] = _ENSEMBLE.value
        print(repeats_table(run_repeats(config, splits, run_dir, _REPEATS.value, names, **how)))
    else:
        print(results_table(run_experiment(config, splits, run_dir, names, **how)))
    if distribution:
        distribution.finish()
    print(f"\nRun folder: {run_dir}")


if __name__ == "__main__":
    cli.define_data_flags()
    cli.define_setting_flags()
    cli.run(main, __doc__.splitlines()[0])
