"""Read objects of the host without running its code: by their real types, never by what they say they are.

An object may lie about its class, fail at whatever is asked of it, ask a server, or count what is called. So
nothing is called on an object but what its type is known to do.
"""

import sys
import types
from typing import Any, Final, TypeGuard, TypeVar

MAX_CHARS: Final = 8192
"""How much of a text, an error or the data of one event is read."""
MAX_ITEMS: Final = 1000
_MAX_TYPES: Final = 1024

MISSING: Final = object()
T = TypeVar("T")

# Asked of `type` itself, these run no code of a metaclass.
get_mro: Final = type.__dict__["__mro__"].__get__
get_attributes: Final = type.__dict__["__dict__"].__get__
get_type_name: Final = type.__dict__["__name__"].__get__
_get_module_attributes: Final = vars(types.ModuleType)["__dict__"].__get__
_dictionaries: Final[dict[int, tuple[type, Any]]] = {}
"""The descriptor of the instance dictionaries of the latest types: it takes a walk over their bases."""
_SLOTS: Final = (types.GetSetDescriptorType, types.MemberDescriptorType)
_FUNCTIONS: Final = (
    types.FunctionType, types.WrapperDescriptorType, types.MethodDescriptorType, types.BuiltinFunctionType,
)  # fmt: skip


def name_type(value: object) -> str:
    """Return the name of an object's real type, at most 100 characters of it."""
    return str.__getitem__(get_type_name(type(value)), slice(100))


def is_a(value: object, kind: type[T] | tuple[type[T], ...]) -> TypeGuard[T]:
    """Return whether an object's real type is one of these built-in classes, or inherits from one.

    `isinstance` asks the object too, which may lie or fail. The classes must not be abstract ones, which ask
    their own hooks.
    """
    return issubclass(type(value), kind)


def has_base(value: object, kind: type) -> bool:
    """Return whether an object's real type inherits from a class, which may be an abstract one.

    A class that was only registered as one is not found: an abstract class would ask its hooks for it.
    """
    return any(base is kind for base in get_mro(type(value)))


def read_field(value: object, name: str) -> Any:
    """Return an attribute that an object or its type holds; `MISSING` where only code could compute it."""
    own = read_own_attributes(value)
    if name in own:
        return own[name]
    found = MISSING
    for base in get_mro(type(value)):
        found = get_attributes(base).get(name, MISSING)
        if found is not MISSING:
            break
    if type(found) is types.MemberDescriptorType:
        try:
            return found.__get__(value)
        except AttributeError:  # a slot without a value
            return MISSING
    is_plain = found is not MISSING and find_attribute(type(found), "__get__") is MISSING
    return found if is_plain else MISSING


def has_methods(value: object, *methods: str) -> bool:
    """Return whether the object's type defines all of these methods as functions.

    A proxy or a mock has something of its own in their place, which would ask what is behind it.
    """
    found = [type(find_attribute(type(value), method)) for method in methods]
    return all(any(kind is it for it in _FUNCTIONS) for kind in found)


def bind_methods(value: object) -> dict[str, Any]:
    """Return the public methods that the type of an object defines, bound to it; none of them is called.

    >>> bind_methods((1, 2, 2))["count"](2)
    2
    """
    found: dict[str, Any] = {}
    for base in () if is_a(value, type) else reversed(get_mro(type(value))):
        for name, method in get_attributes(base).items():
            if type(name) is not str or name.startswith("_"):
                continue
            found.pop(name, None)  # what a type defines anew is no method any more, or another one
            if type(method) is types.FunctionType:
                found[name] = types.MethodType(method, value)
            elif type(method) is types.MethodDescriptorType:
                found[name] = method.__get__(value)
    return found


def is_pydantic_model(value: object) -> bool:
    """Return whether an object is a model of Pydantic, of either generation; nothing is imported for it."""
    bases = get_mro(type(value))
    models = (find_foreign_type(module, "BaseModel") for module in ("pydantic.main", "pydantic.v1.main"))
    return any(model is not None and any(base is model for base in bases) for model in models)


def cut_text(text: str, size: int = MAX_CHARS) -> str:
    """Return a text that can be written as UTF-8; of a long one its beginning, its length and its end."""
    length = str.__len__(text)
    if length > size:
        half = size // 2
        head, tail = str.__getitem__(text, slice(half)), str.__getitem__(text, slice(length - half, length))
        text = f"{head}…[{length} characters]…{tail}"
    elif type(text) is not str:
        text = str.__str__(text)
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def find_attribute(kind: type, name: str) -> Any:
    """Return what a type or its bases define under a name; `MISSING` when there is nothing."""
    for base in get_mro(kind):
        attributes = get_attributes(base)
        if name in attributes:
            return attributes[name]
    return MISSING


def read_own_attributes(value: object) -> dict[str, Any]:
    """Return the real instance dictionary of an object; empty when it has none."""
    kind = type(value)
    known = _dictionaries.get(id(kind))
    if known is None or known[0] is not kind:
        known = kind, _find_dictionary(kind)
        if len(_dictionaries) >= _MAX_TYPES:
            _dictionaries.clear()
        _dictionaries[id(kind)] = known
    own = known[1].__get__(value) if known[1] is not None else None
    return own if type(own) is dict else {}


def _find_dictionary(kind: type) -> Any:
    """Return the descriptor of the instance dictionaries of a type; None when they have none."""
    for base in get_mro(kind):
        descriptor = get_attributes(base).get("__dict__")
        if any(type(descriptor) is it for it in _SLOTS):
            return descriptor
    return None


def find_foreign_type(module: str, name: str) -> type | None:
    """Return a class of another package by its name; None where that package is not loaded."""
    loaded = sys.modules.get(module)
    if loaded is None or not issubclass(type(loaded), types.ModuleType):
        return None
    found = _get_module_attributes(loaded).get(name)
    return found if type(found) is not types.FunctionType and isinstance(found, type) else None
