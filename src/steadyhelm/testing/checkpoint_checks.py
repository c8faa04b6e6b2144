"""Check that a checkpoint keeper fulfils its contract.

Each check takes a function that creates an empty keeper, and raises AssertionError at the first fault::

    @pytest.mark.parametrize("check", CHECKPOINT_CHECKS, ids=lambda check: check.__name__)
    def test_keeper(check, tmp_path):
        check(lambda: DiskKeeper(tmp_path / "checkpoints"))
"""

# ruff: noqa: SIM300, PLR2004 - a check is a test: expected on the left, numbers specify

from collections.abc import Callable
from typing import Any, Final

from msgspec import structs

from steadyhelm.checkpoint import Checkpoint, CheckpointKeeper

MakeKeeper = Callable[[], CheckpointKeeper]

AT: Final = 1_700_000_000.0
"""The time of the first event."""


def a_checkpoint(seq: int = 0, **fields: Any) -> Checkpoint:
    """Return a checkpoint after this event of a run; any field may be given."""
    defaults: dict[str, Any] = {
        "checkpoint_id": f"checkpoint-{seq}",
        "agent_id": "agent",
        "run_id": "run",
        "turn": seq,
        "taken_at": AT + seq,
        "conversation_history": [{"role": "user", "content": f"turn {seq}"}],
    }
    return Checkpoint(seq=seq, **defaults | fields)


def _fill_keeper(make: MakeKeeper, *checkpoints: Checkpoint) -> CheckpointKeeper:
    keeper = make()
    for checkpoint in checkpoints:
        answer = keeper.keep(checkpoint)
        assert answer.kept, answer.reason
    return keeper


def _list_seqs(keeper: CheckpointKeeper, run_id: str = "run", agent_id: str | None = None) -> list[int]:
    return [checkpoint.seq for checkpoint in keeper.list_checkpoints(run_id, agent_id=agent_id)]


def check_it_comes_back_as_it_was(make: MakeKeeper) -> None:
    """Check that plain data is read back as it was kept, whatever is in it."""
    whole = a_checkpoint(
        7,
        conversation_history=[{"role": "tool", "n": [None, 1, -2.5, True]}, "ünï\0code 😀", b"\xff"],
        goal_tree={"goal": "mend it", "steps": {1: "done"}},
        state_files={"a/b.py": b"\0\xff", "c.txt": "text\r\n", "gone": None, "big": {"git": "4f2a91c"}},
        file_modes={"a/b.py": 0o755},
        session_state=b"\x80state",
        label="before the refactoring",
        meta={"model": "m", "largest": 2**63 - 1, "smallest": -(2**63 - 1)},
    )
    keeper = _fill_keeper(make, whole)
    assert [whole] == keeper.list_checkpoints("run")
    assert whole == keeper.get_last_checkpoint("run")
    keeper.close()


def check_it_shares_nothing_with_what_it_was_handed(make: MakeKeeper) -> None:
    """Check that no checkpoint changes when the agent changes its own lists and dicts."""
    history, tree, files = [{"content": ["a"]}], {"steps": ["a"]}, {"a.py": b"a"}
    keeper = _fill_keeper(make, a_checkpoint(conversation_history=history, goal_tree=tree, state_files=files))
    history[0]["content"].append("b")
    history.append({})
    tree["steps"].clear()
    files["b.py"] = b"b"
    found = keeper.get_last_checkpoint("run")
    assert found is not None
    assert [{"content": ["a"]}] == found.conversation_history
    assert ({"steps": ["a"]}, {"a.py": b"a"}) == (found.goal_tree, found.state_files)
    keeper.close()


def check_it_shares_nothing_with_what_it_hands_out(make: MakeKeeper) -> None:
    """Check that changing a returned checkpoint does not change the stored one."""
    keeper = _fill_keeper(make, a_checkpoint())
    first = keeper.get_last_checkpoint("run")
    assert first is not None
    first.conversation_history[0]["content"] = "changed"
    first.conversation_history.clear()
    assert a_checkpoint() == keeper.get_last_checkpoint("run")
    assert [a_checkpoint()] == keeper.list_checkpoints("run")
    keeper.close()


def check_the_newest_comes_first(make: MakeKeeper) -> None:
    """Check that checkpoints come in the order of their events, then of their times."""
    again = a_checkpoint(3, checkpoint_id="again", taken_at=AT + 99)
    keeper = _fill_keeper(make, a_checkpoint(3), a_checkpoint(10), again, a_checkpoint(-1), a_checkpoint(0))
    assert [10, 3, 3, 0, -1] == _list_seqs(keeper)
    assert "again" == keeper.list_checkpoints("run")[1].checkpoint_id
    keeper.close()


