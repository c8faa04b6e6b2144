from postgres_server import run_server


class TestPostgresServer:
    def test_each_test_has_an_empty_database(self, postgres_url, postgres_server):
        """
        Two databases of one server know nothing of each other.
        """
        import psycopg

        with psycopg.connect(postgres_url) as first:
            first.execute("CREATE TABLE here (n int)")
            first.commit()
            with postgres_server.new_database() as url, psycopg.connect(url) as second:
                tables = second.execute("SELECT count(*) FROM pg_tables WHERE tablename = 'here'").fetchone()

        assert tables == (0,)

    def test_its_order_of_texts_is_not_that_of_bytes(self, postgres_url):
        """
        As on most servers, `a` comes before `B` by default: a store that relies on the order of bytes fails.
        """
        import psycopg

        with psycopg.connect(postgres_url) as connection:
            assert connection.execute("SELECT 'a' < 'B', 'a' COLLATE \"C\" < 'B'").fetchone() == (True, False)

    def test_it_leaves_nothing(self, postgres_server):
        """
        A server that was stopped has no process and no folder any more.
        """
        with run_server() as server:
            folder = server._folder
            assert folder.exists()

        assert not folder.exists()
        assert server.process.returncode is not None
