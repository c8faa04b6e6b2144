"""What a run may spend: limits that follow its progress, shares for children, task profiles, prices."""
