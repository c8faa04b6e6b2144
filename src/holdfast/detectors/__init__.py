"""The detectors that come with Holdfast: plug-ins like anybody else's, one file each."""