def check_rollbacks_skip_checkpoints_of_incidents(make: MakeKeeper) -> None:
    """Check that a checkpoint of an incident is listed, and never returned to."""
    keeper = _fill_keeper(
        make, a_checkpoint(1), a_checkpoint(2, in_incident=True), a_checkpoint(3, in_incident=True)
    )
    last = keeper.get_last_checkpoint("run")
    assert last is not None
    assert (1, [3, 2, 1]) == (last.seq, _list_seqs(keeper))
    keeper.drop("run", after_seq=-1)
    assert keeper.keep(a_checkpoint(4, in_incident=True)).kept
    assert keeper.get_last_checkpoint("run") is None
    keeper.close()


def check_one_can_return_before_the_trouble(make: MakeKeeper) -> None:
    """Check that `before_seq` leaves out what was taken after that event or a later one."""
    keeper = _fill_keeper(make, a_checkpoint(1), a_checkpoint(5), a_checkpoint(9))
    for before, expected in ((10, 9), (9, 5), (6, 5), (5, 1), (2, 1)):
        last = keeper.get_last_checkpoint("run", before_seq=before)
        assert last is not None
        assert expected == last.seq, before
    assert keeper.get_last_checkpoint("run", before_seq=1) is None
    keeper.close()


def check_runs_are_kept_apart(make: MakeKeeper) -> None:
    """Check that a run has its own checkpoints only, even where another agent's run has the same id."""
    keeper = _fill_keeper(
        make,
        a_checkpoint(1),
        a_checkpoint(2, run_id="other"),
        a_checkpoint(3, agent_id="other"),
        a_checkpoint(1, agent_id="other"),
    )
    assert ([1], [3, 1]) == (_list_seqs(keeper, agent_id="agent"), _list_seqs(keeper, agent_id="other"))
    assert ([3, 1, 1], [2]) == (_list_seqs(keeper), _list_seqs(keeper, "other"))
    mine = keeper.get_last_checkpoint("run", agent_id="agent")
    assert mine == a_checkpoint(1)
    assert 1 == keeper.drop("run", agent_id="agent")
    assert [3, 1] == _list_seqs(keeper)
    keeper.close()


def check_a_run_nobody_knows_has_none(make: MakeKeeper) -> None:
    """Check that an unknown run has no checkpoints, without an error."""
    keeper = make()
    assert ([], None) == (keeper.list_checkpoints("never"), keeper.get_last_checkpoint("never"))
    assert (0, 0) == (keeper.drop("never"), keeper.prune(AT))
    keeper.close()


def check_the_same_id_replaces(make: MakeKeeper) -> None:
    """Check that a checkpoint kept again replaces the first, even after another event."""
    keeper = _fill_keeper(make, a_checkpoint(1), a_checkpoint(1), a_checkpoint(1, label="named"))
    assert ["named"] == [checkpoint.label for checkpoint in keeper.list_checkpoints("run")]
    keeper.keep(a_checkpoint(2, checkpoint_id="checkpoint-1"))
    assert [2] == _list_seqs(keeper)
    keeper.close()


def check_the_number_is_bounded(make: MakeKeeper) -> None:
    """Check that the newest and the first are kept, however many are taken; other runs are not affected."""
    keeper = make()
    count = keeper.per_run * 3
    keeper.keep(a_checkpoint(0, run_id="other"))
    for seq in range(count):
        keeper.keep(a_checkpoint(seq))
    newest = list(range(count - 1, count - 1 - keeper.per_run, -1))
    assert [*newest, 0] == _list_seqs(keeper)
    assert [0] == _list_seqs(keeper, "other")
    keeper.close()


def check_incident_checkpoints_remove_no_others(make: MakeKeeper) -> None:
    """Check that a long incident with many checkpoints does not push out those before it."""
    keeper = make()
    clean = keeper.per_run
    for seq in range(clean):
        keeper.keep(a_checkpoint(seq))
    for seq in range(clean, clean * 4):
        keeper.keep(a_checkpoint(seq, in_incident=True))
    left = keeper.list_checkpoints("run")
    assert list(range(clean - 1, -1, -1)) == [it.seq for it in left if not it.in_incident]
    assert list(range(clean * 4 - 1, clean * 3 - 1, -1)) == [it.seq for it in left if it.in_incident]
    keeper.close()


def check_a_run_can_be_forgotten(make: MakeKeeper) -> None:
    """Check that a run's checkpoints can be removed, all or those after a rollback."""
    keeper = _fill_keeper(make, *(a_checkpoint(seq) for seq in range(5)), a_checkpoint(9, in_incident=True))
    assert 3 == keeper.drop("run", after_seq=2)
    assert [2, 1, 0] == _list_seqs(keeper)
    assert (3, 0) == (keeper.drop("run"), keeper.drop("run"))
    assert [] == _list_seqs(keeper)
    assert keeper.keep(a_checkpoint(1)).kept
    assert [1] == _list_seqs(keeper)
    keeper.close()


