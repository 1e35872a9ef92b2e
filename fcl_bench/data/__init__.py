"""From files to what clients hold: downloads, images, features and their cache. Nothing here knows of methods or runs."""
