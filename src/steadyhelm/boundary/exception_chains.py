"""Keep the chain of an exception's causes finite."""


def detach_stop(stop: BaseException, error: BaseException | None) -> None:
    """Cut a stop out of the causes of the error that carried it through a framework.

    The stop is raised anew while that error is handled, and the error becomes its cause or its context: the
    chain would be a circle.

    >>> stop, carrier = ValueError("stop"), RuntimeError("failed")
    >>> carrier.__cause__ = stop
    >>> detach_stop(stop, carrier)
    >>> carrier.__cause__ is None
    True
    """
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        link = waiting.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        if link.__cause__ is stop:
            link.__cause__ = None
        if link.__context__ is stop:
            link.__context__ = None
        waiting += (link.__cause__, link.__context__)
