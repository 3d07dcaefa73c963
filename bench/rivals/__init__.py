"""The rivals: as a competent engineer would write them by hand, each a script of its own but for
the session and the ingest that the tuned ones share (`tuned_session`).

All read the same JSON files and give the same gold: per 10-minute window and key the number of
events and the sum of amounts, of the rows that have a time and a key; those of joins and of folds
say what they give.
"""
