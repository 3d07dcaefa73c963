"""Set-up of this repository: everything that `make demo` and `make test` need, made once.

Standard library only: it runs before anything is installed. `setup.sh` finds a Python and starts
`python -m setup`. Each step has a key, a hash of all that its outcome depends on; a step whose
stamp holds that key, and whose outputs are there, is not done again. The stamp is written last,
so a set-up that was killed goes on where it stood when it is started again.
"""
