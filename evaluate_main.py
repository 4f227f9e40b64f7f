"""Evaluates a finished run again, without training, and writes its report anew.

python evaluate_main.py --run_dir=runs/demo
"""

from absl import flags

from clarel_tf.commands import cli

_RUN_DIR = flags.DEFINE_string("run_dir", None, "folder of a finished run")
_SEED = flags.DEFINE_integer(
    "seed", None, "seed of the caption draws (default: that of the run)", lower_bound=0
)


def main() -> None:
    folder, config = cli.finished_run(_RUN_DIR.value)
    builder, splits = cli.load_dataset(config.dataset, config.dataset_config)
    from clarel_tf.data.loading import class_names
    from clarel_tf.experiments.reevaluation import evaluate_run
    from clarel_tf.reporting.results_table import evaluation_table

    seed = config.seed if _SEED.value is None else _SEED.value
    results, evaluation = evaluate_run(folder, config, splits, class_names(builder), seed)
    print(evaluation_table(results, evaluation))
    print(f"\nWritten: {folder.evaluation_path} and {folder.report_path}")


if __name__ == "__main__":
    cli.define_data_flags()
    cli.run(main, __doc__.splitlines()[0])
