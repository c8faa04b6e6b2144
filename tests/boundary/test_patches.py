"""Replaced methods and functions come back, and every name they were imported under sees the replacement."""

import asyncio
import inspect

from steadyhelm.boundary.patches import Patches


class Base:
    def greet(self, name):
        return f"hello {name}"


class Agent(Base):
    pass


def make_agent(model, *, tools=()):
    return model, tools


imported_before = make_agent


async def query(prompt):
    for word in prompt.split():
        yield word


def loud(original):
    return lambda *args, **kwargs: str(original(*args, **kwargs)).upper()


def read_all(stream):
    async def read():
        return [part async for part in stream]

    return asyncio.run(read())


class TestMethods:
    def test_an_inherited_method_is_replaced_and_removed_again(self):
        """
        A method of a base class is replaced in the subclass alone, and is the inherited one afterwards.
        """
        patches, existing = Patches(), Agent()
        patches.replace_method(Agent, "greet", loud)
        assert ("HELLO YOU", "hello you") == (existing.greet("you"), Base().greet("you"))
        patches.undo()
        patches.undo()

        assert "greet" not in vars(Agent)
        assert "hello you" == existing.greet("you")

    def test_what_another_library_replaced_stays(self):
        """
        A replacement of our replacement is left alone, and `is_active` lets ours call the original.
        """
        patches = Patches()

        def make(original):
            return lambda self, name: f"watched {patches.is_active}: {original(self, name)}"

        own = vars(Base)["greet"]
        patches.replace_method(Base, "greet", make)
        ours = Base.greet
        theirs = Base.greet = lambda self, name: f"theirs: {ours(self, name)}"
        try:
            patches.undo()
            assert theirs is Base.greet
            assert "theirs: watched False: hello you" == Base().greet("you")
        finally:
            Base.greet = own


class TestFunctions:
    def test_a_name_imported_before_is_replaced_too(self):
        """
        A function is replaced for all who hold it, keeps its signature, and is itself again afterwards.
        """
        patches, signature = Patches(), inspect.signature(make_agent)
        patches.replace_function(make_agent, loud)
        try:
            assert "('M', ['T'])" == imported_before("m", tools=["t"])
            assert signature == inspect.signature(imported_before)
        finally:
            patches.undo()

        assert ("m", ()) == imported_before("m")
        assert signature == inspect.signature(imported_before)

    def test_a_function_inside_another_one_is_replaced_too(self):
        """
        A decorated function, which uses variables of its decorator, is replaced and comes back.
        """
        ends, count = "!", 2

        def shout(word):
            return word + ends * count

        held, patches = shout, Patches()
        patches.replace_function(shout, loud)
        try:
            assert "HEY!!" == held("hey")
        finally:
            patches.undo()

        assert ("hey!!", ("count", "ends")) == (held("hey"), held.__code__.co_freevars)

    def test_a_stream_stays_a_stream(self):
        """
        An asynchronous generator function is replaced by one, which closes what it reads from.
        """
        patches, closed = Patches(), []

        def make(original):
            async def watched(*args, **kwargs):
                try:
                    async for part in original(*args, **kwargs):
                        yield part.upper()
                finally:
                    closed.append(True)

            return watched

        async def read_one():
            stream = query("a b")
            first = await anext(stream)
            await stream.aclose()
            return first

        patches.replace_function(query, make)
        try:
            assert inspect.isasyncgenfunction(query)
            assert ["A", "B"] == read_all(query("a b"))
            assert ("A", [True, True]) == (asyncio.run(read_one()), closed)
        finally:
            patches.undo()
        assert ["a", "b"] == read_all(query("a b"))
