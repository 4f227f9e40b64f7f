"""The one exception that stands for a mistake the user can put right."""


class ClarelError(Exception):
    """Bad input, a bad flag or a folder in the wrong state.

    Its text is the whole message a user sees: what is wrong, in which file or flag, and what to
    do. The `*_main.py` programs print it on one line and exit with 1; any other exception is a
    bug and keeps its traceback.
    """
