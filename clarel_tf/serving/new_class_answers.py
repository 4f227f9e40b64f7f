"""Checks what an answer says about the new classes of the request."""

import numpy as np

from clarel_tf.serving.calls import ServingError

# The outputs with a row for each image and a column for each new class, and their values.
NEW_CLASS_OUTPUTS = {
    "new_class_name": "O",
    "new_class_rank": "f",
    "new_class_distance": "f",
    "new_class_probability": "f",
    "new_class_known_words": "f",
}
_ROUNDING = 1e-5  # tolerance of a probability, and of a relative distance


def without_empty(answer: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The answer without outputs for new classes if there are none: [B, 0] has no form in JSON."""
    return {
        name: output
        for name, output in answer.items()
        if output.size or name not in NEW_CLASS_OUTPUTS
    }


def check_new_classes(answer: dict[str, np.ndarray]) -> None:
    """Raises ServingError unless the outputs, [B, N], fit together and to the table, [B, k].

    Their types are checked before.
    """
    outputs = {name: answer[name] for name in NEW_CLASS_OUTPUTS if name in answer}
    if len({output.shape for output in outputs.values()}) > 1:
        raise ServingError("the outputs for new classes do not fit together")
    if len(outputs) < len(NEW_CLASS_OUTPUTS) or "class_name" not in answer:
        return  # not an answer as a whole; the client looks for what it asked for
    rank, distance = outputs["new_class_rank"], outputs["new_class_distance"]
    probability, known = outputs["new_class_probability"], outputs["new_class_known_words"]
    if (rank < 1).any() or (rank != np.floor(rank)).any():
        raise ServingError("the rank of a new class is not a whole number from 1")
    if (distance < 0).any():
        raise ServingError("the distance of a new class is below 0")
    for name, share in (("probability", probability), ("share of known words", known)):
        if (share < 0).any() or (share > 1 + _ROUNDING).any():
            raise ServingError(f"the {name} of a new class is not between 0 and 1")
    order = np.argsort(rank, axis=1)
    in_order = [np.take_along_axis(values, order, axis=1) for values in (rank, distance)]
    if (np.diff(in_order[0], axis=1) <= 0).any() or (np.diff(in_order[1], axis=1) < 0).any():
        raise ServingError("the ranks of new classes do not fit their distances")
    _check_listed(answer, rank.astype(np.int64))


def _check_listed(answer: dict[str, np.ndarray], rank: np.ndarray) -> None:
    """Raises ServingError unless new classes of rank 1 to k are in the table, in their places."""
    width = answer["class_name"].shape[1]
    is_listed = rank <= width
    rows, columns = np.nonzero(is_listed)
    places = rank[is_listed] - 1
    listed, given = (
        [answer[f"{prefix}{name}"][rows, at] for name in ("distance", "probability")]
        for prefix, at in (("", places), ("new_class_", columns))
    )
    names = answer["class_name"][rows, places], answer["new_class_name"][rows, columns]
    if (names[0] != names[1]).any() or not np.allclose(listed, given, rtol=_ROUNDING, atol=1e-6):
        raise ServingError("the ranks of new classes do not fit the nearest classes")
    last = np.broadcast_to(answer["distance"][:, -1:], rank.shape)
    if (answer["new_class_distance"][~is_listed] < last[~is_listed]).any():
        raise ServingError("a new class is nearer than the nearest classes, but not among them")
