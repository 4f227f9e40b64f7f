"""A summary of a built dataset, to check the data before training."""

import collections
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from clarel_tf.data.split import Split
from clarel_tf.errors import printable
from clarel_tf.models.vocabulary import standardize
from clarel_tf.storage.word_vectors import load_word_vectors


def dataset_report(
    splits: dict[str, Split],
    class_names: Sequence[str],
    *,
    max_tokens: int = 30,
    word_vectors: str = "",
    per_class: bool = False,
    examples: int = 2,
) -> str:
    """Counts, caption lengths, vocabulary, overlaps and examples, as text.

    Args:
      max_tokens: the caption limit that training would use.
      word_vectors: a vector file; the report shows its coverage.
      per_class: list the images of every class in every split.
      examples: how many instances of test_unseen to show.
    """
    sections = [_counts(splits), _overlaps(splits), _captions(splits, max_tokens)]
    sections.append(_vocabulary(splits, word_vectors))
    if per_class:
        sections.append(_classes(splits, class_names))
    if examples:
        sections.append(_examples(splits["test_unseen"], class_names, examples))
    return "\n\n".join(sections)


def _counts(splits: dict[str, Split]) -> str:
    described = {key: own for split in splits.values() for key, own in split.descriptions.items()}
    rows, lacks_captions = [], False
    for name, split in splits.items():
        if not len(split):
            rows.append([name, 0, 0, *"----"])
            continue
        images = np.unique(split.labels, return_counts=True)[1]
        captions = [len(own) for own in split.captions]
        spread = f"{images.min()} / {np.median(images):.0f} / {images.max()}"
        each = (
            f"{min(captions)}"
            if min(captions) == max(captions)
            else f"{min(captions)}-{max(captions)}"
        )
        if described and not min(captions):
            each, lacks_captions = f"{each}**", True
        mark = split.fingerprints()
        rows.append([name, len(split), len(images), spread, each, mark["images"], mark["features"]])
    width = splits["train"].image_features.shape[1]
    header = [
        "split",
        "images",
        "classes",
        "images a class*",
        "captions",
        "images id",
        "features id",
    ]
    backbone = splits["train"].backbone
    made_by = f", made by {backbone}" if backbone else ""
    text = f"Splits (features are {width} wide{made_by}; *least / median / most)\n" + _table(
        header, rows
    )
    if lacks_captions:
        text += "\n**images without sentences of their own; those of their classes are below"
    if described:
        have_images = np.unique(np.concatenate([split.labels for split in splits.values()]))
        without = len(np.setdiff1d(list(described), have_images))
        text += (
            f"\nDescriptions: {sum(map(len, described.values()))} sentences of {len(described)} "
            f"classes, of which {without} have no images"
        )
    return text


def _overlaps(splits: dict[str, Split]) -> str:
    names = list(splits)
    ids = {name: set(split.image_ids.tolist()) for name, split in splits.items()}
    rows = [[a, *(len(ids[a] & ids[b]) for b in names)] for a in names]
    table = "Images that two splits share\n" + _table(["", *names], rows)
    tested = ids["test_seen"] & (ids["train"] | ids["val_seen"] | ids["val_unseen"])
    if tested:
        table += (
            f"\n{len(tested)} images of test_seen are also used for validation; "
            "protocol 'clean' leaves them out there."
        )
    return table


def _captions(splits: dict[str, Split], max_tokens: int) -> str:
    rows = []
    for name, split in splits.items():
        lengths = np.array([len(tokens) for tokens in _tokens(split)])
        if not len(lengths):
            rows.append([name, 0, *"------"])
            continue
        quantiles = np.percentile(lengths, [50, 95]).astype(int).tolist()
        cut = f"{100 * np.mean(lengths > max_tokens):.1f} %"
        mean = f"{lengths.mean():.1f}"
        rows.append([name, len(lengths), lengths.min(), mean, *quantiles, lengths.max(), cut])
    header = ["split", "captions", "least", "mean", "median", "95 %", "most", f"over {max_tokens}"]
    return "Tokens a caption\n" + _table(header, rows)


def _vocabulary(splits: dict[str, Split], word_vectors: str) -> str:
    counts = {
        name: collections.Counter(w for t in _tokens(splits[name]) for w in t) for name in splits
    }
    rows = []
    for training, testing in (("train", "val_unseen"), ("trainval", "test_unseen")):
        known, tested = counts[training], counts[testing]
        unknown = sum(count for word, count in tested.items() if word not in known)
        share = f"{100 * unknown / max(tested.total(), 1):.2f} %"
        rows.append([training, len(known), testing, share])
    header = ["words of", "number", "unknown words in", "share of its tokens"]
    text = "Vocabulary\n" + _table(header, rows)
    if word_vectors:
        known = counts["trainval"]
        words = [word.decode("utf-8") for word, _ in known.most_common()]
        missing = load_word_vectors(word_vectors, words).missing
        tokens = sum(known[word.encode("utf-8")] for word in missing)
        text += (
            f"\n{word_vectors} has {len(words) - len(missing)} of the {len(words)} words of "
            f"trainval, {100 * (1 - tokens / known.total()):.2f} % of its tokens."
        )
        if missing:
            text += f" Most frequent words without a vector: {printable(', '.join(missing[:12]))}"
    return text


def _classes(splits: dict[str, Split], class_names: Sequence[str]) -> str:
    counts = [np.bincount(split.labels, minlength=len(class_names)) for split in splits.values()]
    table = np.stack(counts, axis=1)
    rows = [[printable(name), *row] for name, row in zip(class_names, table, strict=True)]
    return "Images by class and split\n" + _table(["class", *splits], rows)


def _examples(split: Split, class_names: Sequence[str], count: int) -> str:
    lines = [f"Examples of {split.name}"]
    for i in range(min(count, len(split))):
        start = ", ".join(f"{value:.3f}" for value in split.image_features[i, :4])
        image_id, name = printable(str(split.image_ids[i])), class_names[split.labels[i]]
        lines.append(f"  {image_id}  class '{printable(name)}'  [{start}, ...]")
        captions = [caption.decode("utf-8", "replace") for caption in split.captions[i][:3]]
        lines += [f"    {printable(caption)}" for caption in captions]
    return "\n".join(lines)


def _tokens(split: Split) -> list[list[bytes]]:
    """The words of each caption and description, uncut."""
    flat = tf.constant(split.all_captions(), tf.string)
    return tf.strings.split(standardize(flat)).to_list()


def _table(header: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """Left-aligned first column, the others to the right."""
    cells = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return "\n".join(
        "  "
        + "  ".join(
            [
                row[0].ljust(widths[0]),
                *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in cells
    )
