#!/bin/sh
# What a container does first: set-up's environment, then the command.
set -eu
. "$(dirname "$0")/../../.tidemark/env"
# Set-up binds Spark to one machine alone, and here each process has a container of its own.
unset SPARK_LOCAL_IP
exec "$@"
