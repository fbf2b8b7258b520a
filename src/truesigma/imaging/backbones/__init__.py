"""Backbones, one file each: `build(channels, *, pretrained=False, options) -> (features, how many)`."""
