import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.loops.kinds import classify_call

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=6,
)


class TestKind:
    @pytest.mark.parametrize(
        ("name", "args", "kind"),
        [
            ("Read", {"file_path": "a.py"}, "look"),
            ("read_file", {"path": "a.py"}, "look"),
            ("Grep", {"pattern": "x"}, "look"),
            ("WebSearch", {"query": "x"}, "look"),
            ("Edit", {"file_path": "a.py"}, "work"),
            ("MultiEdit", {}, "work"),
            ("Write", {"file_path": "a.py"}, "work"),
            ("apply_patch", {"input": "*** Begin Patch"}, "work"),
            ("replace", {"file_path": "a.py"}, "work"),
            ("send_email", {"to": "me"}, "work"),
            ("cancel_reservation", {"id": "A1"}, "work"),
            ("get_post", {"id": 4}, "look"),
            ("describe_trigger", {"id": 4}, "look"),
            ("trigger_build", {"branch": "main"}, "work"),
            ("archive_search", {"q": "tram"}, "look"),
            ("get_or_create_user", {"id": 4}, "work"),
            ("search_replace", {"file": "a.py"}, "work"),
            ("archive_mail", {"id": 4}, "work"),
            ("TodoWrite", {"todos": []}, "plan"),
            ("think", {"thought": "hm"}, "plan"),
            ("update_plan", {"plan": []}, "plan"),
            ("task_state", {"task": "7"}, "look"),
            ("get_task", {"id": 7}, "look"),
            ("TodoRead", {}, "look"),
            ("update_task_status", {"id": 7}, "plan"),
            ("check_upload", {"id": 7}, "look"),
            ("deploy_status", {}, "look"),
            ("post_status", {"text": "hi"}, "work"),
            ("set_state", {"on": True}, "work"),
            ("wait_for_build", {}, "wait"),
            ("wait_for_task", {"id": 7}, "wait"),
            ("sleep", {"seconds": 5}, "wait"),
            ("calendar", {"action": "create"}, "work"),
            ("calendar", {"action": "list"}, "look"),
            ("terminal", {"action": "wait"}, "wait"),
            ("sql", {"q": "CREATE INDEX i0 ON t (a)"}, "work"),
            ("sql", "insert into t values (1)", "work"),
            ("run_query", {"query": "update t\nset a = 1 where b = 2"}, "work"),
            ("execute", {"statement": "-- tidy up\nDELETE FROM t WHERE a IS NULL;"}, "work"),
            ("db.exec", {"sql": "begin; alter table t add column a int; commit"}, "work"),
            ("mysql_query", {"query": "CREATE UNIQUE INDEX i ON t (a)"}, "work"),
            ("sql", {"q": "WITH old AS (SELECT 1) DELETE FROM t USING old"}, "work"),
            ("sql", {"q": "GRANT SELECT ON t TO reader"}, "work"),
            ("sql", {"q": "SELECT updated, set_at FROM t"}, "look"),
            ("sql", {"q": "EXPLAIN ANALYZE DELETE FROM t"}, "look"),
            ("sql", {"q": "SHOW INDEXES FROM t"}, "look"),
            ("search_docs", {"query": "create index on two columns"}, "look"),
            ("ask", {"q": "delete from a list in Python"}, "look"),
            ("query_metrics", {"query": "rate(updates_total[5m])"}, "look"),
        ],
    )
    def test_by_name(self, name, args, kind):
        """
        A tool's name says whether it looks, works, plans or waits; a tool of many trades is told by its verb.
        """
        assert kind == classify_call(name, args)

    @pytest.mark.parametrize(
        ("command", "kind"),
        [
            ("ls -la", "look"),
            ("git status --short", "look"),
            ("git log -3", "look"),
            ("pytest -q", "look"),
            ("cat a.py | head -3", "look"),
            ("pytest -q 2>&1 | tail -5", "look"),
            ("git commit -am fix", "work"),
            ("cd src && git add a.py", "work"),
            ("sudo rm -rf build", "work"),
            ("sed -i s/a/b/ a.py", "work"),
            ("sed -n 1,9p a.py", "look"),
            ("pip install msgspec", "work"),
            ("pip list", "look"),
            ("gh pr create --fill", "work"),
            ("gh pr checks 418 --json state", "look"),
            ("helm upgrade orders ./charts/orders", "work"),
            ("helm list -A", "look"),
            ("kubectl -n shop get pods", "look"),
            ("kubectl scale deploy orders --replicas 3", "work"),
            ("kubectl rollout status deploy/orders", "look"),
            ("echo hi > a.txt", "work"),
            ("cat >> a.txt", "work"),
            ("sleep 30", "wait"),
            ("sleep 30 && curl localhost", "wait"),
            ("dropdb shop && createdb shop", "work"),
            ("python - <<'X'\nopen('a.py', 'a').write('x')\nX", "work"),
            ("python -c \"from pathlib import Path; Path('a').write_text('x')\"", "work"),
            ("python -c \"print(open('a.py').read())\"", "look"),
            ("grep -n 'write_text(' a.rb", "look"),
            ("make && sleep 20 && curl localhost", "wait"),
        ],
    )
    def test_by_command(self, command, kind):
        """
        A shell is judged by what it is told to do.
        """
        assert kind == classify_call("Bash", {"command": command})
        assert kind == classify_call("shell", {"cmd": command})

    @pytest.mark.parametrize(
        ("command", "kind"),
        [
            ("psql app -c 'CREATE INDEX i ON t (a)'", "work"),
            ('sqlite3 app.db "update t set a = 1"', "work"),
            ("psql app -c 'select * from t'", "look"),
            ("grep -rn 'insert into t' sql/", "look"),
        ],
    )
    def test_by_statement(self, command, kind):
        """
        A statement given to the client of a database works or looks, as a command does.
        """
        assert kind == classify_call("Bash", {"command": command})

    def test_a_command_in_parts(self):
        """
        A command given as a list of words is the same command.
        """
        assert "work" == classify_call("shell", {"command": ["git", "commit", "-m", "fix"]})

    @pytest.mark.parametrize(
        ("command", "kind"), [("view", "look"), ("str_replace", "work"), ("undo_edit", "work")]
    )
    def test_an_editor_of_many_trades(self, command, kind):
        """
        An editor that takes commands looks or works as it is told.
        """
        assert kind == classify_call("str_replace_editor", {"command": command, "path": "a.py"})

    def test_a_very_long_command(self):
        """
        Of a very long command the beginning is looked at, so that it costs no more than a long one.
        """
        assert "look" == classify_call("Bash", {"command": "true " * 4_000 + "; rm x"})
        assert "look" == classify_call("Bash", {"command": ["true"] * 4_000 + [";", "rm", "x"]})

    @given(
        st.text(max_size=30), st.dictionaries(st.sampled_from(["command", "cmd", "action", "op"]), ANYTHING)
    )
    def test_anything_has_a_kind(self, name, args):
        """
        Whatever a tool is called and told, it is one of the four.
        """
        assert classify_call(name, args) in {"look", "work", "wait", "plan"}
