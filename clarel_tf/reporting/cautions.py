"""What limits the figures of a run, in words."""

from clarel_tf.evaluation.records import Results

_FEW_CLASSES = 10  # unseen classes of a test
_FEW_IMAGES = 5  # of a class
_MADE_TO_ACCEPT, _FAR = 95.0, 5.0  # percent


def cautions(results: Results) -> list[str]:
    """Sentences about a small test and a threshold that does not do what it is made for."""
    found = []
    if size := results.test_size:
        classes = size.seen_classes + size.unseen_classes
        if size.unseen_classes < _FEW_CLASSES or size.images < _FEW_IMAGES * classes:
            chance = ""
            if size.unseen_classes:
                chance = f"; guessing has a ZSL of {100 / size.unseen_classes:.1f}"
            found.append(
                f"The test has {size.images} images of {classes} classes, {size.unseen_classes} of "
                f"them unseen{chance}. Figures of so few vary much from one division to another."
            )
    accepted = results.strangers.accepted if results.strangers else None
    if accepted is not None and abs(accepted - _MADE_TO_ACCEPT) > _FAR:
        found.append(
            f"The threshold of acceptance was set to accept {_MADE_TO_ACCEPT:.0f} % of validation "
            f"images; it accepts {accepted:.0f} % of the test images whose class is on offer. Few "
            "validation classes do not tell more. Probabilities may be as far off."
        )
    return found
