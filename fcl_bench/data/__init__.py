"""From files to what clients hold: downloads, images, features, their cache. Nothing here knows of methods or runs."""
