"""What a run may spend: limits that adapt to its progress, budgets for child runs, task profiles, prices."""
