"""Evaluates a finished run again, without training, and writes its report anew.

python evaluate_main.py --run_dir=runs/demo
"""

from absl import flags

from clarel_tf import cli

_RUN_DIR = flags.DEFINE_string("run_dir", None, "folder of a finished run")
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "where built datasets are kept (default: that of TFDS, ~/tensorflow_datasets)"
)
_MANUAL_DIR = flags.DEFINE_string(
    "manual_dir", None, "folder with the raw files of a dataset that is not built yet"
)
_SEED = flags.DEFINE_integer(
    "seed", None, "seed of the caption draws (default: that of the run)", lower_bound=0
)


def main() -> None:
    folder, config = cli.finished_run(_RUN_DIR.value)
    cli.start_tensorflow()
    from clarel_tf.dataset_loading import class_names, get_builder, load_splits
    from clarel_tf.rerun import evaluate_run
    from clarel_tf.results_table import evaluation_table

    builder = get_builder(config.dataset, config.dataset_config, _DATA_DIR.value)
    splits = load_splits(builder, _MANUAL_DIR.value)
    seed = config.seed if _SEED.value is None else _SEED.value
    results, evaluation = evaluate_run(folder, config, splits, class_names(builder), seed)
    print(evaluation_table(results, evaluation))
    print(f"\nWritten: {folder.evaluation_path} and {folder.report_path}")


if __name__ == "__main__":
    cli.run(main, __doc__.splitlines()[0])
