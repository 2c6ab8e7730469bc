"""Bad input is rejected in one sentence that names it, and changes nothing on disk."""

import pytest

from tests.hunts.bad_input import CASES, defect, prepare, state


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Good and bad files. No command may change them, so all cases share them."""
    folder = tmp_path_factory.mktemp("bad-input")
    prepare(folder)
    return folder


@pytest.mark.timeout(60)
@pytest.mark.parametrize("given", CASES, ids=lambda given: " ".join(map(ascii, given.arguments))[:80])
def test_bad_input_is_rejected_in_one_sentence(given, folder, command, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NONNEG_CACHE", str(tmp_path))
    before = state(folder)
    code, _, printed = command(*given.arguments)
    assert not defect(given, code, printed), printed
    assert state(folder) == before
