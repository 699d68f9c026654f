"""`ng.predict`: the most probable tokens at the mask of free text."""
