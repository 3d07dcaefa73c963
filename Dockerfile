# One image for all services of docker-compose.yaml: Airflow, Spark's drivers, master and workers.
# `make image BASE_IMAGE=python:3.11-slim-bookworm@sha256:…` takes one by its digest: docs/compose.md.
ARG BASE_IMAGE=python:3.11-slim-bookworm
FROM ${BASE_IMAGE}

RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*

# Airflow's user, and that of Spark's drivers and executors, which run what pipelines bring. A new
# volume takes its owner from the folder that it is mounted at.
RUN useradd --uid 50000 --gid 0 --create-home --home-dir /var/lib/tidemark tidemark \
    && useradd --uid 50001 --gid 0 --no-create-home --home-dir /tmp tidemark-driver \
    && install -d -o 50000 -g 0 /var/lib/tidemark/airflow \
    && install -d -o 50001 -g 0 /var/lib/tidemark/events \
    && install -d -o 50001 -g 0 -m 0770 /run/tidemark

WORKDIR /opt/tidemark

# Only what set-up itself needs: a change of the code does not repeat what takes minutes. The lock is
# that of what runs: no tools of tests.
COPY pyproject.toml README.md LICENSE ./
COPY requirements-runtime.txt requirements.txt
COPY include/setup include/setup
COPY include/tidemark/__init__.py include/tidemark/version.py include/tidemark/
RUN PIP_NO_CACHE_DIR=1 sh include/setup/setup.sh

COPY dags dags
COPY jobs jobs
COPY include include
# A checkout may be readable for its owner alone. The bytecode is for a user who cannot write here.
RUN chmod -R a+rX dags jobs include \
    && .venv/bin/python -m compileall -q dags jobs include

# For `docker exec`, which does not pass the entry point.
ENV PATH=/opt/tidemark/.venv/bin:$PATH
USER 50000:0
ENTRYPOINT ["bash", "/opt/tidemark/include/deploy/entrypoint.sh"]
CMD ["tidemark", "--help"]
