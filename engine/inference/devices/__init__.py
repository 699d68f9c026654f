"""The kinds of devices, a file each: `DEVICE` is its class. Other packages name theirs by entry points; see `kinds`."""
