# Everything goes through the command line `seedbed`; this file sets it up and calls it.

PYTHON ?= python3
VENV := .venv
SEEDBED := $(VENV)/bin/seedbed
# Packages are compiled when they are imported: that is a third of the work.
PIP := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
READY := $(VENV)/.ready
TESTED := $(VENV)/.tested
CORES = $(shell $(SEEDBED) list --names)
SOURCES := $(wildcard spec/*.py hw/*.py flow/registry.py flow/emit/*.py)

.DEFAULT_GOAL := all
.PHONY: all setup verilog sim cocotb formal mutate synth demo report docs html test lint clean help

all: verilog  ## the main job: Verilog, demonstration, simulation, synthesis, report
	@$(SEEDBED) demo zo --seeds 8
	@$(SEEDBED) report
	@echo "The Verilog of every core is in build/verilog, the demonstration's plots are in build/demo."

setup: $(READY)  ## the environment alone: .venv/bin/seedbed afterwards

EXTRAS := all
$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) with $(PYTHON) ..."
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, not " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --editable '.[$(EXTRAS)]'
	@echo "Preparing the tools: the first time, each is compiled for this machine (about a minute) ..."
	@$(SEEDBED) doctor
	@echo $(EXTRAS) > $@

# What tests and checks need, too: at once where nothing is there.
$(TESTED): EXTRAS := all,dev
$(TESTED): $(READY)
	@grep -q dev $(READY) || { echo "Adding what tests and checks need ..." && $(PIP) --editable '.[$(EXTRAS)]'; }
	@touch $@

verilog: $(READY)  ## every core's Verilog, to build/verilog
	@$(MAKE) --silent --jobs=2 $(CORES:%=build/verilog/%.v)

build/verilog/%.v: $(READY) $(SOURCES)
	@$(SEEDBED) verilog $*

sim: $(READY)  ## every configuration against its golden model, in Amaranth's simulator
	@$(SEEDBED) measure --kind simulation

cocotb: $(READY) build/verilog/urng_array.v  ## the emitted Verilog of every core, in cocotb under Verilator
	@$(SEEDBED) measure --kind cocotb
	@cd build && ../$(VENV)/bin/python ../docs/examples/cocotb_urng_array.py verilog/urng_array.v

formal: $(READY)  ## the proofs, with their covers and mutants
	@$(SEEDBED) measure --kind proof

mutate: $(READY)  ## how many mutants the simulator bench notices
	@$(SEEDBED) measure --kind mutation

synth: $(READY)  ## synthesis, place and route
	@$(SEEDBED) measure --kind synthesis --kind place

demo: $(READY)  ## zeroth-order fine-tuning, and compressed weights, on embedded data
	@$(SEEDBED) demo zo
	@$(SEEDBED) demo seedlm

report: $(READY)  ## measure what is not measured yet, and write build/report
	@$(SEEDBED) report $(REPORT)

docs: demo  ## the report of everything, and the generated parts of README and docs
	@$(SEEDBED) report --all --docs .

html: $(TESTED)  ## the documentation site, to build/html: no network, warnings are errors
	@$(VENV)/bin/python -m sphinx --quiet --fresh-env --fail-on-warning --keep-going docs build/html
	@echo "The site begins at build/html/index.html."

test: $(TESTED)  ## all tests
	@$(VENV)/bin/python -m pytest -q $(TESTS)

lint: $(TESTED)  ## style, types, and the direction of imports
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy

clean:  ## remove what was built; the environment stays
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*  ## /  make \1\t/p' Makefile | expand -t 16
