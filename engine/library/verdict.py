"""The answer of `negengine export --check`: whether a checkpoint can be exported, and what was looked at."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str  # its name, such as `tokenizer`
    said: str  # what was found, or why it stands against an export
    possible: bool = True  # whether an export is possible as far as this goes


@dataclass(frozen=True)
class Verdict:
    """Whether a checkpoint can be exported."""

    name: str  # what the model is called
    task: str  # what it would be exported for
    findings: tuple[Finding, ...]  # in the order in which an export would meet them

    @property
    def possible(self) -> bool:
        return all(finding.possible for finding in self.findings)

    def lines(self) -> list[str]:
        width = max(len(finding.what) for finding in self.findings)
        rows = [f"  {item.what:{width}}  {'' if item.possible else 'no: '}{item.said}" for item in self.findings]
        return [f"{self.name} {'can' if self.possible else 'cannot'} be exported for {self.task}", *rows]

    def document(self) -> dict[str, Any]:
        findings = [asdict(finding) for finding in self.findings]
        return {"model": self.name, "task": self.task, "possible": self.possible, "findings": findings}
