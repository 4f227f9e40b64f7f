"""`ClarelError`, a mistake that the user can correct, and text that is safe to print."""


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
    """The text with backslash escapes for all characters that are not printable.

    Names and captions come from untrusted files and servers. A control character in them can move
    the cursor, change colours or hide earlier text.
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
