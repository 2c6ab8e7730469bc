"""Settings are checked by name, type and bounds."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from nonneg.errors import InputError
from nonneg.validation import build, check_fields


@dataclass(frozen=True)
class Inner:
    depth: Annotated[int, Field(ge=1)] = 2

    def __post_init__(self) -> None:
        check_fields(self, "inner.")


@dataclass(frozen=True)
class Settings:
    count: Annotated[int, Field(ge=1, le=9)] = 3
    rate: Annotated[float, Field(gt=0, lt=1)] = 0.5
    kind: Literal["red", "blue"] = "red"
    label: str = ""
    is_on: bool = False
    sizes: tuple[float, ...] = ()
    inner: Inner = field(default_factory=Inner)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Named:
    """Reads its own tables."""

    name: str = ""

    @classmethod
    def from_table(cls, content: Any, prefix: str) -> "Named":
        return cls(f"{prefix}{content['name']}")


@dataclass(frozen=True)
class Outer:
    named: Named = field(default_factory=Named)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": 0}, r"^count is 0.*at least 1"),
        ({"count": 10}, r"^count is 10.*at most 9"),
        ({"count": 2.0}, r"^count is 2\.0.*whole number"),
        ({"count": True}, r"^count is True.*whole number"),
        ({"count": "3"}, r"^count is '3'.*whole number"),
        ({"count": None}, r"^count is None"),
        ({"rate": 0}, r"^rate is 0.*more than 0"),
        ({"rate": 1.0}, r"^rate is 1\.0.*less than 1"),
        ({"rate": float("nan")}, r"^rate is nan.*finite"),
        ({"rate": float("inf")}, r"^rate is inf"),
        ({"rate": "high"}, r"^rate is 'high'.*number"),
        ({"kind": "green"}, r"^kind is 'green'.*red, blue"),
        ({"label": 3}, r"^label is 3.*string"),
        ({"is_on": 1}, r"^is_on is 1.*true or false"),
        ({"sizes": 0.5}, r"^sizes is 0\.5.*list"),
        ({"sizes": [1.0, "two"]}, r"^sizes is \(1\.0, 'two'\)"),
    ],
)
def test_an_error_names_the_field_the_value_and_what_was_expected(change, message):
    with pytest.raises(InputError, match=message) as error:
        Settings(**change)
    assert "\n" not in str(error.value)


def test_valid_values_are_kept():
    settings = Settings(9, 0.25, "blue", "x", True, (1.5,), Inner(7))
    assert (settings.count, settings.rate, settings.kind, settings.inner.depth) == (9, 0.25, "blue", 7)


def test_whole_numbers_become_floats_and_lists_become_tuples():
    settings = Settings(sizes=[1, 2.5])
    assert settings.sizes == (1.0, 2.5)
    assert all(type(size) is float for size in settings.sizes)


def test_the_prefix_precedes_the_name_of_the_field():
    with pytest.raises(InputError, match=r"^inner\.depth is 0"):
        Inner(0)


def test_a_dataclass_is_built_from_nested_tables():
    assert build(Settings, {"count": 4, "inner": {"depth": 5}}) == Settings(count=4, inner=Inner(5))
    assert build(Settings, {"inner": Inner(6)}).inner == Inner(6)
    assert build(Settings, {}) == Settings()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"cuont": 4}, r"^cuont .*count"),
        ({"inner": {"dept": 1}}, r"^inner\.dept .*inner\.depth"),
        ({"something": 1}, r"^something "),
        ({"inner": 3}, r"^inner is 3.*table"),
        ({"inner": {"depth": 0}}, r"^inner\.depth is 0"),
    ],
)
def test_an_error_in_a_table_names_the_key(content, message):
    with pytest.raises(InputError, match=message):
        build(Settings, content)


def test_only_similar_names_are_suggested():
    with pytest.raises(InputError) as error:
        build(Settings, {"something": 1})
    assert not any(name in str(error.value) for name in ("count", "rate", "kind"))


def test_a_class_with_from_table_reads_its_own_tables():
    assert build(Outer, {"named": {"name": "x"}}).named.name == "named.x"
