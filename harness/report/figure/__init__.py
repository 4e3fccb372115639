"""What figures share: style, paper sizes, panels, labels, artists."""
