"""The rivals: each a script of its own, as a competent engineer would write it by hand.

All read the same JSON files and give the same gold: per 10-minute window and key the number of
events and the sum of amounts, of the rows that have a time and a key; those of joins and of folds
say what they give.
"""
