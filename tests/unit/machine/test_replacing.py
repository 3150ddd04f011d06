"""Values of the machine are made and replaced as the standard library does it, only faster."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import pytest
from perdure_machine.replacing import quickly_made, replace


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0

    @property
    def sum(self) -> int:
        return self.x + self.y


def test_a_replaced_value_is_one_of_its_class_that_differs_in_the_named_fields_alone() -> None:
    point = Point(1, 2)
    moved = replace(point, y=5)
    assert moved == dataclasses.replace(point, y=5) == Point(1, 5)
    assert (type(moved), hash(moved), moved.sum) == (Point, hash(Point(1, 5)), 6)
    assert point == Point(1, 2)


def test_a_replaced_value_is_as_frozen_as_it_was() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        replace(Point(1), y=5).x = 3  # type: ignore[misc]


def test_a_field_that_the_class_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="z"):
        replace(Point(1), z=5)  # type: ignore[call-arg]


@quickly_made
@dataclass(frozen=True, slots=True)
class Place:
    name: str
    point: Point = Point(0)
    level: int | None = None


def test_a_quickly_made_value_is_as_the_dataclass_would_make_it() -> None:
    place = Place("a", level=3)
    assert (place.name, place.point, place.level) == ("a", Point(0), 3)
    assert place == Place("a", Point(0), 3) != Place("a")
    assert (type(place), hash(place)) == (Place, hash(Place("a", Point(0), 3)))
    assert replace(place, name="b") == Place("b", Point(0), 3)


def test_a_quickly_made_value_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Place("a").name = "b"  # type: ignore[misc]


@pytest.mark.parametrize("given", [{}, {"name": "a", "z": 1}])
def test_what_does_not_fit_the_fields_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Place(**given)


def test_a_class_whose_defaults_are_made_for_each_value_is_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Many:
        points: list[Point] = field(default_factory=list)

    with pytest.raises(TypeError, match=r"Many\.points"):
        quickly_made(Many)
