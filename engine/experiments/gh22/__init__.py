"""The test of Gubelmann and Handschuh (2022)."""
