# `make` alone lists the targets. Each does the set-up that it needs; done once, that costs a
# fraction of a second. PYTHON names the Python to use, INSTALLER (uv or pip) what installs,
# BASE_IMAGE what the image is built on.

PYTHON ?=
BASE_IMAGE ?=
INSTALLER ?=
# Two test processes, as tests/conftest.py groups them: at most two Spark at a time.
PYTEST_WORKERS = -n 2 --dist loadscope --no-loadscope-reorder
PYTEST_ARGS =
# Of the long tests: losses, rows, joins, kinds, acts, operators, kills, generations, browser
# or rest, as tests/conftest.py has them; or `second`, what .ci/run runs beside `make test`. Without one `make test-all` runs all
# tests, which takes hours.
PART =
# For instance: --figures fixed_cost throughput
BENCH_ARGS =

IN_ENVIRONMENT = . ./.tidemark/env &&
IN_BENCH = $(IN_ENVIRONMENT) PYTHONPATH=include
# Some machines tell Python to keep no bytecode: then both test processes, and each process that
# a test starts, compile all that they import.
PYTEST = $(IN_ENVIRONMENT) PYTHONDONTWRITEBYTECODE= python -m pytest $(PYTEST_WORKERS)

.PHONY: help setup demo airflow kafka image compose-env test test-fast test-all test-deployment bench bench-long lint format docs clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | \
	    while IFS='|' read -r target does; do printf '  make %-15s %s\n' "$$target" "$$does"; done

setup: ## install everything: packages, Java where it is missing, jars
	@PYTHON='$(PYTHON)' INSTALLER='$(INSTALLER)' sh include/setup/setup.sh

demo: setup ## run the samples through Airflow, print what came of them, stop again
	@$(IN_ENVIRONMENT) python include/demo/demo.py

airflow: setup ## Airflow with its UI on your own settings, with address and login, until Ctrl-C
	@$(IN_ENVIRONMENT) python include/demo/demo.py --stay

kafka: setup ## a Kafka broker of its own, with its address as a connection, until Ctrl-C
	@$(IN_ENVIRONMENT) python -m broker

image: ## the image that docker-compose.yaml runs
	@docker build --tag tidemark $(if $(BASE_IMAGE),--build-arg 'BASE_IMAGE=$(BASE_IMAGE)') .

compose-env: ## .env, random passwords and keys for docker-compose.yaml; never overwritten
	@sh include/deploy/compose_env.sh

test: setup ## what is quick without Spark, and a witness of each of Spark's: some minutes
	@$(PYTEST) -m 'not second and not long and not docker' $(PYTEST_ARGS)

test-fast: setup ## what needs no Spark and is quick: about a minute
	@$(PYTEST) -m 'not engine and not slow and not long and not docker' $(PYTEST_ARGS)

test-all: setup ## all tests but those that need Docker; PART=NAME: one part of those beside `make test`
	@$(PYTEST) -m 'not docker' $(if $(PART),--part $(PART)) $(PYTEST_ARGS)

test-deployment: setup image ## the containers of docker-compose.yaml, and what kills them
	@$(IN_ENVIRONMENT) python -m pytest -p no:xdist -m docker -v -s tests/deployment $(PYTEST_ARGS)

bench: setup ## what runs cost, beside scripts written by hand: tables, JSON, pictures
	@$(IN_BENCH) python -m bench $(BENCH_ARGS)

bench-long: setup ## the same with more runs and more rows; takes hours
	@$(IN_BENCH) python -m bench --size long $(BENCH_ARGS)

lint: setup ## ruff, mypy and the import contracts
	@$(IN_ENVIRONMENT) ruff check .
	@$(IN_ENVIRONMENT) ruff format --check .
	@$(IN_ENVIRONMENT) mypy
	@$(IN_ENVIRONMENT) lint-imports

format: setup ## let ruff mend and format what it can
	@$(IN_ENVIRONMENT) ruff check --fix .
	@$(IN_ENVIRONMENT) ruff format .

# An environment of its own, which `make test` does not wait for. It is made anew with each new lock,
# and where an install did not come to its end.
.tidemark/pages/lock: docs/site/requirements.txt
	@rm -rf .tidemark/pages && mkdir -p .tidemark/pages
	@$(IN_ENVIRONMENT) python -m venv .tidemark/pages/venv
	@.tidemark/pages/venv/bin/python -m pip install -q --disable-pip-version-check --no-deps -r $<
	@cp $< $@

docs: setup .tidemark/pages/lock ## the pages as a site in .tidemark/site/html; a broken link ends it
	@$(IN_ENVIRONMENT) PYTHONPATH=include:. python -m docs.site.build .tidemark/pages/venv/bin/python .tidemark/site

clean: ## remove what set-up and tests made; tables stay
	rm -rf .venv .tidemark .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf dist spark-warehouse metastore_db derby.log
