import copy

import pytest

from steadyhelm.boundary.entry_points import WatchedObject


class Crew:
    """Something with a name, and something to be set."""

    name = "books"
    stream = False


def test_what_is_read_is_the_objects_own():
    """
    Everything but its entry points is passed through.
    """
    assert "books" == WatchedObject(Crew()).name


def test_what_is_set_is_set_on_the_object():
    """
    A setting made on the watched object is made on the object it stands for.
    """
    crew = Crew()
    WatchedObject(crew).stream = True

    assert crew.stream


def test_what_is_not_there_is_not_there():
    """
    A name the object does not have is an attribute error, as ever.
    """
    with pytest.raises(AttributeError):
        _ = WatchedObject(object()).name


def test_it_can_be_copied():
    """
    A copy stands for the same object.
    """
    crew = Crew()

    assert crew is copy.copy(WatchedObject(crew))._agent
