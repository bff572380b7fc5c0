"""What a task's policy allowed a candidate to leave to others, in a sentence."""

from __future__ import annotations

from sandbox.verdict import Verdict

_LEFT = {"library", "delegation", "torch-computation"}


def policy_text(verdict: Verdict) -> str:
    """Say what the policy allows, and what was made of it; empty where the guard did not watch the candidate run."""
    if verdict.guard is None or not verdict.guard.ok or verdict.verify is None:
        return ""
    left = {finding.rule for finding in verdict.guard.findings if finding.severity == "label"} & _LEFT
    if verdict.task.policy == "library-ok":
        told = (
            "torch may compute, and did: see delegation" if "delegation" in left else "torch may compute, and did not"
        )
    elif left:
        told = "cuBLAS may do matrix products and cuDNN convolutions, and did: see " + ", ".join(sorted(left))
    elif verdict.environment.get("device") == "cpu":
        told = "torch may not compute, and did not"
    else:
        told = "cuBLAS may do matrix products and cuDNN convolutions; all that ran is the candidate's own"
    return f"policy {verdict.task.policy}: {told}"
