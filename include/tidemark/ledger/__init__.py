"""The ledger: where each row went, in lines that have to balance."""
