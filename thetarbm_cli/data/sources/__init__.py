"""Where images come from: MNIST as shipped, Fashion-MNIST, the official mnist-rot archive, a user's file."""
