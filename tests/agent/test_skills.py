"""Skills: loaded leniently, validated by the published rules, disclosed by and by."""

from __future__ import annotations

from agent.skills import load_skills
from agent.tools.skill import skill_tool


def write(folder, name, text, **files):
    skill = folder / name
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(text)
    for path, content in files.items():
        target = skill / "references" / f"{path}.md"
        target.parent.mkdir(exist_ok=True)
        target.write_text(content)


GOOD = "---\nname: fuse\ndescription: Fuse it.\nmetadata:\n  main: 'true'\n---\n# Body\n\n---\nrule\n"


def test_a_good_skill_loads_whole_and_without_complaint(tmp_path):
    write(tmp_path, "fuse", GOOD, tiles="about tiles")
    skills = load_skills([tmp_path])
    assert skills.problems == ()
    assert skills.main is skills.all[0]
    assert skills.main.body == "# Body\n\n---\nrule"
    assert skills.main.resources == ("references/tiles.md",)


def test_a_wrong_name_is_reported_and_loaded_all_the_same(tmp_path):
    write(tmp_path, "fuse", "---\nname: Fuse_It\ndescription: Fuse it.\n---\nbody")
    skills = load_skills([tmp_path])
    assert [skill.name for skill in skills.all] == ["Fuse_It"]
    assert "must equal the folder's" in skills.problems[0]


def test_without_description_or_front_matter_it_is_left_out_with_a_reason(tmp_path):
    write(tmp_path, "one", "---\nname: one\n---\nbody")
    write(tmp_path, "two", "no front matter")
    write(tmp_path, "three", "---\nname: [\n---\nbody")
    skills = load_skills([tmp_path])
    assert skills.all == ()
    assert sorted(problem.rsplit("/", 2)[1] for problem in skills.problems) == ["one", "three", "two"]


def test_a_colon_that_breaks_the_front_matter_is_quoted(tmp_path):
    write(tmp_path, "one", "---\nname: one\ndescription: Use when: it's slow\n---\nbody")
    skills = load_skills([tmp_path])
    assert skills.all[0].description == "Use when: it's slow"


def test_the_first_of_two_skills_with_one_name_counts(tmp_path):
    write(tmp_path / "project", "fuse", GOOD)
    write(tmp_path / "user", "fuse", GOOD.replace("# Body", "# Other"))
    skills = load_skills([tmp_path / "project", tmp_path / "user"])
    assert len(skills.all) == 1
    assert skills.all[0].body.startswith("# Body")
    assert "another skill is called 'fuse'" in skills.problems[0]


async def test_the_tool_reads_the_body_and_its_files_and_nothing_else(tmp_path):
    write(tmp_path / "skills", "fuse", GOOD, tiles="about tiles")
    (tmp_path / "skills" / "fuse" / "outside.md").symlink_to("/etc/hostname")
    tool = skill_tool(load_skills([tmp_path / "skills"]))
    assert tool.schema["parameters"]["properties"]["file"]["description"].endswith("such as references/tiles.md.")
    body = await tool.run({"name": "fuse"})
    assert "# Body" in body.text
    assert "- references/tiles.md" in body.text
    assert (await tool.run({"name": "fuse", "file": "references/tiles.md"})).text == "about tiles"
    for path in ("../../secret", "/etc/hostname", "outside.md", "SKILL.md"):
        refused = await tool.run({"name": "fuse", "file": path})
        assert not refused.ok
        assert "references/tiles.md" in refused.text


def test_the_bundled_skills_load_without_complaint_and_one_is_the_main_one():
    skills = load_skills()
    assert skills.problems == ()
    assert skills.main is not None
