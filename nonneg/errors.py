"""The one error that means "the input is wrong, and here is what to do"."""


class InputError(ValueError):
    """A file, argument or setting that cannot be used, said in one sentence.

    The command line prints the sentence and exits with code 2. The message names what was
    given, what was found there and what was expected.
    """

    exit_code = 2


class UntrainableError(InputError):
    """A run that came to nothing with the settings it was given: it diverged, or all of its features died."""


class StoppedError(InputError):
    """A run that was told to stop and has saved its work; the command exits as one ended by that signal does."""

    def __init__(self, sentence: str, signal: int) -> None:
        super().__init__(sentence)
        self.exit_code = 128 + signal
