"""The one exception for what the user can mend."""


class InputError(Exception):
    """Bad input: the message is one line that says what, where, and what would be right.

    The command line prints it without a traceback and exits with status 2.
    """
