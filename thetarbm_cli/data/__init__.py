"""Where images come from: MNIST as shipped, mnist-rot, rotated Fashion-MNIST, the user's own arrays."""
