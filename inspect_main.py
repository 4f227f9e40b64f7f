"""Shows what is in a built dataset: splits, overlaps, captions, vocabulary, examples.

python inspect_main.py --dataset=cub --config=custom --word_vectors=glove.6B.100d.txt
"""

from absl import flags

from clarel_tf.commands import cli

_DATASET = flags.DEFINE_string("dataset", "demo", "dataset: a folder below datasets/")
_CONFIG = flags.DEFINE_string("config", "", "builder config of the dataset (empty: its default)")
_WORD_VECTORS = flags.DEFINE_string("word_vectors", "", "show the coverage of this vector file")
_MAX_TOKENS = flags.DEFINE_integer("max_tokens", 30, "caption limit", lower_bound=1)
_PER_CLASS = flags.DEFINE_bool("per_class", False, "list the images of every class in every split")
_EXAMPLES = flags.DEFINE_integer("examples", 2, "instances to show", lower_bound=0)


def main() -> None:
    builder, splits = cli.load_dataset(_DATASET.value, _CONFIG.value)
    from clarel_tf.data.loading import class_names
    from clarel_tf.reporting.dataset_report import dataset_report

    print(f"Dataset {builder.info.full_name}, in {builder.data_path}\n")
    print(
        dataset_report(
            splits,
            class_names(builder),
            max_tokens=_MAX_TOKENS.value,
            word_vectors=_WORD_VECTORS.value,
            per_class=_PER_CLASS.value,
            examples=_EXAMPLES.value,
        )
    )


if __name__ == "__main__":
    cli.define_data_flags()
    cli.run(main, __doc__.splitlines()[0])
