"""Several devices or machines that train as one: meeting, comparing, and the steps they share."""
