"""Training on several devices or machines: start-up, comparison of weights, shared steps."""
