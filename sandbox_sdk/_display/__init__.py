"""How a notebook and a terminal show the values of this package."""