def check_the_old_can_be_pruned(make: MakeKeeper) -> None:
    """Check that `prune` removes what was taken before a time, in every run."""
    keeper = _fill_keeper(make, *(a_checkpoint(seq, run_id=f"run-{seq % 2}") for seq in range(6)))
    assert 3 == keeper.prune(AT + 3)
    assert ([4], [5, 3]) == (_list_seqs(keeper, "run-0"), _list_seqs(keeper, "run-1"))
    assert (0, 3) == (keeper.prune(float("nan")), keeper.prune(AT + 1e6))
    keeper.close()


def check_ids_may_be_any_text(make: MakeKeeper) -> None:
    """Check that an id is text and nothing else: no path, no pattern, no limit."""
    paths = ["", ".", "..", "../../escape", "/etc/passwd", "a/b", "a\\b", "*"]
    ids = [*paths, "nul\0", "ü😀", "A", "a", "x" * 5000]
    keeper = make()
    for number, name in enumerate(ids):
        assert keeper.keep(a_checkpoint(number, run_id=name, agent_id=name, checkpoint_id=name)).kept, name
    for number, name in enumerate(ids):
        assert [number] == _list_seqs(keeper, name, agent_id=name), name
    assert keeper.keep(a_checkpoint(1, run_id="half \ud800", checkpoint_id="half \udfff")).kept
    assert [1] == _list_seqs(keeper, "half \ud800")
    keeper.close()


class _Stubborn:
    """An object that raises whenever it is read."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


def check_anything_may_arrive(make: MakeKeeper) -> None:
    """Check that what has no plain form is converted, and that the record says so."""
    endless: list[Any] = ["itself"]
    endless.append(endless)
    strange: list[Any] = [object(), {1, 2}, (1,), 2**200, "half \ud800", {None: 1}, _Stubborn(), endless]
    checkpoint = a_checkpoint(
        conversation_history=strange,
        goal_tree=_Stubborn(),
        meta=None,
        state_files={"a": _Stubborn(), "b": b""},
    )
    keeper = make()
    answer = keeper.keep(checkpoint)
    assert answer.kept, answer.reason
    found = keeper.get_last_checkpoint("run")
    assert found is not None
    assert len(strange) == len(found.conversation_history)
    assert {"b": b""} == found.state_files
    assert answer.reduced == found.reduced
    for place in ("conversation_history[0]", "conversation_history[7][1]", "goal_tree", "state_files.a"):
        assert any(note.startswith(place) for note in found.reduced), place
    assert keeper.keep(structs.replace(found, checkpoint_id="again")).kept
    keeper.close()


def check_odd_numbers_are_no_error(make: MakeKeeper) -> None:
    """Check that counts and times may be anything; in doubt a checkpoint is not one to return to."""
    keeper = make()
    odd: list[Any] = [float("nan"), float("inf"), -1e300, None, "7", True, 2**100, -(2**100), _Stubborn()]
    for number, value in enumerate(odd):
        checkpoint = a_checkpoint(
            0, checkpoint_id=str(number), turn=value, taken_at=value, session_state=value
        )
        assert keeper.keep(structs.replace(checkpoint, seq=value)).kept, repr(value)
    found = keeper.list_checkpoints("run")
    assert len(odd) >= len(found) >= 1
    for checkpoint in found:
        assert (int, int) == (type(checkpoint.seq), type(checkpoint.turn))
        assert 0 <= checkpoint.taken_at < float("inf")
    keeper.close()


def check_closing_is_harmless(make: MakeKeeper) -> None:
    """Check that a keeper may be closed twice, has a name, and has a limit per run."""
    keeper = _fill_keeper(make, a_checkpoint())
    keeper.after_fork()
    keeper.close()
    keeper.close()
    assert isinstance(keeper.name, str)
    assert keeper.name
    assert keeper.per_run >= 1


CHECKPOINT_CHECKS: Final[tuple[Callable[[MakeKeeper], None], ...]] = (
    check_it_comes_back_as_it_was,
    check_it_shares_nothing_with_what_it_was_handed,
    check_it_shares_nothing_with_what_it_hands_out,
    check_the_newest_comes_first,
    check_rollbacks_skip_checkpoints_of_incidents,
    check_one_can_return_before_the_trouble,
    check_runs_are_kept_apart,
    check_a_run_nobody_knows_has_none,
    check_the_same_id_replaces,
    check_the_number_is_bounded,
    check_incident_checkpoints_remove_no_others,
    check_a_run_can_be_forgotten,
    check_the_old_can_be_pruned,
    check_ids_may_be_any_text,
    check_anything_may_arrive,
    check_odd_numbers_are_no_error,
    check_closing_is_harmless,
)
