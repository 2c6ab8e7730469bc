"""The one error that means "the input is wrong, and here is what to do"."""


class InputError(ValueError):
    """A file, argument or setting that cannot be used, said in one sentence.

    The command line prints the sentence and exits with code 2. The message names what was
    given, what was found there and what was expected.
    """
