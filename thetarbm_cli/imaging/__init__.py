"""What happens to an image before a model sees it: orientation, rotation, standardisation."""
