"""The torch half: images in, draws out."""
