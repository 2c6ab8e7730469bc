"""Errors that are the user's to fix; their messages say how."""


class InputError(ValueError):
    """A file, argument or setting that cannot be used.

    The message is one sentence that names the argument or file, what was found and what was expected. The command
    line prints it and exits with code 2.
    """

    exit_code = 2


class UntrainableError(InputError):
    """A run that failed because of its settings: it diverged, or all of its features died."""


class StoppedError(InputError):
    """A run that a signal stopped after it saved its work; the exit code is that of the signal."""

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal
