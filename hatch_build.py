"""Make links of the README absolute while the package is built, so that they also work on a package index.

The address is in pyproject.toml alone. While it is empty, links stay as they are.
"""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE, LINK = re.compile(r"(!\[[^]]*\]\()(?!https?:|#)"), re.compile(r"(?<!!)(\[[^]]*\]\()(?!https?:|#)")


class AbsoluteLinks(MetadataHookInterface):
    """Gives the package its readme and, once there is an address, its links."""

    def update(self, metadata: dict) -> None:
        """Fill in what pyproject.toml calls dynamic."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        address = self.config["address"].rstrip("/")
        metadata["urls"] = {"Source": address, "Issues": f"{address}/issues"} if address else {}
        if address:
            text = PICTURE.sub(rf"\g<1>{address}/raw/main/", text)
            text = LINK.sub(rf"\g<1>{address}/blob/main/", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
