"""The look at a dataset, on splits whose numbers are known."""

import dataclasses

import numpy as np

from clarel_tf.reporting.dataset_report import dataset_report
from tests.helpers.programs import call_program

NAMES = [f"class {i}" for i in range(8)]


def test_counts_lengths_overlaps_and_coverage(splits, tmp_path):
    overlapping = {**splits, "val_seen": splits["train"].select(splits["train"].labels == 0)}
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("a 1 2\nbird 3 4\nnumber 5 6\n")
    text = dataset_report(
        overlapping, NAMES, max_tokens=4, word_vectors=str(vectors), per_class=True, examples=1
    )
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.startswith("  ")}
    # 24 images of 4 classes, 6 of each; the features are 12 wide.
    assert "train 24 4 6 / 6 / 6 3" in " ".join(text.split())
    assert "features are 12 wide" in text
    # Of its 6 images, val_seen shares all with train.
    assert "train 24 6 0 0 0 0" in " ".join(text.split())
    # "a red bird number 3.": 5 tokens, so all are over a limit of 4.
    assert "train 72 5 5.0 5 5 5 100.0 %" in " ".join(text.split())
    # Missing are the colours of classes 0 to 5 and the nine digits that occur.
    assert "vectors.txt has 3 of the" in text
    assert rows["class"][:3] == ["class", "7", "0"]
    assert "class 'class 6'" in text


def test_names_ids_and_captions_are_printable(splits):
    shown = splits["test_unseen"]
    evil = dataclasses.replace(
        shown,
        image_ids=np.array([f"{name}\x1b[1A" for name in shown.image_ids]),
        captions=[[b"a bird\x1b[2J\r", *own[1:]] for own in shown.captions],
    )
    names = [f"class {i}\x07" for i in range(8)]
    text = dataset_report({**splits, "test_unseen": evil}, names, per_class=True)
    assert all(char.isprintable() or char == "\n" for char in text)
    for part in ("\\x1b[1A", "a bird\\x1b[2J\\r", "class 7\\x07"):
        assert part in text


def test_sentences_of_classes_have_a_footnote(splits):
    text = dataset_report(splits, NAMES)
    assert "**" not in text
    bare = {
        name: dataclasses.replace(
            split,
            captions=[[] for _ in split.captions],
            descriptions={int(label): [b"a bird"] for label in set(split.labels.tolist())},
        )
        for name, split in splits.items()
    }
    text = dataset_report(bare, NAMES)
    assert "train 24 4 6 / 6 / 6 0**" in " ".join(text.split())
    assert "**images without sentences of their own; those of their classes are below" in text
    assert "Descriptions: 8 sentences of 8 classes" in text


def test_program_on_demo(demo_data_dir):
    data = ["--config=small", f"--data_dir={demo_data_dir}"]
    done = call_program("inspect_main.py", *data)
    assert done.returncode == 0, done.stderr
    assert "demo/small/2.0.0" in done.stdout and "Tokens a caption" in done.stdout
    wrong = call_program("inspect_main.py", *data, "--word_vectors=none.txt")
    assert wrong.returncode == 1 and wrong.stderr.splitlines()[-1].startswith(
        "error: --word_vectors: cannot read"
    )
