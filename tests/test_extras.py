import pytest

from nonneg.errors import InputError
from nonneg.extras import import_extra, needs_extra, require_installed


def test_a_missing_package_is_named_with_the_command_that_installs_it():
    with pytest.raises(InputError, match=r"'x'.*no_such_package, which is not installed: pip install 'nonneg\[hub\]'"):
        import_extra("no_such_package", "x", extra="hub")
    assert import_extra("json", "x").dumps([1]) == "[1]"


def test_a_package_that_fails_while_it_is_imported_is_named(tmp_path, monkeypatch):
    (tmp_path / "built_for_another_torch.py").write_text("raise RuntimeError('no such operator')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"built_for_another_torch.*no such operator"):
        import_extra("built_for_another_torch", "x")


def test_a_missing_part_of_an_installed_package_is_not_called_a_missing_package():
    with pytest.raises(InputError, match=r"json that cannot be imported.*json\.nowhere"), needs_extra("x", "y", "json"):
        import json.nowhere  # noqa: F401


def test_a_package_can_be_required_without_importing_it():
    require_installed("json", "x", extra="hub")
    with pytest.raises(InputError, match=r"--x needs the package no_such_package.*nonneg\[hub\]"):
        require_installed("no_such_package", "--x", extra="hub")
