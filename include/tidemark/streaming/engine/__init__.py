"""The one door to the engine's private classes. Nothing else calls them.

They may move with any version of Spark. `known.py` lists what is called, and is checked before each
use, so that a version that moved something is told as such and nothing is changed.
"""
