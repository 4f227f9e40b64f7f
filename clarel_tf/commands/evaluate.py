"""Evaluates a finished run again, without training, and writes its report again.

python evaluate_main.py --run_dir=runs/demo
"""

from absl import flags

from clarel_tf.commands import cli


def define_flags() -> None:
    flags.DEFINE_string("run_dir", None, "folder of a finished run")
    flags.DEFINE_integer(
        "seed", None, "seed of the caption draws (default: the seed of the run)", lower_bound=0
    )
    cli.define_data_flags()


def main() -> None:
    folder, config = cli.finished_run(flags.FLAGS.run_dir)
    builder, splits = cli.load_dataset(config.dataset, config.dataset_config, folder)
    from clarel_tf.data.loading import class_names
    from clarel_tf.experiments.reevaluation import evaluate_run
    from clarel_tf.reporting.results_table import evaluation_table

    seed = config.seed if flags.FLAGS.seed is None else flags.FLAGS.seed
    results, measures = evaluate_run(folder, config, splits, class_names(builder), seed)
    print(evaluation_table(results, measures))
    print(f"\nWritten: {folder.evaluation_path} and {folder.report_path}")


def run() -> None:
    """The console command."""
    define_flags()
    cli.run(main, __doc__.splitlines()[0])


if __name__ == "__main__":
    run()
