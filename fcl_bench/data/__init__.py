"""From files to what clients hold: downloads, images, features and their cache. It knows no methods and no runs."""
