"""What is in a query's state stores, and what the next start has to replay of them."""
