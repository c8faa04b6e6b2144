# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-adapters test-oldest test-foreign test-coding-agents test-dist test-postgres test-spark check format bench soak prove prove-sessions prove-spark docs release-notes clean ui test-ui

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Steadyhelm needs Python 3.11 or newer: try make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

$(VENV)/.installed: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --group test --group docs
	@touch $@

$(VENV)/.checked: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --group check
	@touch $@

$(VENV)/.releasing: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --group release
	@touch $@

demo: $(VENV)/.installed  ## watch a scripted agent start to loop, and Steadyhelm notice and steer it
	@$(BIN)/steadyhelm demo
	@echo "Every response level, one after the other: $(BIN)/python examples/steered_agent.py"

# TESTS="--leave-out=build/dist/passed.json" runs what the tests in the archive did not: see `.ci/run`.
TESTS ?=
test: $(VENV)/.tested  ## run all tests
	$(BIN)/python -m pytest -n auto --dist loadgroup $(TESTS)

# CrewAI and litellm need an older openai than the others, and Claude's environment is large.
$(VENV)-frameworks/.installed: EXTRAS = langchain,openai-agents,pydantic-ai,google-adk,strands,agent-framework,llama-index,openai,anthropic
$(VENV)-frameworks/.installed: GROUP = frameworks
$(VENV)-crewai/.installed: EXTRAS = crewai,litellm
$(VENV)-claude/.installed: EXTRAS = claude

$(VENV)-%/.installed: GROUP = adapters
$(VENV)-%/.installed: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(@D)/bin/python -m pip install --quiet --editable '.[$(EXTRAS)]' --group $(GROUP)
	@touch $@

ADAPTERS := $(VENV)-frameworks/.installed $(VENV)-crewai/.installed $(VENV)-claude/.installed
PLAY := -m pytest -W default --dist loadgroup tests/frameworks

# The coding agents that come from npm, in a folder of their own.
CODING_AGENTS := $(VENV)-coding-agents
$(CODING_AGENTS)/.installed: tests/frameworks/coding_agents/package-lock.json
	mkdir -p $(@D)
	cp tests/frameworks/coding_agents/package*.json $(@D)
	npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

test-coding-agents: $(VENV)-claude/.installed $(CODING_AGENTS)/.installed  ## run the real Codex CLI and Gemini CLI with hooks
	STEADYHELM_FRAMEWORKS=coding-agents STEADYHELM_CODING_AGENTS=$(CODING_AGENTS)/node_modules/.bin \
		$(VENV)-claude/bin/python $(PLAY)/test_codex_cli.py tests/frameworks/test_gemini_cli.py -n auto

test-adapters: $(ADAPTERS) test-coding-agents  ## run every framework, in environments of their own
	STEADYHELM_FRAMEWORKS="langchain openai-agents pydantic-ai google-adk strands agent-framework llama-index openai-client openai-responses anthropic-client" \
		$(VENV)-frameworks/bin/python $(PLAY) -n auto
	STEADYHELM_FRAMEWORKS="crewai litellm" $(VENV)-crewai/bin/python $(PLAY) -n auto
	STEADYHELM_FRAMEWORKS="claude" $(VENV)-claude/bin/python $(PLAY) -n auto

# The page is built with Node and committed, so that nothing else needs Node or a browser.
ui/node_modules/.installed: ui/package-lock.json
	cd ui && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

ui: ui/node_modules/.installed  ## build the page from ui/ into the package
	cd ui && npm run --silent types && npm run --silent check && npm run --silent test && npm run --silent build
	$(PYTHON) ui/digest.py --write

$(VENV)-ui/.installed: EXTRAS = server
$(VENV)-ui/.installed: GROUP = ui

test-ui: $(VENV)-ui/.installed ui/node_modules/.installed  ## prove that the built page is its source, and drive it in Chromium
	command -v chromium >/dev/null || { apt-get update --quiet && apt-get install --yes --quiet chromium; }
	cd ui && npm run --silent check && npm run --silent test
	STEADYHELM_UI=1 $(VENV)-ui/bin/python -m pytest -W default -n 2 --dist loadfile tests/ui

# Spark needs a Java of its own, and an older pandas than others.
$(VENV)-spark/.installed: EXTRAS = spark,postgres
$(VENV)-spark/.installed: GROUP = spark

test-spark: $(VENV)-spark/.installed  ## run the tests of batches and streams on Spark
	command -v java >/dev/null \
		|| { apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends openjdk-17-jre-headless; }
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null \
		|| { apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends postgresql; }
	STEADYHELM_SPARK=1 $(VENV)-spark/bin/python -m pytest -W default tests/spark

# The suites that depend on the store, on a real PostgreSQL server that the tests start.
# Of the tests of faults those that depend on the store: the others have none, or are about a SQLite file.
FAULTS_OF_STORE := accounting bad_records fork_in_use hook_server journal killed_processes left_journals load \
	locked_database lost_server pinned_baseline redelivery resumed_runs server_edges two_writers

