from agent_steps import call, reported, run

from steadyhelm.loops.repetitions import RepetitionMemory

VIEW = "[09:22:{0}] window: Tax form, page {1} of 5. Next: greyed out. Render {0} ms, cursor {2},{3}"
PLACES = ((31, 412, 233), (44, 98, 571), (57, 640, 12), (59, 300, 299))


def test_the_pointer():
    """
    Where the pointer is on the screen is no news, but the page of a form is.
    """
    same = [call("screenshot", {}, VIEW.format(s, 3, x, y)) for s, x, y in PLACES]
    pages = [call("screenshot", {}, VIEW.format(s, n, x, y)) for n, (s, x, y) in enumerate(PLACES, 1)]

    assert [2, 3] == reported(RepetitionMemory(), run(*same))
    assert [] == reported(RepetitionMemory(), run(*pages))
