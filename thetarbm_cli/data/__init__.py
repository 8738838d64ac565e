"""Where images come from: the shipped MNIST, mnist-rot regenerated or official, the user's own arrays."""
