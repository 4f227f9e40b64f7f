"""Shows a built dataset: splits, overlaps, captions, vocabulary, examples.

python inspect_main.py --dataset=cub --config=custom --word_vectors=glove.6B.100d.txt
"""

from absl import flags

from clarel_tf.commands import cli


def define_flags() -> None:
    flags.DEFINE_string("dataset", "demo", "dataset: a folder below datasets/")
    flags.DEFINE_string(
        "config",
        "",
        "builder config of the dataset (empty: its default); for pairs, any name of your own",
    )
    flags.DEFINE_string("word_vectors", "", "vector file; its coverage is shown")
    flags.DEFINE_integer("max_tokens", 30, "tokens of a caption; the rest is cut", lower_bound=1)
    flags.DEFINE_bool("per_class", False, "list the images of every class in every split")
    flags.DEFINE_integer("examples", 2, "number of instances to show", lower_bound=0)
    cli.define_data_flags()


def main() -> None:
    builder, splits = cli.load_dataset(flags.FLAGS.dataset, flags.FLAGS.config)
    from clarel_tf.data.loading import class_names
    from clarel_tf.reporting.dataset_report import dataset_report

    print(f"Dataset {builder.info.full_name}, in {builder.data_path}\n")
    names = class_names(builder)
    # Names and splits are read: what is refused from here on is the vector file.
    with cli.about_flag("word_vectors"):
        report = dataset_report(
            splits,
            names,
            max_tokens=flags.FLAGS.max_tokens,
            word_vectors=flags.FLAGS.word_vectors,
            per_class=flags.FLAGS.per_class,
            examples=flags.FLAGS.examples,
        )
    print(report)


def run() -> None:
    """The console command."""
    define_flags()
    cli.run(main, __doc__.splitlines()[0])


if __name__ == "__main__":
    run()
