"""PD-SGD's privacy test: theory, curves and the figure."""
