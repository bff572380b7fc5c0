# `make demo` and `make test` need nothing before them: whichever command comes first makes the virtual environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# pip would compile on one core, and models, servers and tests that no program of ours imports; of ours it compiles nothing.
COMPILE = $(BIN)/python -m compileall -qq -j 0 -x '/(models|proxy|tests|testing)/' $(VENV)/lib app agent sandbox trainer || true

.PHONY: demo install test lint types imports tests long docker bench clean

demo: $(STAMP)
	@$(BIN)/warpsmith demo

install: $(STAMP)

test: lint types imports tests

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

tests: $(STAMP)
	$(BIN)/pytest -n auto --dist loadgroup -m "not alone and not long"
	$(BIN)/pytest -m "alone and not long" $$(grep -rl --include='test_*.py' 'mark\.alone' tests)

long: $(STAMP)
	$(BIN)/pytest -m long

# All that an engine can be asked (at DOCKER_HOST, or the machine's own), in up to an hour; `make test` has a part of it.
docker: $(STAMP)
	$(BIN)/pytest -m docker
	$(BIN)/python -m tests.candidates --isolation docker
	$(BIN)/python -m tests.storm --isolation docker --verdicts 200

bench: $(STAMP)
	$(BIN)/python -m tests.bench

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Warpsmith needs Python 3.11 or newer; name one with: make PYTHON=python3.12"; exit 1; }
	@echo "Installing Warpsmith with torch into $(VENV): a minute or two, once."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	@$(COMPILE)
	@touch $(STAMP)

clean:
	rm -rf $(VENV) build dist *.egg-info
