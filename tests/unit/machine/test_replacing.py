"""`replace` of the machine: what the standard one does, for each value that is replaced."""

import dataclasses
from dataclasses import dataclass

import pytest
from perdure_machine.replacing import replace


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
