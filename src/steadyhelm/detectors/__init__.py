"""The detectors that come with Steadyhelm: plug-ins like anybody else's, one file each."""
