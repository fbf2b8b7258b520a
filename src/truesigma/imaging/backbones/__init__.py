"""One file per backbone: build(channels, *, pretrained=False, options) -> (features module, number of features)."""
