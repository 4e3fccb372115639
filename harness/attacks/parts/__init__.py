"""What several attacks share: queries, moments, posteriors, inversion and its figures."""