test-postgres: $(VENV)/.tested  ## run the tests of the store on PostgreSQL
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null \
		|| { apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends postgresql; }
	command -v pgbouncer >/dev/null || ls /usr/sbin/pgbouncer >/dev/null 2>&1 \
		|| { apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends pgbouncer; } \
		|| echo "PgBouncer cannot be installed: its tests are skipped."
	STEADYHELM_POSTGRES=1 $(BIN)/python -m pytest -n auto --dist loadgroup -m "not slow" tests/test_postgres_server.py \
		tests/stores/test_store_checks.py tests/stores/test_postgres_*.py tests/stores/test_copying.py tests/server/test_*.py \
		$(FAULTS_OF_STORE:%=tests/faults/test_%.py) tests/cli/test_server_database.py tests/end_to_end/test_deployment.py

# The same at the lower bounds in pyproject.toml; the newest openai that one of the others needs is too new for another.
$(VENV)-oldest-frameworks/.installed: EXTRAS = langchain openai-agents pydantic-ai google-adk strands agent-framework
$(VENV)-oldest-frameworks/.installed: GROUP = frameworks
$(VENV)-oldest-clients/.installed: EXTRAS = llama-index openai anthropic
$(VENV)-oldest-crewai/.installed: EXTRAS = crewai litellm
$(VENV)-oldest-claude/.installed: EXTRAS = claude
$(VENV)-oldest-%/.installed: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(@D)/bin/python -m pip install --quiet --editable . --group $(GROUP) \
		$$($(@D)/bin/python tests/frameworks/lower_bounds.py $(EXTRAS))
	@touch $@

OLDEST := $(VENV)-oldest-frameworks/.installed $(VENV)-oldest-clients/.installed $(VENV)-oldest-crewai/.installed \
	$(VENV)-oldest-claude/.installed

test-oldest: $(OLDEST)  ## run the frameworks at their lower bounds
	STEADYHELM_FRAMEWORKS="langchain openai-agents pydantic-ai google-adk strands agent-framework" \
		$(VENV)-oldest-frameworks/bin/python $(PLAY) -n auto
	STEADYHELM_FRAMEWORKS="llama-index openai-client openai-responses anthropic-client" \
		$(VENV)-oldest-clients/bin/python $(PLAY) -n auto
	STEADYHELM_FRAMEWORKS="crewai litellm" $(VENV)-oldest-crewai/bin/python $(PLAY) -n auto
	STEADYHELM_FRAMEWORKS="claude" $(VENV)-oldest-claude/bin/python $(PLAY) -n auto

# The frameworks' own tests, with Steadyhelm installed and without; SUITES names some of them.
test-foreign: $(VENV)/.tested  ## run the frameworks' own test suites, and list what fails only with Steadyhelm
	$(BIN)/python -m benchmarks.foreign $(SUITES)

# What is released must work alone: the source archive's own tests run in an environment made from it.
test-dist: $(VENV)/.releasing  ## build both archives, and run the tests that ship in the source archive
	rm -rf dist build/dist
	$(BIN)/python -m build --outdir dist .
	mkdir -p build/dist
	tar -xzf dist/*.tar.gz -C build/dist --strip-components=1
	$(PYTHON) -m venv build/dist/.venv
	build/dist/.venv/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	cd build/dist && .venv/bin/python -m pip install --quiet ../../dist/*.tar.gz --group test
	cd build/dist && STEADYHELM_DATA=none .venv/bin/python -m pytest -q -n auto --dist loadgroup -m "not slow" --write-passed=passed.json tests

check: $(VENV)/.checked $(VENV)/.tested  ## format, lint, types, imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/interrogate --quiet tests

format: $(VENV)/.checked  ## put the source in order
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.tested  ## measure, print a table, write JSON
	$(BIN)/python -m benchmarks

SOAK_MINUTES ?= 60
soak: $(VENV)/.tested  ## mixed load for SOAK_MINUTES: memory and handles flat, nothing lost
	$(BIN)/python -m benchmarks.soak --minutes $(SOAK_MINUTES)

PROVE ?= --agents 2000 --seconds 600
prove: $(VENV)/.tested  ## 2,000 simulated agents on PostgreSQL for ten minutes: lag under 5 s, nothing lost, memory flat
	$(BIN)/python -m benchmarks.prove $(PROVE)

# On the open runs in the folder that STEADYHELM_DATA names; an hour and more in all on two cores.
prove-sessions: $(VENV)/.tested  ## save and continue every open run between all its events: the same reports
	$(BIN)/python -m benchmarks.prove_sessions

prove-spark: $(VENV)-spark/.installed  ## judge every open run on Spark, also killed twice: the same reports
	$(VENV)-spark/bin/python -m benchmarks.prove_spark

docs: $(VENV)/.tested  ## build the site into site/
	$(BIN)/mkdocs build --strict

release-notes: $(VENV)/.releasing  ## show the changes since the last release, from changelog.d
	@$(BIN)/towncrier build --draft --version "$$($(BIN)/python -c 'import steadyhelm; print(steadyhelm.__version__)')" 2>/dev/null

clean:  ## remove what was made
	rm -rf $(VENV) $(VENV)-* site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
