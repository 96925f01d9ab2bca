"""WEB: the page in a browser. Reads, finds and watches; sends nothing anywhere."""
