import pytest

from nonneg.errors import InputError
from nonneg.extras import import_extra


def test_a_missing_package_is_named_with_the_command_that_installs_it():
    with pytest.raises(InputError, match=r"'x'.*no_such_package.*pip install 'nonneg\[hub\]'"):
        import_extra("no_such_package", "x", extra="hub")
    assert import_extra("json", "x").dumps([1]) == "[1]"


def test_a_package_that_fails_while_it_is_imported_is_named(tmp_path, monkeypatch):
    (tmp_path / "built_for_another_torch.py").write_text("raise RuntimeError('no such operator')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"built_for_another_torch.*no such operator"):
        import_extra("built_for_another_torch", "x")
