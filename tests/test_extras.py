import pytest

from nonneg.errors import InputError
from nonneg.extras import import_extra


def test_a_missing_package_is_named_with_the_command_that_installs_it():
    with pytest.raises(InputError, match=r"'x'.*no_such_package.*pip install 'nonneg\[hub\]'"):
        import_extra("no_such_package", "x", extra="hub")
    assert import_extra("json", "x").dumps([1]) == "[1]"
