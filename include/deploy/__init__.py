"""What the containers of docker-compose.yaml run besides Airflow and Spark."""
