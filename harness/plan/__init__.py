"""From a sweep file to tasks: look up names, resolve parameters, solve for noise, estimate cost."""
