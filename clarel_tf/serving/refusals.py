"""Refusals: what an exported graph says about a request that it does not answer.

The graph raises them as assertions, so that the request gets an error and the server continues.
TensorFlow surrounds the text with names of operations; a client takes them off again.
"""

import re

import tensorflow as tf

_RAISED = re.compile(r"assertion failed: \[(.*?)\]\s*(\[\[|\(\d+\)|\n|$)", re.DOTALL)
_NOT_FINITE = re.compile(r"([^{}\n]+) : Tensor had ([^\[\n]+) values")
_ESCAPED = re.compile(rb"""\\([0-7]{3}|[nrt'"\\])""")
_LONGEST_NAME = 80  # characters of a name in a message
_MOST_PICTURES = 8  # in a message
_PICTURE = re.compile(r"image_bytes\[(\d{1,9})\] ")


def refuse_unless(condition: tf.Tensor, message: str | tf.Tensor) -> tf.Operation:
    """Refuses the request with `message` if the condition is false."""
    return tf.Assert(condition, [message])


def refuse_pictures(problems: tf.Tensor) -> tf.Operation:
    """Refuses the request if one of its pictures has a problem, string [B], and names the rows."""
    rows = tf.where(problems != "")[:, 0]
    named = rows[:_MOST_PICTURES]
    parts = ["image_bytes[", tf.strings.as_string(named), "] ", tf.gather(problems, named)]
    listed = tf.strings.reduce_join(tf.strings.join(parts), separator="; ")
    more = tf.strings.as_string(tf.size(rows) - _MOST_PICTURES)
    more = tf.where(tf.size(rows) > _MOST_PICTURES, tf.strings.join(["; and ", more, " more"]), "")
    return refuse_unless(tf.equal(tf.size(rows), 0), tf.strings.join([listed, more]))


def refused_pictures(text: str) -> dict[int, str]:
    """The rows of pictures and their problems, as far as a message of `refuse_pictures` names them.

    Other messages name none.
    """
    _, *found = _PICTURE.split(text)
    rows, problems = map(int, found[::2]), found[1::2]
    plain = (re.sub(r"(; and \d+ more)?[;\s]*$", "", problem) for problem in problems)
    return dict(zip(rows, plain, strict=True))


def quoted(name: tf.Tensor) -> tf.Tensor:
    """A name of a request as part of a message, string [] -> string []."""
    text = tf.strings.unicode_transcode(name, "UTF-8", "UTF-8")  # or it could not be cut
    return tf.strings.join(["'", tf.strings.substr(text, 0, _LONGEST_NAME, unit="UTF8_CHAR"), "'"])


def plain_refusal(text: str) -> str:
    """The message in TensorFlow's report of a refusal; any other text as it is."""
    found = _RAISED.search(text)
    if not found:
        found = _NOT_FINITE.search(text)
        return f"{found[1].strip()} (there is {found[2]})" if found else text
    plain = _ESCAPED.sub(_unescaped, found[1].encode("utf-8", "replace"))
    return plain.decode("utf-8", "replace")


def _unescaped(match: re.Match[bytes]) -> bytes:
    """A character that TensorFlow has written as an escape sequence."""
    code = match[1]
    if code.isdigit():
        return bytes([int(code, 8) & 255])
    return b" " if code in b"nrt" else code


def of_width(image_features: tf.Tensor, width: int) -> tf.Tensor:
    """Image features, float32 [B, D]; those of another width are refused by name."""
    # The static shape says D already; checked against that, every request would pass.
    given = tf.compat.v1.placeholder_with_default(image_features, [None, None])
    found = tf.shape(given)[1]
    message = tf.strings.join(wrong_width(tf.strings.as_string(found), width))
    check = refuse_unless(tf.equal(found, width), message)
    with tf.control_dependencies([check]):
        return tf.ensure_shape(tf.identity(given), [None, width])


def wrong_width(found: str | tf.Tensor, width: int) -> list[str | tf.Tensor]:
    """The parts of the message for image features of another width."""
    return [
        "image_features have ",
        found,
        f" numbers for each image, but this model takes {width}; use the network that made the "
        "features of the training data",
    ]
