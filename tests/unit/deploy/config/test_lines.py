"""The lines of keys, as TOML's own grammar has them."""

from __future__ import annotations

from deploy.config.reading import find_lines

WRITTEN = '''\
top.dotted = 1 # [not.a.header]

[one]
name = "[two]"
name2 = """
[two]
name = 5
""" # ]
list = [
  "]", # ]
  { name = 1 },
]
last = 1
"quoted name" = 1
'literal' . "dotted" = 1
inline = { inner = 1, deep = { deeper = 2 } }

[ two . "three" ]
name = 1
[[many]]
name = 1
[[many]]
name = 2
other = """\\
  \\"""] """
end = \'\'\'
]\'\'\'
[two]
name = 1
'''


def test_each_key_has_the_line_where_its_statement_begins() -> None:
    """Names that stand in several sections, in strings or in comments are not mixed up."""
    lines = find_lines(WRITTEN)
    assert lines == {
        ("top",): 1,
        ("top", "dotted"): 1,
        ("one",): 3,
        ("one", "name"): 4,
        ("one", "name2"): 5,
        ("one", "list"): 9,
        ("one", "last"): 13,
        ("one", "quoted name"): 14,
        ("one", "literal"): 15,
        ("one", "literal", "dotted"): 15,
        ("one", "inline"): 16,
        ("one", "inline", "inner"): 16,
        ("one", "inline", "deep"): 16,
        ("one", "inline", "deep", "deeper"): 16,
        ("two",): 18,
        ("two", "three"): 18,
        ("two", "three", "name"): 19,
        ("many",): 20,
        ("many", "name"): 21,
        ("many", "other"): 24,
        ("many", "end"): 26,
        ("two", "name"): 29,
    }


def test_windows_line_ends_are_one() -> None:
    """And what other programs take for one, in a string, is none."""
    assert find_lines('a = "\u2028"\r\n[b]\r\nc = 1\r\n')["b", "c"] == 3


def test_what_would_take_long_has_no_line() -> None:
    """A list of so many lines is no configuration; what stands before it has its line."""
    many = "a = 1\nb = [\n" + '"]",\n' * 20_000 + "]\nc = 1\n"
    assert find_lines(many) == {("a",): 1}
