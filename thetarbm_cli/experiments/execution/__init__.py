"""From a suite to finished runs: the plan, the jobs, and where they are done."""
