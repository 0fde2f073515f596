# Every target makes its own environment; none needs another step first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Commands that tests start would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: environment demo check test test-long lint style types rules cluster check-deploy audit sbom disaster diagnosis \
  demo-faults first-afternoon bench-stream bench-stages bench-start bench-versions bench-match bench-shapes bench-work \
  bench-correlate bench-latency bench-alerts bench-clickhouse bench-redaction bench-storm bench-takeover soak accuracy chaos \
  attack fuzz coverage reference screenshots lock clean

# The main job: on a simulated cluster, or on any file or folder given as LOGS=…
demo: $(READY)
ifdef LOGS
	$(BIN)/epicenter run --once $(LOGS)
else
	$(BIN)/epicenter demo
endif

# Before every commit, in two minutes: all that needs no server.
check: lint
	$(BIN)/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder tests/unit tests/scenarios

# All of it, three test files at a time on two cores: tests wait for servers much of the time.
test: lint
	$(BIN)/pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder

# Rarer faults of Kafka and the store: two minutes more.
test-long: $(READY)
	$(BIN)/pytest -m long

lint: $(READY)
	@$(MAKE) --no-print-directory --jobs 2 style rules types
	-$(BIN)/python -m deploy.audit

style: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

rules: $(READY)
	$(BIN)/epicenter rules lint
	$(BIN)/epicenter rules test

# Kafka, ClickHouse, worker, page and a simulated load on this machine, until Ctrl-C.
cluster: $(READY)
	$(BIN)/python -m deploy.dev.cluster

# Chart, examples, image and compose file against the schemas and linters of their consumers. Needs Go, Java, Maven.
check-deploy: $(READY)
	$(BIN)/python -m deploy.check
	$(BIN)/python deploy/check_compose.py
	$(BIN)/python deploy/check_image.py

# Known vulnerabilities of pinned packages; lint reports them and continues.
audit: $(READY)
	$(BIN)/python -m deploy.audit

# deploy/sbom.json, for the image.
sbom: $(READY)
	$(BIN)/cyclonedx-py requirements --output-reproducible --pyproject pyproject.toml requirements-worker.lock \
	  -o deploy/sbom.json

# Store lost, Kafka lost, snapshots lost, a backup restored, rules fixed: counts before and after.
disaster: $(READY)
	$(BIN)/python -m bench.disaster

# From a clone to filled dashboards with empty caches, each step timed: docs/first-afternoon.md.
first-afternoon: $(READY)
	$(BIN)/python -m bench.first_afternoon

bench-stream: $(READY)
	$(BIN)/python -m bench.stream

# The hot path stage by stage, without a broker.
bench-stages: $(READY)
	$(BIN)/python -m bench.stages

# How long commands take to start, with the shipped rules and with 5,000 more.
bench-start: $(READY)
	$(BIN)/python -m bench.start

# Whether this checkout is slower than another one with an environment: make bench-versions OTHER=../before
bench-versions: $(READY)
	$(BIN)/python -m bench.versions $(OTHER)

# A 1 GB log compared with ripgrep, and with 50 to 5,000 patterns.
bench-match: $(READY)
	$(BIN)/python -m bench.match

# Logs of unusual shapes compared with an even one: clocks that jump, 100,000 writers, storms, tracebacks, long lines.
bench-shapes: $(READY)
	$(BIN)/python -m bench.shapes

# Signals through the engine on one core: rate, 16,384 timeouts at once, a day of 100,000 ranks.
bench-correlate: $(READY)
	$(BIN)/python -m bench.correlate

# 16,384 ranks time out, then log errors for five minutes: one incident, nothing lost, memory, time to the final incident.
bench-storm: $(READY)
	$(BIN)/python -m bench.storm

# Rows a second into the store, and what the page's and the panels' queries take with ROWS=100000000 matches.
bench-clickhouse: $(READY)
	ROWS=$(or $(ROWS),100000000) $(BIN)/python -m bench.clickhouse

# kill -9 of the active worker: seconds until a standby has taken over.
bench-takeover: $(READY)
	$(BIN)/python -m bench.takeover

# From a line in Kafka to the webhook and to the row, under 50,000 lines a second of others.
bench-latency: $(READY)
	$(BIN)/python -m bench.latency

# Alert decisions on one core: a storm of 16,384 ranks, and a tick with thousands of open incidents.
bench-alerts: $(READY)
	$(BIN)/python -m bench.alerts

# 200 shapes of secrets in realistic lines: how many are redacted, whether anything else is; and what it costs.
bench-redaction: $(READY)
	$(BIN)/python -m bench.redaction
	$(BIN)/python -m bench.redaction_cost

# The work of a short form of each bench, counted without a clock, next to the record that `make test` compares it with.
bench-work: $(READY)
	$(BIN)/python -m bench.work

# An hour at 80 % of what this machine can take: memory, lag, files and disk have to be flat. SOAK_MINUTES=5 for a start.
soak: $(READY)
	$(BIN)/python -m bench.soak

# Simulated failures with their truth, or folders of yours with a truth.json: make accuracy FOLDERS="…"
accuracy: $(READY)
	$(BIN)/python -m bench.accuracy $(FOLDERS)

# What triage and replay say about each kind of fault, and about labelled cases: make diagnosis CASES="cases.jsonl"
diagnosis: $(READY)
	$(BIN)/python -m bench.diagnosis $(if $(CASES),--corpus $(CASES))

# Whether the demo finds each kind of fault, one after the other; 15 minutes: make demo-faults KINDS="hang nan-loss"
demo-faults: $(READY)
	$(BIN)/python -m bench.demo_faults $(KINDS)

# The pipeline under attack, compared with a calm run: make chaos ROUNDS=100, make chaos SEED=7 ROUNDS=1
chaos: $(READY)
	$(BIN)/python -m bench.chaos

# The commands under attack by a stranger, story by story: make attack ROUNDS=100, python -m bench.attack --only kills
attack: $(READY)
	$(BIN)/python -m bench.attack

# Broken records through the scan: make fuzz RECORDS=100000
fuzz: $(READY)
	$(BIN)/python -m bench.fuzz

environment: $(READY)

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	  || { echo "Python 3.11 to 3.13 is needed, found $$($(PYTHON) --version): run make PYTHON=python3.12 …"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# docs/coverage.md, from docs/coverage.yaml and the packs.
coverage: $(READY)
	$(BIN)/python docs/make_coverage.py

# docs/reference, from the code.
reference: $(READY)
	$(BIN)/python -m docs.make_reference

# docs/page-*.png, of a simulated week in a real browser.
screenshots: $(READY)
	$(BIN)/python -m docs.make_screenshots

# The lock holds hashes and no download address.
lock: $(READY)
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-annotate --no-header --extra dev pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-annotate --no-header --constraint requirements.lock pyproject.toml -o requirements-worker.lock

clean:
	rm -rf $(VENV) var
