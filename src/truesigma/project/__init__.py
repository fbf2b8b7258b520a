"""Own images from start to end: look at a folder, write a recipe, and run it to a report."""
