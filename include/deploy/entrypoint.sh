#!/bin/bash
# What a container does first: set-up's environment, then the command. By bash, as Debian's sh drops
# variables that are no names of a shell.
set -eu
. "$(dirname "$0")/../../.tidemark/env"
# Set-up binds Spark to one machine alone, and here each process has a container of its own.
unset SPARK_LOCAL_IP
# Where drivers run in another container, Airflow's tasks ask for them under Spark's own name.
[ -z "${DRIVERS_SOCKET-}" ] || PATH=/opt/tidemark/include/deploy/bin:$PATH
# On Kubernetes Spark gives an executor's container this word, and all else in variables: the entry
# point of its own image makes a JVM's command line of them.
if [ "${1-}" = executor ]; then
    set -- "$JAVA_HOME/bin/java"
    number=0
    while option=$(printenv "SPARK_JAVA_OPT_$number"); do
        set -- "$@" "$option"
        number=$((number + 1))
    done
    set -- "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "$SPARK_CONF_DIR:${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*:$SPARK_DIST_CLASSPATH" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" \
        --executor-id "$SPARK_EXECUTOR_ID" \
        --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" \
        --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
        --podName "$SPARK_EXECUTOR_POD_NAME"
fi
exec "$@"
