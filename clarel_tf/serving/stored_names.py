"""The names of the stored classes, and what a request may say of them."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from clarel_tf.serving.refusals import quoted, refuse_unless

_NEAR = 3  # names in a suggestion


class Relations(NamedTuple):
    """How N classes of a request relate to the stored ones.

    Attributes:
      replaced, extended: int32 [N], the row of the stored class; -1 without one.
    """

    replaced: tf.Tensor
    extended: tf.Tensor


class StoredNames:
    """The names of C stored classes, in the order of their rows."""

    def __init__(self, names: Sequence[str]):
        self.names = tf.Variable(list(names), trainable=False, name="class_names")
        self._plain = tf.Variable(_as_plain(tf.constant(list(names))), trainable=False)
        self._count = len(names)

    def rows(self, wanted: tf.Tensor, option: str) -> tf.Tensor:
        """The rows of the classes in an option of the request, string [M] -> int32 [M].

        A name that no stored class has is refused, and the nearest names are suggested.
        """
        rows = _rows_of(wanted, self.names)
        unknown = tf.boolean_mask(wanted, rows < 0)
        message = tf.cond(
            tf.size(unknown) > 0, lambda: self._unknown(unknown[0], option), lambda: ""
        )
        with tf.control_dependencies([refuse_unless(tf.equal(tf.size(unknown), 0), message)]):
            return tf.identity(rows)

    def relations(self, names: tf.Tensor, replaces: tf.Tensor, extends: tf.Tensor) -> Relations:
        """The relations of the request's classes, whose names are string [N].

        A class with the name of a stored one must be in `replaces` or in `extends`, string [M].
        No two of them may differ only in case or spaces.
        """
        replaced, extended = (
            self._declared(names, option, which)
            for option, which in ((replaces, "replaces"), (extends, "extends"))
        )
        checks = [
            _refuse_any(
                names,
                (replaced >= 0) & (extended >= 0),
                ["", " is in replaces and in extends; leave it in one of them"],
            )
        ]
        is_free = (replaced < 0) & (extended < 0)
        same = _rows_of(names, self.names)
        checks.append(
            _refuse_any(
                names,
                is_free & (same >= 0),
                [
                    "the new class ",
                    " has the name of a stored class; put it into replaces, and it takes the "
                    "place of the stored class, or into extends, and its sentences are added to "
                    "the stored captions, or rename it",
                ],
            )
        )
        plain = _as_plain(names)
        checks.append(
            _refuse_any(
                names,
                _rows_of(plain, plain) < tf.range(tf.size(plain)),
                [
                    "the new class ",
                    " has the name of another new class except for case or spaces; spell both "
                    "alike if they are one class, or rename one",
                ],
            )
        )
        similar = _rows_of(plain, self._plain)
        checks.append(
            _refuse_any(
                names,
                is_free & (same < 0) & (similar >= 0),
                [
                    "the new class ",
                    " has the name of a stored class except for case or spaces; spell it as the "
                    "stored one and put it into replaces or extends, or rename it",
                ],
            )
        )
        with tf.control_dependencies(checks):
            return Relations(tf.identity(replaced), tf.identity(extended))

    def offered(self, among: tf.Tensor, relations: Relations) -> tf.Tensor:
        """The rows of the stored classes on offer as they are, in their order, int32 [n]."""
        gone = self._marked(tf.concat(relations, axis=0))
        is_among = self._marked(self.rows(among, "among")) | tf.equal(tf.size(among), 0)
        return _rows_where(is_among & ~gone)

    def named(self, among: tf.Tensor, relations: Relations) -> tf.Tensor:
        """The rows of the stored classes that a request names in any way, int32 [n]."""
        return _rows_where(self._marked(tf.concat([self.rows(among, "among"), *relations], axis=0)))

    def _marked(self, rows: tf.Tensor) -> tf.Tensor:
        """Whether each stored class is among `rows`, int32 [M], where -1 is none; bool [C]."""
        rows = tf.boolean_mask(rows, rows >= 0)
        return tf.math.unsorted_segment_sum(tf.ones_like(rows), rows, self._count) > 0

    def _declared(self, names: tf.Tensor, declared: tf.Tensor, option: str) -> tf.Tensor:
        """The stored row of each class in `declared`, -1 for the others, int32 [N]."""
        place = _rows_of(declared, names)
        check = _refuse_any(
            declared, place < 0, [f"{option} names ", ", but no sentence describes this class"]
        )
        with tf.control_dependencies([check]):
            rows = self.rows(declared, option)
        # Of the class, because one may be declared twice.
        mentioned = _rows_of(names, declared)
        filled = tf.concat([rows, [-1]], axis=0)
        return tf.gather(filled, tf.where(mentioned < 0, tf.size(rows), mentioned))

    def _unknown(self, name: tf.Tensor, option: str) -> tf.Tensor:
        near = tf.map_fn(quoted, tf.gather(self.names, self._near(name)))
        return tf.strings.join(
            [
                f"{option} names ",
                quoted(name),
                ", but no stored class has this name; the nearest are ",
                tf.strings.reduce_join(near, separator=", "),
            ]
        )

    def _near(self, name: tf.Tensor) -> tf.Tensor:
        """The rows of the names that contain `name`, or else differ in few letters, int32 [n]."""
        plain = _as_plain(name[tf.newaxis])
        letters = tf.strings.unicode_split(self._plain.read_value(), "UTF-8").to_sparse()
        own = tf.strings.unicode_split(tf.repeat(plain, self._count), "UTF-8").to_sparse()
        edits = tf.edit_distance(own, letters, normalize=False)
        searched = tf.strings.regex_replace(plain[0], r"\\", "")
        pattern = tf.strings.join(["(?s).*\\Q", searched, "\\E.*"])
        holds = tf.cast(tf.strings.regex_full_match(self._plain, pattern), tf.float32)
        return tf.math.top_k(1000.0 * holds - edits, min(_NEAR, self._count)).indices


def _rows_where(chosen: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.where(chosen)[:, 0], tf.int32)


def _refuse_any(
    names: tf.Tensor, is_wrong: tf.Tensor, around: tuple[str, str] | list[str]
) -> tf.Operation:
    """Refuses the request if any of its names, string [N], is wrong, bool [N]."""
    wrong = tf.boolean_mask(names, is_wrong)
    before, after = around
    message = tf.cond(
        tf.size(wrong) > 0, lambda: tf.strings.join([before, quoted(wrong[0]), after]), lambda: ""
    )
    return refuse_unless(tf.equal(tf.size(wrong), 0), message)


def _rows_of(wanted: tf.Tensor, known: tf.Tensor) -> tf.Tensor:
    """Where each of M texts stands first among C known ones, int32 [M]; -1 if it does not."""
    count = tf.size(known)
    texts, ids = tf.unique(tf.concat([known, wanted], axis=0))
    first = tf.math.unsorted_segment_min(tf.range(count), ids[:count], tf.size(texts))
    rows = tf.gather(first, ids[count:])
    return tf.where(rows < count, rows, -1)


def _as_plain(names: tf.Tensor) -> tf.Tensor:
    """Names, string [N], without differences in case, spaces and underscores."""
    text = tf.strings.unicode_transcode(names, "UTF-8", "UTF-8")
    text = tf.strings.strip(tf.strings.regex_replace(text, r"[\s\p{Z}_]+", " "))
    return tf.strings.lower(text, encoding="utf-8")
