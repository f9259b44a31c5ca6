"""There are no circles of files within a room (tests/circles.py)."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import circles  # noqa: E402


def test_no_two_files_of_a_room_use_each_other():
    found = [unit for room in circles.rooms() for unit in circles.in_circles(room)]
    assert found == [], "tests/circles.py -v ROOM says which names tie these files"


def room_of(tmp_path, **files):
    for name, text in files.items():
        path = tmp_path / "room" / name.replace("_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return circles.in_circles("room", tmp_path)


def test_a_circle_is_seen_through_a_call(tmp_path):
    assert room_of(
        tmp_path,
        a_h="void gm_a(void);\nvoid gm_b(void);\n",
        a_c='#include "room/a.h"\n\nvoid gm_a(void)\n{\n\tgm_b();\n}\n',
        b_c='#include "room/a.h"\n\nvoid gm_b(void)\n{\n}\n',
    ) == ["room/a", "room/b"]


def test_a_type_a_comment_and_a_static_function_of_the_same_name_are_no_call(tmp_path):
    assert room_of(
        tmp_path,
        a_c="struct gm_b;\n/* gm_b() */\n\nvoid gm_a(struct gm_b *b)\n{\n}\n",
        b_c="void gm_b(void)\n{\n\tgm_a(0);\n}\n",
        c_c="static void gm_b(void)\n{\n}\n\nvoid gm_c(void)\n{\n\tgm_b();\n}\n",
    ) == []
