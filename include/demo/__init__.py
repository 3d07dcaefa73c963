"""The demo: both samples through a real Airflow, on this machine, and stopped again."""
