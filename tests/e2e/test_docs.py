"""The transcripts in README.md and docs/ are what the commands really print."""

import pytest
import transcripts

from conftest import BUILD, ROOT

DOCUMENTS = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if path.exists()]
WITH_TRANSCRIPT = [path for path in DOCUMENTS if transcripts.BLOCK.search(path.read_text())]
# Each records several programs, or large ones; what they claim is tested of smaller ones too: in test_shapes.py, test_zero.py,
# test_replay.py, test_retained.py, test_estimate.py and test_linear_loop.py.
LONG = ("estimates.md", "replay.md", "retained.md", "shapes.md", "techniques.md", "tutorial-fsdp2.md", "tutorial-linear-loop.md", "zero.md")
PARAMETERS = [
    pytest.param(path, id=path.name, marks=[pytest.mark.long] if path.name in LONG else []) for path in WITH_TRANSCRIPT
]


@pytest.mark.parametrize("document", PARAMETERS)
def test_transcript_is_what_the_commands_print(document, gdb_works):
    wrong = transcripts.differences(document, BUILD)
    assert not wrong, "\n\n".join(wrong)


def test_a_line_that_is_not_printed_is_noticed():
    assert not transcripts.matches(["peak: 5 bytes"], ["peak: 4 bytes"])
    assert not transcripts.matches(["peak: 5 bytes"], [])
    assert transcripts.matches(["a", "...", "z at 0x7f0000aa"], ["a", "b", "c", "z at 0x7f0000bb"])
