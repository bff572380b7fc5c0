"""What a policy practises on in single turns: tasks, how their answers become candidates, and the judge's verdicts on them."""
