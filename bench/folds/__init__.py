"""Classes of folds: a contender copies them into its pipeline's folder."""
