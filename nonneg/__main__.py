"""`python -m nonneg` is `nonneg`."""

from nonneg.cli import main

main()
