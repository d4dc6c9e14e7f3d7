# `make demo` and `make test` do all the set-up themselves; the only thing needed beforehand is Python 3.10+.
PYTHON ?= python3
BIN := .venv/bin/
READY := .venv/.ready
# What a target needs, no more: the demo on a fresh machine shall not wait for the tests' tools.
DEMO := .venv/.demo
LAB := .venv/.lab
# Tests of all parts together. What they run, the tests of the parts have measured.
WHOLE := tests/notebook tests/reference tests/system

.PHONY: demo lab test check unit whole fuzz pages tutorials versions lowest highest bench autobahn site docs zipapp generate clean

demo: $(DEMO)    ## start a sandbox and execute the quickstart notebook for real
	$(BIN)python scripts/demo.py

lab: $(LAB)     ## open JupyterLab on the tutorials
	$(BIN)jupyter lab --ServerApp.root_dir=notebooks $(if $(filter 0,$(shell id -u)),--allow-root)

test: check site unit pages whole fuzz tutorials versions  ## every check there is

$(DEMO) $(LAB) $(READY): pyproject.toml server/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed; set PYTHON=")'
	@echo "installing into .venv, about a minute"
	@$(PYTHON) -m venv .venv
	@$(BIN)pip install --quiet --disable-pip-version-check -e ./server -e ".[$(patsubst .%,%,$(subst ready,dev,$(notdir $@)))]"
	@touch $@

check: $(READY)   ## style, types, layers, generated files
	$(BIN)ruff check .
	$(BIN)ruff format --check .
	$(BIN)mypy
	$(BIN)lint-imports
	$(BIN)python scripts/generate.py --check
	$(BIN)python scripts/unasync.py --check
	$(BIN)python scripts/notebooks.py --check

unit: $(READY)    ## the parts, with coverage; of fuzzing, which adds little to that, a part
	$(BIN)coverage erase
	TESTS_EFFORT=15 $(BIN)coverage run -m pytest $(addprefix --ignore=,tests/browser $(WHOLE)) --findings
	$(BIN)coverage combine --quiet
	$(BIN)python scripts/coverage_gate.py

whole: $(READY)   ## notebooks and the command line, other clients and servers, the wire as a schema tells it
	$(BIN)pytest $(WHOLE)

fuzz: $(READY)    ## all that fuzzing tries
	$(BIN)pytest tests/server/fuzz

pages: $(READY)   ## the widgets in a real JupyterLab and a real browser
	$(BIN)pytest tests/browser

tutorials: $(READY) ## the tutorials, cell by cell against their stored outputs
	SANDBOX_SDK_UI=html $(BIN)pytest --nbval --nbval-sanitize-with notebooks/sanitize.cfg notebooks

versions: lowest highest ## the server's tests on the lowest and the highest Python of this machine

lowest highest: $(READY)
	$(BIN)python scripts/versions.py $@

bench: $(READY)   ## our server beside its peers (BENCH="-w upload -c ours,nginx" narrows it)
	$(BIN)python tests/benchmarks/run.py $(BENCH)

autobahn: $(READY) ## the WebSocket judged by the Autobahn suite, which needs Python 2.7 (PYTHON27=PATH names one)
	$(BIN)python scripts/autobahn.py

site: $(READY)    ## the documentation as web pages, in out/site
	NO_MKDOCS_2_WARNING=1 $(BIN)mkdocs build --strict --quiet

docs: site        ## read the documentation at http://127.0.0.1:8000
	NO_MKDOCS_2_WARNING=1 $(BIN)mkdocs serve

zipapp:           ## the server as one file, dist/agent-sandbox-server.pyz
	$(PYTHON) scripts/onefile.py

generate: $(READY) ## rewrite the generated files
	$(BIN)python scripts/generate.py
	$(BIN)python scripts/unasync.py
	$(BIN)python scripts/notebooks.py

clean:
	rm -rf .venv .venv-* out dist build .coverage* htmlcov
