"""A real Kafka broker on this machine alone, for `make kafka` and for tests; no Docker.

`Broker` (`broker.py`) starts one node or several (KRaft: each is broker and controller) as Java
processes (`java.py`) that end with the process that started them (`bound.py`). Its folder holds
who it is (`identity.py`), its certificates (`certificates.py`), its configuration
(`properties.py`) and its data, so that it can be killed and started again on the same data.
Imports nothing of Tidemark, and nothing of Tidemark imports it.
"""
