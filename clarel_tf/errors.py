"""The one exception that stands for a mistake the user can put right, and text safe to show."""


class ClarelError(Exception):
    """Bad input, a bad flag or a folder in the wrong state.

    Its text is the whole message a user sees: what is wrong, in which file or flag, and what to
    do. The `*_main.py` programs print it on one line and exit with 1; any other exception is a
    bug and keeps its traceback.

    Example:

    >>> try:
    ...     clarel_tf.preset("slow")
    ... except clarel_tf.ClarelError as error:
    ...     print(error)
    unknown preset 'slow'; choose one of: paper, fast, tiny
    """


def brief(error: BaseException) -> str:
    """Another library's error as part of a message: its kind and the beginning of its text."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def printable(text: str) -> str:
    """The text with backslash escapes for all characters that a terminal would not just show.

    Names and captions come from files and servers of other people. A control character among them
    can move the cursor, change colours or hide what stands before it.
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
