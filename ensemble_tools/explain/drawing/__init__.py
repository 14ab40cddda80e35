"""The picture as SVG and PNG: where boxes and lettering stand."""
