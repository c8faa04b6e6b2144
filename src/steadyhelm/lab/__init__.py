"""The lab: labelled runs in, figures out, through the same session that watches live agents."""
